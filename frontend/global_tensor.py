"""Global tensors: tensors whose shards lie on the ranks of a placement.

    placement = flow.placement("cpu", ranks=[0, 1])
    x = flow.tensor(data).to_global(placement, flow.sbp.split(0))      x.sbp      x.to_local()

Every rank has the whole tensor before `to_global` and a shard of it afterwards. In compiled functions `to_global`
states the layout of a value from there on. Importing this module gives tensors these methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oneflow.dialect.nd_sbp import NdSbp
from oneflow.dialect.sbp import Sbp
from oneflow.frontend.core.arrays import from_shard, is_on_device, is_on_ranks, redistribute, to_array
from oneflow.frontend.core.dispatch import current_builder, dispatch
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.function import Function
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor, wrapped
from oneflow.frontend.tracing.capture import layout_of
from oneflow.runtime.global_array import Placement

if TYPE_CHECKING:
    from oneflow.runtime.shards import MeshLayout


def to_global(x: Tensor, placement: Placement | None = None, sbp: Any = None, *, grad_sbp: Any = None) -> Tensor:
    """The tensor `x` on a placement with an SBP layout.

    Args:
        x: outside of compiled functions the same on every rank (the values of rank 0 count), or a global tensor.
        placement: the ranks; None for the ranks of `x`, or the ranks of the compiled function.
        sbp: `flow.sbp.split(axis)`, `flow.sbp.broadcast` or `flow.sbp.partial_sum`, one for each axis of the mesh.
        grad_sbp: the layout of the gradient by `x`; None for the layout of `x`, in compiled functions for the
            cheapest.

    Raises:
        OneFlowError: the layout does not fit the tensor and the mesh, or there is no placement.
    """
    builder: Any = current_builder()
    if not builder.eager:
        return _cast(builder, x, placement, sbp, grad_sbp)
    known = layout_of(x)
    at = placement or (known[0] if known else None)
    if at is None:
        raise fail("expected a placement, such as flow.placement('cpu', ranks=[0, 1])")
    nd = _layout(at, sbp, x) if sbp is not None or known is None else known[1]
    if known == (at, nd) and grad_sbp is None:
        return x
    source = known or (None, ())
    if grad_sbp is not None:
        source = source[0], _layout(source[0] or at, grad_sbp, x)
    layout: Tensor = ToPlacement.apply(x, at, nd, source)
    return layout


def _layout(at: Placement, sbp: Any, x: Tensor) -> NdSbp:
    """The layout of a tensor on a placement.

    Raises:
        OneFlowError: the layout does not fit the tensor and the mesh.
    """
    try:
        return at.layout(sbp, x.desc)
    except ValueError as error:
        raise fail(str(error)) from None


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


def _cast(builder: Any, x: Tensor, placement: Placement | None, sbp: Any, grad_sbp: Any) -> Tensor:
    """A cast to a layout, in a trace."""
    name = builder.add_placement(placement)
    at: Placement | None = placement or builder.placements.with_axes_of(sbp)
    if at is None:
        raise fail("expected a placement: pass one, or give it to flow.compile")
    try:
        attributes: dict[str, Any] = {"nd_sbp": at.layout(sbp, x.desc)}
        if grad_sbp is not None:
            home = builder.placements.with_axes_of(grad_sbp)
            attributes |= {"grad_mode": "manual", "grad_nd_sbp": home.layout(grad_sbp, x.desc)}
    except (TypeError, ValueError) as error:
        raise fail(f"to_global: {error}") from None
    return dispatch("hierarchical_parallel_cast", x, **attributes, **({"placement": name} if name else {}))


def to_local(x: EagerTensor) -> Tensor:
    """The shard of a global tensor on this rank, in the same memory; if one process has all ranks, the shard of the
    first.

    The gradient by `x` has the layout of `x`: every rank gives the gradient of its own shard.

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
    shard: Tensor = LocalShard.apply(x)
    return shard


def _refuse_in_trace(x: Tensor) -> Tensor:
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
EagerTensor.to_local = to_local  # type: ignore[attr-defined]
EagerTensor.placement = property(_placement)  # type: ignore[attr-defined]
EagerTensor.sbp = property(_sbp)  # type: ignore[attr-defined]
EagerTensor.is_global = property(lambda x: layout_of(x) is not None)  # type: ignore[attr-defined]
