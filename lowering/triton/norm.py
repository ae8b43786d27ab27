"""`oneflow-join-norm-gradients`: the gradients of a normalization of rows by all that it takes, in one reading.

A program goes over rows: it gives their gradient, and keeps sums for the parameters, which a small reduction adds up.
Imports `templates` and the IR builder.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect import dtypes
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Value
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.record import Call, Registry
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.triton.finish import origins
from oneflow.lowering.triton.kernel import TYPES, Tensor
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.prelude import kernel_source
from oneflow.lowering.triton.sizes import power_of_two
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.templates import Filled, Part, Template, call_template, register_template
from oneflow.lowering.triton.tuning import PROCESSORS
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass

#: The longest rows that a program keeps sums of, the fewest rows that are worth it, elements of a step, programs.
LONGEST, FEWEST, STEP, PROGRAMS = 8192, 256, 4096, 2 * PROCESSORS
ELEMENTS = (dtypes.float16, dtypes.bfloat16, dtypes.float32)


@dataclass(frozen=True)
class Norm:
    """A normalization: the operators that give its gradients, and what their operands are called.

    `sums` are the sums over rows that the kernel keeps for the parameters, in the order of their gradients: `beta`
    of dy, `scale` of dy times what is normalized.
    """

    gradient: str
    parameters: str
    inverse: str
    weight: str
    sums: tuple[str, ...]

    @property
    def template(self) -> str:
        """The name of the template, which is no operator."""
        return f"{self.gradient}ients"


NORMS = (
    Norm("layer_norm_grad", "layer_norm_param_grad", "inv_variance", "gamma", ("beta", "scale")),
    Norm("rms_norm_grad", "rms_norm_param_grad", "inv_rms", "weight", ("scale",)),
)


@register_pass
@dataclass(frozen=True)
class JoinNormGradients(Pass):
    """Computes the gradients of a layer or RMS normalization by its operand and its parameters in one kernel.

        %dx = "oneflow.layer_norm_grad"(%dy, %x, %mean, %inv, %gamma)
        %db, %dg = "oneflow.layer_norm_param_grad"(%dy, %x, %mean, %inv)
    becomes
        %dx, %b, %g = call @layer_norm_gradients_0(%dy, %x, %mean, %inv, %gamma, ..)
        %db = "oneflow.reduce_sum"(%b) {axis = [0 : si32]}
        %dg = "oneflow.reduce_sum"(%g) {axis = [0 : si32]}

    where rows fit in registers and there are many.
    """

    name: ClassVar[str] = "oneflow-join-norm-gradients"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Joins every pair that reads the same tensors."""
        found: list[ir.Operation] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            found.append(op)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        places = {r: i for i, op in enumerate(found) for r in op.results}
        pairs = [(norm, *pair) for norm in NORMS for pair in _pairs(norm, found, places, registry)]
        for norm, by_row, by_parameter in pairs:
            _join(module, norm, by_row, by_parameter, places, registry)


def _pairs(norm: Norm, found: list[ir.Operation], places: dict[ir.Value, int],
           registry: Registry) -> list[tuple[ir.Operation, ir.Operation]]:  # fmt: skip
    """The gradients of a kind that are to be joined."""
    names = norm.gradient, norm.parameters
    rows, parameters = ([op for op in found if op.name == dialect.PREFIX + n] for n in names)
    pairs = []
    for op in parameters:
        given = list(op.operands)
        partner = next((o for o in rows if list(o.operands)[: len(given)] == given), None)
        if partner is not None and _fits(norm, partner, op, places, registry):
            rows.remove(partner)
            pairs.append((partner, op))
    return pairs


def _call(op: ir.Operation, ops: IRBuilder) -> Call:
    return dialect.operand_call(op, dialect.record_of(op, ops.registry), ops.wrap)


def _fits(norm: Norm, by_row: ir.Operation, by_parameter: ir.Operation, places: dict[ir.Value, int],
          registry: Registry) -> bool:  # fmt: skip
    """Whether both are about the same rows, of a size that fits, and can stand where the first of them does."""
    ops = IRBuilder(registry)
    row, parameter = _call(by_row, ops), _call(by_parameter, ops)
    desc: TensorDesc = row.x.desc
    added, weight = row.inputs.get("_add_to_output"), row.inputs[norm.weight]
    if desc.shape is None or None in desc.shape or desc.dtype not in ELEMENTS or added is not None:
        return False
    begin = row.inputs[norm.inverse].rank
    same = begin == parameter.attrs.get("begin_params_axis", begin) % desc.rank
    whole = weight is None or weight.rank == desc.rank - begin
    count, length = math.prod(desc.shape[:begin]), math.prod(desc.shape[begin:])
    first = min(places[by_row.results[0]], places[by_parameter.results[0]])
    early = all(places.get(v, -1) < first for v in by_row.operands)
    return same and whole and early and count >= FEWEST and 1 < length <= LONGEST


