"""Global tensors: tensors whose shards are on the ranks of a placement.

    placement = flow.placement("cpu", ranks=[0, 1])
    x = flow.tensor(data).to_global(placement, flow.sbp.split(0))      x.sbp      x.to_local()

Every rank has the whole tensor before `to_global` and a shard of it afterwards. In compiled functions `to_global`
states the layout of a value from there on. Importing this module gives tensors these methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import NdSbp, broadcast
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.sbp import Sbp
from oneflow.frontend.core.arrays import from_shard, is_on_device, is_on_ranks, redistribute, to_array
from oneflow.frontend.core.dispatch import current_builder, dispatch
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.core.spec import TensorSpec
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.function import Function
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor, wrapped
from oneflow.frontend.tracing.capture import layout_of
from oneflow.passes.sbp.annotations import PARALLEL_CAST
from oneflow.passes.sbp.graph import cast_layout
from oneflow.passes.sbp.submeshes import placement_of
from oneflow.runtime.global_array import Placement

if TYPE_CHECKING:
    from oneflow.runtime.shards import MeshLayout


def to_global(
    x: Tensor,
    placement: Placement | None = None,
    sbp: Any = None,
    *,
    grad_sbp: Any = None,
    check_meta: bool = True,
    copy: bool = False,
) -> Tensor:
    """The tensor `x` on a placement with an SBP layout.

    Args:
        x: outside of compiled functions the same on every rank (the values of rank 0 count), or a global tensor.
        placement: the ranks; None for the ranks of `x`, or the ranks of the compiled function.
        sbp: `flow.sbp.split(axis)`, `flow.sbp.broadcast` or `flow.sbp.partial_sum`, one for each axis of the mesh;
            None for the layout of `x`. A compiled function knows the layouts of arguments, captured tensors and
            results of `to_global`; another tensor is whole on the ranks then.
        grad_sbp: the layout of the gradient by `x`; None for the layout of `x`, in compiled functions for the
            cheapest.
        check_meta: taken for programs of OneFlow; types and layouts are always compared.
        copy: whether the result has its own memory where `x` has the placement and layout already.

    Raises:
        OneFlowError: the layout does not fit the tensor and the mesh, or there is no placement.
    """
    builder: Any = current_builder()
    if not builder.eager:
        at, stated = (stated_layout(x) if sbp is None else None) or (None, None)
        return _cast(builder, x, placement or at, stated or sbp, grad_sbp)
    known = layout_of(x)
    at = placement or (known[0] if known else None)
    if at is None:
        raise fail("expected a placement, such as flow.placement('cpu', ranks=[0, 1])")
    nd = _layout(at, sbp, x) if sbp is not None or known is None else known[1]
    if known == (at, nd) and grad_sbp is None:
        return cast(Any, x).clone() if copy else x
    source = known or (None, ())
    if grad_sbp is not None:
        source = source[0], _layout(source[0] or at, grad_sbp, x)
    moved: Tensor = ToPlacement.apply(x, at, nd, source)
    return moved


def _layout(at: Placement, sbp: Any, x: Tensor) -> NdSbp:
    """The layout of a tensor on a placement.

    Raises:
        OneFlowError: the layout does not fit the tensor and the mesh; a OneFlowTypeError if it is no layout.
    """
    try:
        return at.layout(sbp, x.desc)
    except (TypeError, ValueError) as error:
        raise fail(str(error), kind=error) from None


class ToPlacement(Function):
    """A tensor with another placement and layout, or with placement None whole in every process; the gradient is
    moved back.
    """

    @staticmethod
    def forward(ctx: Any, x: EagerTensor, at: Placement | None, nd: NdSbp, source: Any) -> EagerTensor:
        """The global tensor; `source` is the placement and layout of the gradient."""
        ctx.source, ctx.at, data = source, (at, nd), x.storage
        if at is None:
            return wrapped(to_array(data))
        return EagerTensor(BUILDER.wrap(redistribute(data, at, nd)))

    @staticmethod
    def backward(ctx: Any, grad: EagerTensor) -> Any:
        """The gradient, moved back."""
        return ToPlacement.apply(grad, *ctx.source, ctx.at), None, None, None


def stated_layout(x: Tensor) -> tuple[Placement | None, NdSbp] | None:
    """The placement and layout of a global tensor; in a trace, None where the function states no layout."""
    builder: Any = current_builder()
    if builder.eager or isinstance(x, EagerTensor):
        found: tuple[Placement | None, NdSbp] | None = layout_of(x)
        return found
    value = builder.read(x).handle
    if isinstance(value.owner, ir.Block):
        return _layout_of_argument(builder, value)
    op = value.owner.operation
    return (placement_in_trace(x), cast_layout(op, REGISTRY)) if op.name == PARALLEL_CAST else None


def _layout_of_argument(builder: Any, value: ir.Value) -> tuple[Placement | None, NdSbp] | None:
    """The placement and layout of an argument of a trace, or of a captured tensor; None where nothing is stated."""
    number = ir.BlockArgument(value).arg_number
    inputs = [*builder.argument_specs, *builder.captures.inputs]
    if not isinstance(inputs[number], TensorSpec):
        captured: tuple[Placement | None, NdSbp] | None = layout_of(inputs[number])
        return captured
    spec = inputs[number]
    return None if spec.sbp is None else (spec.placement, spec.sbp)


def placement_in_trace(x: Tensor) -> Placement | None:
    """The placement of a value of a trace, which is the placement of operands; None where no operand has one."""
    builder: Any = current_builder()
    pending: list[ir.Value] = [builder.read(x).handle]
    seen: set[ir.Value] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, ir.Block):
            placement = (_layout_of_argument(builder, value) or (None, ()))[0]
        else:
            placement = _placement_of_cast(builder, value.owner.operation)
            pending += [] if placement else value.owner.operation.operands
        if placement is not None:
            return placement
    return None


def _placement_of_cast(builder: Any, op: ir.Operation) -> Placement | None:
    """The placement that a cast names; None for other operations."""
    named = op.name == PARALLEL_CAST and "placement" in op.attributes
    placement: Placement | None = builder.placements.named(placement_of(op)) if named else None
    return placement


def _sbp_in_trace(x: Tensor) -> tuple[Sbp, ...]:
    """The layout that a traced function states of a value.

    Raises:
        TraceError: the layout is inferred after the trace.
    """
    stated = stated_layout(x)
    if stated is None:
        raise fail("x.sbp: the layout is inferred after the function is traced; x.to_global(sbp=..) states it")
    return stated[1]


def _cast(builder: Any, x: Tensor, placement: Placement | None, sbp: Any, grad_sbp: Any) -> Tensor:
    """A cast to a layout, in a trace."""
    name = builder.add_placement(placement)
    at: Placement | None = placement or builder.placements.with_axes_of(sbp)
    if at is None:
        raise fail("expected a placement: pass one, or give it to flow.compile")
    try:
        nd = broadcast(at.mesh) if sbp is None else at.layout(sbp, x.desc)
        attributes: dict[str, Any] = {"nd_sbp": nd}
        if grad_sbp is not None:
            home = builder.placements.with_axes_of(grad_sbp)
            attributes |= {"grad_mode": "manual", "grad_nd_sbp": home.layout(grad_sbp, x.desc)}
    except (TypeError, ValueError) as error:
        raise fail(f"to_global: {error}") from None
    return dispatch("hierarchical_parallel_cast", x, **attributes, **({"placement": name} if name else {}))


def to_local(x: EagerTensor, *, copy: bool = False) -> Tensor:
    """The shard of a global tensor on this rank, in the same memory or a copy.

    If one process has all ranks, the shard of the first.

    The gradient by `x` has the layout of `x`: every rank passes the gradient of its own shard.

    Raises:
        RuntimeError: `x` is no global tensor, or this rank has no shard of it.
    """
    data = x.storage
    if not is_on_ranks(data):
        raise refuse("expected a global tensor; x.to_global(placement, sbp) makes one")
    try:
        data.local()
    except ValueError as error:
        raise refuse(str(error)) from None
    shard: Any = LocalShard.apply(x)
    local: Tensor = shard.clone() if copy else shard
    return local


def _refuse_in_trace(x: Tensor, *, copy: bool = False) -> Tensor:
    """Refuses `to_local` in compiled functions, whose tensors are whole.

    Raises:
        TraceError: always.
    """
    raise fail("to_local: expected a tensor outside of compiled functions, whose tensors are whole; return it, "
               "and call to_local() on the result")  # fmt: skip


class LocalShard(Function):
    """The shard of a global tensor on this rank."""

    @staticmethod
    def forward(ctx: Any, x: EagerTensor) -> EagerTensor:
        """The shard, in the same memory."""
        data: Any = x.storage
        ctx.layout, shard = (data.placement, data.layout), data.local()
        return EagerTensor(BUILDER.wrap(shard)) if is_on_device(shard) else wrapped(shard)

    @staticmethod
    def backward(ctx: Any, grad: EagerTensor) -> Any:
        """The gradients of all shards as one global tensor."""
        return FromLocalShard.apply(grad, *ctx.layout)


class FromLocalShard(Function):
    """The global tensor of which every rank has a shard."""

    @staticmethod
    def forward(ctx: Any, shard: EagerTensor, placement: Placement, layout: MeshLayout) -> EagerTensor:
        """The shards as one global tensor."""
        ctx.at, data = (placement, layout.nd), shard.storage
        copy = data.copy() if is_on_device(data) else np.array(to_array(data), order="C")
        return EagerTensor(BUILDER.wrap(from_shard(copy, placement, layout)))

    @staticmethod
    def backward(ctx: Any, grad: EagerTensor) -> Any:
        """The shard of the gradient on this rank."""
        return to_local(to_global(grad, *ctx.at)), None, None  # type: ignore[arg-type]


def _placement(x: EagerTensor) -> Placement | None:
    """The placement of a global tensor; None for any other."""
    layout = layout_of(x)
    return None if layout is None else layout[0]


def _sbp(x: EagerTensor) -> tuple[Sbp, ...] | None:
    """The layout of a global tensor, one SBP for each axis of the mesh; None for any other."""
    layout = layout_of(x)
    return None if layout is None else layout[1]


for _name in ("to_global", "local_to_global", "global_to_global", "to_consistent"):
    setattr(Tensor, _name, to_global)
Tensor.to_local = _refuse_in_trace  # type: ignore[attr-defined]
Tensor.placement = property(placement_in_trace)  # type: ignore[attr-defined]
Tensor.sbp = property(_sbp_in_trace)  # type: ignore[attr-defined]
Tensor.is_global = property(lambda x: placement_in_trace(x) is not None)  # type: ignore[attr-defined]
EagerTensor.to_local = to_local  # type: ignore[attr-defined]
EagerTensor.placement = property(_placement)  # type: ignore[attr-defined]
EagerTensor.sbp = property(_sbp)  # type: ignore[attr-defined]
EagerTensor.is_global = property(lambda x: layout_of(x) is not None)  # type: ignore[attr-defined]
