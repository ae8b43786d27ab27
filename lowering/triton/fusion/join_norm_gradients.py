"""`oneflow-join-norm-gradients`: one kernel computes all gradients of a layer or RMS normalization.

The kernel (`templates.norm_gradients`) reads each row once. A program computes the gradients of its rows, and partial
sums for the gradients of the parameters, which a small reduction sums. Where the forward normalization has no other
users, the kernel recomputes the mean and variance of its rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from oneflow.dialect import dtypes
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Value
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.record import Registry
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.views import View
from oneflow.lowering.triton.templates.norm_gradients import ADDEND, NORMS, LaunchConfig, Norm
from oneflow.lowering.triton.templates.outline_templates import call_template, sums_of
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather

ELEMENT_TYPES = (dtypes.float16, dtypes.bfloat16, dtypes.float32)


@register_pass
@dataclass(frozen=True)
class JoinNormGradients(Pass):
    """Computes the gradients of the rows and of the parameters of a layer or RMS normalization in one kernel.

        %dx = "oneflow.layer_norm_grad"(%dy, %x, %mean, %inv, %gamma)
        %db, %dg = "oneflow.layer_norm_param_grad"(%dy, %x, %mean, %inv)
    becomes
        %dx, %b, %g = call @layer_norm_gradients_0(%dy, %x, %mean, %inv, %gamma, ..)
        %db = "oneflow.reduce_sum"(%b) {axis = [0 : si32]}
        %dg = "oneflow.reduce_sum"(%g) {axis = [0 : si32]}

    where rows fit in registers and there are many rows. The kernel recomputes %mean and %inv where the normalization
    has no other users. If the only use of %dx is an addition, the kernel adds; the kernel also computes partial sums
    of %dx over rows, which are the gradient of a bias before a residual.
    """

    name: ClassVar[str] = "oneflow-join-norm-gradients"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Joins every pair of gradients that reads the same tensors."""
        ops = gather(module.operation)
        positions = {r: i for i, op in enumerate(ops) for r in op.results}
        for pair in [pair for norm in NORMS for pair in _pairs(norm, ops, positions, registry)]:
            pair.join(module, registry)


def _pairs(norm: Norm, ops: list[ir.Operation], positions: dict[ir.Value, int],
           registry: Registry) -> list[_Pair]:  # fmt: skip
    """The pairs of a normalization's gradients that can be one kernel."""
    names = norm.gradient, norm.parameter_gradient
    rows, parameters = ([op for op in ops if op.name == dialect.PREFIX + n] for n in names)
    pairs = []
    for op in parameters:
        shared_operands = list(op.operands)
        partner = next((o for o in rows if list(o.operands)[: len(shared_operands)] == shared_operands), None)
        if partner is not None and _fits(norm, partner, op, positions, registry):
            rows.remove(partner)
            first = min(partner, op, key=lambda o: positions[o.results[0]])
            addition = _addition(partner, positions[first.results[0]], positions, registry)
            pairs.append(_Pair(norm, partner, op, first, addition))
    return pairs


def _fits(norm: Norm, by_row: ir.Operation, by_parameter: ir.Operation, positions: dict[ir.Value, int],
          registry: Registry) -> bool:  # fmt: skip
    """Whether two gradients have the same rows, which fit the kernel, and operands defined before both operations."""
    ops = IRBuilder(registry)
    row, parameter = ops.call_of(by_row), ops.call_of(by_parameter)
    desc: TensorDesc = row.x.desc
    weight = row.inputs[norm.weight]
    if desc.shape is None or None in desc.shape or desc.dtype not in ELEMENT_TYPES:
        return False
    begin = row.inputs[norm.statistics[-1]].rank
    same = begin == parameter.attrs.get("begin_params_axis", begin) % desc.rank
    has_full_weight = weight is None or weight.rank == desc.rank - begin
    sizes = [size or 0 for size in desc.shape]
    count, length = math.prod(sizes[:begin]), math.prod(sizes[begin:])
    first = min(positions[by_row.results[0]], positions[by_parameter.results[0]])
    is_available = all(positions.get(v, -1) < first for v in by_row.operands)
    limits = gpu_target().kernels.norm_gradients
    is_size_specialized = count >= limits.min_rows and 1 < length <= limits.max_row
    return same and has_full_weight and is_available and is_size_specialized