def _join(
    module: ir.Module,
    norm: Norm,
    by_row: ir.Operation,
    by_parameter: ir.Operation,
    places: dict[ir.Value, int],
    registry: Registry,
) -> None:
    first = min(by_row, by_parameter, key=lambda op: places[op.results[0]])
    ops = IRBuilder(registry, ir.InsertionPoint(first), first.location)
    call = _call(by_row, ops)
    begin, shape = call.inputs[norm.inverse].rank, call.x.shape
    programs, _ = _division(math.prod(shape[:begin]), math.prod(shape[begin:]))
    sums = TensorDesc((programs, *shape[begin:]), dtypes.float32).to_mlir()
    names = [n for n, v in call.inputs.items() if v is not None]
    about = {"op": norm.template, "part": "", "attributes": {}, "operands": names}
    kinds = [by_row.results[0].type, *(sums for _ in norm.sums)]
    dx, *partial = call_template(module, first, list(by_row.operands), kinds, about)
    by_row.results[0].replace_all_uses_with(dx)
    for old, part in zip(by_parameter.results, partial, strict=True):
        whole: Value = ops.reduce_sum(ops.wrap(part), axis=[0], keepdims=False)
        whole = whole if call.x.dtype is dtypes.float32 else ops.cast(whole, dtype=call.x.dtype)
        old.replace_all_uses_with(whole.handle)
    for op in (by_row, by_parameter):
        op.erase()


def _division(count: int, length: int) -> tuple[int, int]:
    """How many programs there are, and how many rows one takes at a time."""
    rows = max(STEP // power_of_two(length), 1)
    return min(PROGRAMS, -(-count // rows)), rows


def _emit(filled: Filled, norm: Norm) -> Source:
    """dx, and sums of dy and of dy * normal over the rows of each program."""
    tensors = filled.tensors
    lead = len(tensors[norm.inverse].shape)
    sizes = [s.static or 0 for s in tensors["x"].shape]
    count, length = math.prod(sizes[:lead]), math.prod(sizes[lead:])
    block, (programs, rows) = power_of_two(length), _division(count, length)
    there = "rows < " + str(count) + ("" if block == length else f") & (columns < {length}")
    weight = [f"weight = {_loaded(tensors, norm.weight, 'columns', f'columns < {length}')}"]
    lines = [
        f"columns = tl.arange(0, {block})[None, :]",
        *(weight if norm.weight in tensors else []),
        *(f"sum_of_{name} = tl.full(({rows}, {block}), 0.0, tl.float32)" for name in norm.sums),
        f"for at in range(tl.program_id(0) * {rows}, {count}, {programs * rows}):",
        f"    rows = at + tl.arange(0, {rows})[:, None]",
        f"    there = ({there}) & (columns >= 0)",
        f"    place = rows.to(tl.int64) * {length} + columns",
        *("    " + line for line in _rows(filled, norm, count, length)),
        f"target = tl.program_id(0) * {length} + tl.arange(0, {block})",
        *(
            f"tl.store({tensors[name].name} + target, tl.sum(sum_of_{name}, 0), tl.arange(0, {block}) < {length})"
            for name in norm.sums
        ),
    ]
    kernel = filled.kernel
    names = [n for n, _ in kernel.parameters]
    text = kernel_source(identifier(kernel.name), origins([kernel.func]), names, lines)
    return Source(kernel.name, text, tuple(kernel.parameters), str(programs), 8 if block * rows >= STEP else 4)


def _loaded(tensors: Mapping[str, Tensor], name: str, place: str, mask: str) -> str:
    """Elements of a tensor as f32, 0 outside of the mask."""
    return f"tl.load({tensors[name].name} + {place}, {mask}, 0.0).to(tl.float32)"


def _rows(filled: Filled, norm: Norm, count: int, length: int) -> list[str]:
    """The lines for some rows at `place`, those that are `there`."""
    tensors = filled.tensors
    element = f"tl.{TYPES[tensors['x'].element]}"
    loaded = functools.partial(_loaded, tensors)
    centred = "mean" in tensors
    centre = [f"mean = {loaded('mean', 'rows', f'rows < {count}')}"] if centred else []
    shift = [f"shift = tl.sum(slope, 1)[:, None] / {length}"] if centred else []
    added = {"beta": "dy", "scale": "dy * normal"}
    return [
        f"dy = {loaded('dy', 'place', 'there')}",
        f"inverse = {loaded(norm.inverse, 'rows', f'rows < {count}')}",
        *centre,
        f"normal = tl.where(there, ({loaded('x', 'place', 'there')}{' - mean' if centred else ''}) * inverse, 0.0)",
        "slope = dy * weight" if norm.weight in tensors else "slope = dy",
        *shift,
        f"along = tl.sum(slope * normal, 1)[:, None] / {length}",
        f"dx = (slope{' - shift' if centred else ''} - normal * along) * inverse",
        f"tl.store({tensors['dx'].name} + place, dx.to({element}), there)",
        *(f"sum_of_{name} += {added[name]}" for name in norm.sums),
    ]


def _register(norm: Norm) -> None:
    part = Part("", ("dx", *norm.sums), lambda filled: _emit(filled, norm))
    register_template(norm.template, Template(lambda call: False, (part,)))


for _norm in NORMS:
    _register(_norm)