def _addition(
    by_row: ir.Operation, first: int, positions: dict[ir.Value, int], registry: Registry
) -> ir.Operation | None:
    """The only user of a gradient, where it adds the gradient to a tensor that is known before position `first`."""
    (dx,), users = by_row.results, [use.owner for use in by_row.results[0].uses]
    adds = len(users) == 1 and users[0].name == f"{dialect.PREFIX}broadcast_add"
    if not adds or IRBuilder(registry).call_of(by_row).inputs.get(ADDEND) is not None:
        return None
    is_compatible = all(v.type == dx.type and (v == dx or positions.get(v, -1) < first) for v in users[0].operands)
    return users[0] if is_compatible else None


@dataclass(frozen=True)
class _Pair:
    """The gradients of a normalization: of the rows (perhaps with a tensor added) and of the parameters.

    `first` is the first of the two operations in program order.
    """

    norm: Norm
    by_row: ir.Operation
    by_parameter: ir.Operation
    first: ir.Operation
    addition: ir.Operation | None

    def join(self, module: ir.Module, registry: Registry) -> None:
        """Replaces both by one kernel and the sums of its partial sums."""
        ops = IRBuilder(registry, ir.InsertionPoint(self.first), self.first.location)
        call, forward, total = ops.call_of(self.by_row), self._forward(), (self.addition or self.by_row).results[0]
        begin, shape = call.inputs[self.norm.statistics[-1]].rank, call.x.shape
        recomputed = self.norm.statistics if forward is not None else ()
        operands = {n: v.handle for n, v in call.inputs.items() if v is not None and n not in recomputed}
        if self.addition is not None:
            operands[ADDEND] = next(v for v in self.addition.operands if v != self.by_row.results[0])
        summed = sums_of(total, View.contiguous(tuple(shape)), math.prod(shape[begin:]), registry)
        epsilon = {} if forward is None else {"epsilon": ops.call_of(forward).attrs["epsilon"]}
        description: dict[str, Any] = {
            "op": self.norm.template, "part": "", "attributes": {"begin": begin, **epsilon},
            "operands": list(operands), "sums": ["dx"] if summed else [],
        }  # fmt: skip
        config = LaunchConfig.of(math.prod(shape[:begin]), math.prod(shape[begin:]))
        sums = TensorDesc((config.programs, *shape[begin:]), dtypes.float32).to_mlir()
        types = [total.type, *(sums for _ in (*self.norm.sums, *description["sums"]))]
        dx, *partial = call_template(module, self.first, list(operands.values()), types, description)
        for old, part in zip(self.by_parameter.results, partial[: len(self.norm.sums)], strict=True):
            _replace_by_sum(old, part, ops)
        for op in summed:
            _replace_by_sum(op.results[0], partial[-1], IRBuilder(registry, ir.InsertionPoint(op), op.location))
        total.replace_all_uses_with(dx)
        for op in (*summed, self.addition, self.by_row, self.by_parameter, forward):
            if op is not None:
                op.erase()

    def _forward(self) -> ir.Operation | None:
        """The forward normalization, where only the gradients need it."""
        x, *statistics = list(self.by_parameter.operands)[1:]
        if isinstance(statistics[-1], ir.BlockArgument):
            return None
        op = statistics[-1].owner
        is_forward = op.name == dialect.PREFIX + self.norm.forward and list(op.results)[1:] == statistics
        users = {use.owner for r in op.results for use in r.uses}
        return op if is_forward and op.operands[0] == x and users <= {self.by_row, self.by_parameter} else None


def _replace_by_sum(old: ir.Value, partial: ir.Value, ops: IRBuilder) -> None:
    """Replaces a value by the sum of the programs' partial sums."""
    total: Value = ops.reduce_sum(ops.wrap(partial), axis=[0], keepdims=False)
    desc = ops.wrap(old).desc
    total = total if desc.dtype is dtypes.float32 else ops.cast(total, dtype=desc.dtype)
    total = total if total.shape == desc.shape else ops.reshape(total, shape=list(old.type.shape))
    old.replace_all_uses_with(total.handle)
