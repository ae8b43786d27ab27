"""`oneflow-join-norm-gradients`: the gradients of a normalization of rows by all that it takes, in one reading.

A program goes over rows: it gives their gradient, and keeps sums for the parameters, which a small reduction adds up.
Where nothing else needs the normalization, the program finds mean and variance of its rows itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect import dtypes
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Value
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.record import Call, Registry
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.codegen.emission import origins
from oneflow.lowering.triton.codegen.kernel import TYPES, Tensor, bytes_of
from oneflow.lowering.triton.codegen.prelude import kernel_source
from oneflow.lowering.triton.codegen.symbolic_sizes import power_of_two
from oneflow.lowering.triton.codegen.views import View
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.templates.outline_templates import (
    Filled,
    Part,
    Template,
    call_template,
    register_template,
    sums_of,
)
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather

#: The longest rows that a program keeps sums of, and the fewest rows that are worth it.
LONGEST, FEWEST = 8192, 256
#: Elements of a thread, warps of a processor, elements of a row that a warp reads at once, and stages of loads
#: underway, which are worth it where all warps read one row: `FULL` where one program has a processor to itself, its
#: elements have 16 bits and fill the block, and it waits for sums of a row twice: nothing else is read meanwhile.
EACH, WARPS, WIDE, STAGES, FULL = 16, 16, 256, 3, 4
#: The operand that is added to the gradient by rows, and what a program adds up, by the tensors that it goes to.
ADDED = "_add_to_output"
SUMS = {"beta": "sum_of_beta", "scale": "sum_of_scale", "dx_sums": "sum_of_dx"}
ELEMENTS = (dtypes.float16, dtypes.bfloat16, dtypes.float32)


@dataclass(frozen=True)
class Norm:
    """A normalization: the operator, and what the operands of those that give its gradients are called.

    `statistics` are the results that these take, 1 / deviation the last. `sums` are the sums over rows that the
    kernel keeps for the parameters, in the order of their gradients: `beta` of dy, `scale` of dy times what is
    normalized.
    """

    forward: str
    statistics: tuple[str, ...]
    weight: str
    sums: tuple[str, ...]

    @property
    def gradient(self) -> str:
        """The operator that gives the gradient by the rows."""
        return f"{self.forward}_grad"

    @property
    def parameters(self) -> str:
        """The operator that gives the gradients by parameters."""
        return f"{self.forward}_param_grad"

    @property
    def template(self) -> str:
        """The name of the template, which is no operator."""
        return f"{self.forward}_gradients"


NORMS = (
    Norm("layer_norm", ("mean", "inv_variance"), "gamma", ("beta", "scale")),
    Norm("rms_norm", ("inv_rms",), "weight", ("scale",)),
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

    where rows fit in registers and there are many. %mean and %inv are found in the kernel as well where the
    normalization that gives them is needed for nothing else. A tensor that %dx is only added to is added there, and
    sums of what is given over rows (the gradient of a bias before a residual) come from the kernel too.
    """

    name: ClassVar[str] = "oneflow-join-norm-gradients"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Joins every pair that reads the same tensors."""
        found = gather(module.operation)
        places = {r: i for i, op in enumerate(found) for r in op.results}
        for pair in [pair for norm in NORMS for pair in _pairs(norm, found, places, registry)]:
            pair.join(module, registry)


def _pairs(norm: Norm, found: list[ir.Operation], places: dict[ir.Value, int],
           registry: Registry) -> list[_Pair]:  # fmt: skip
    """The gradients of a kind that are to be joined."""
    names = norm.gradient, norm.parameters
    rows, parameters = ([op for op in found if op.name == dialect.PREFIX + n] for n in names)
    pairs = []
    for op in parameters:
        given = list(op.operands)
        partner = next((o for o in rows if list(o.operands)[: len(given)] == given), None)
        if partner is not None and _fits(norm, partner, op, places, registry):
            rows.remove(partner)
            first = min(partner, op, key=lambda o: places[o.results[0]])
            pairs.append(_Pair(norm, partner, op, first, _added(partner, places[first.results[0]], places, registry)))
    return pairs


def _call(op: ir.Operation, ops: IRBuilder) -> Call:
    return dialect.operand_call(op, dialect.record_of(op, ops.registry), ops.wrap)


def _fits(norm: Norm, by_row: ir.Operation, by_parameter: ir.Operation, places: dict[ir.Value, int],
          registry: Registry) -> bool:  # fmt: skip
    """Whether both are about the same rows, of a size that fits, and can stand where the first of them does."""
    ops = IRBuilder(registry)
    row, parameter = _call(by_row, ops), _call(by_parameter, ops)
    desc: TensorDesc = row.x.desc
    weight = row.inputs[norm.weight]
    if desc.shape is None or None in desc.shape or desc.dtype not in ELEMENTS:
        return False
    begin = row.inputs[norm.statistics[-1]].rank
    same = begin == parameter.attrs.get("begin_params_axis", begin) % desc.rank
    whole = weight is None or weight.rank == desc.rank - begin
    count, length = math.prod(desc.shape[:begin]), math.prod(desc.shape[begin:])
    first = min(places[by_row.results[0]], places[by_parameter.results[0]])
    early = all(places.get(v, -1) < first for v in by_row.operands)
    return same and whole and early and count >= FEWEST and 1 < length <= LONGEST


def _added(by_row: ir.Operation, first: int, places: dict[ir.Value, int], registry: Registry) -> ir.Operation | None:
    """What adds a gradient to a tensor that is there before place `first`, where nothing else reads the gradient."""
    (dx,), users = by_row.results, [use.owner for use in by_row.results[0].uses]
    adds = len(users) == 1 and users[0].name == f"{dialect.PREFIX}broadcast_add"
    if not adds or _call(by_row, IRBuilder(registry)).inputs.get(ADDED) is not None:
        return None
    like = all(v.type == dx.type and (v == dx or places.get(v, -1) < first) for v in users[0].operands)
    return users[0] if like else None


@dataclass(frozen=True)
class _Pair:
    """The gradients of a normalization, the first of both, and what adds that by rows to another tensor."""

    norm: Norm
    by_row: ir.Operation
    by_parameter: ir.Operation
    first: ir.Operation
    added: ir.Operation | None

    def join(self, module: ir.Module, registry: Registry) -> None:
        """Puts one kernel and sums of what it adds up in the place of both."""
        ops = IRBuilder(registry, ir.InsertionPoint(self.first), self.first.location)
        call, forward, total = _call(self.by_row, ops), self._forward(), (self.added or self.by_row).results[0]
        begin, shape = call.inputs[self.norm.statistics[-1]].rank, call.x.shape
        known = self.norm.statistics if forward is not None else ()
        operands = {n: v.handle for n, v in call.inputs.items() if v is not None and n not in known}
        if self.added is not None:
            operands[ADDED] = next(v for v in self.added.operands if v != self.by_row.results[0])
        summed = sums_of(total, View.contiguous(tuple(shape)), math.prod(shape[begin:]), registry)
        epsilon = {} if forward is None else {"epsilon": _call(forward, ops).attrs["epsilon"]}
        about = {
            "op": self.norm.template, "part": "", "attributes": {"begin": begin, **epsilon},
            "operands": list(operands), "sums": ["dx"] if summed else [],
        }  # fmt: skip
        division = _Division.of(math.prod(shape[:begin]), math.prod(shape[begin:]))
        sums = TensorDesc((division.programs, *shape[begin:]), dtypes.float32).to_mlir()
        kinds = [total.type, *(sums for _ in (*self.norm.sums, *about["sums"]))]
        dx, *partial = call_template(module, self.first, list(operands.values()), kinds, about)
        for old, part in zip(self.by_parameter.results, partial[: len(self.norm.sums)], strict=True):
            _add_up(old, part, ops)
        for op in summed:
            _add_up(op.results[0], partial[-1], IRBuilder(registry, ir.InsertionPoint(op), op.location))
        total.replace_all_uses_with(dx)
        for op in (*summed, self.added, self.by_row, self.by_parameter, forward):
            if op is not None:
                op.erase()

    def _forward(self) -> ir.Operation | None:
        """The normalization that the gradients are of, where nothing else needs it."""
        x, *statistics = list(self.by_parameter.operands)[1:]
        if isinstance(statistics[-1], ir.BlockArgument):
            return None
        op = statistics[-1].owner
        made = op.name == dialect.PREFIX + self.norm.forward and list(op.results)[1:] == statistics
        users = {use.owner for r in op.results for use in r.uses}
        return op if made and op.operands[0] == x and users <= {self.by_row, self.by_parameter} else None


def _add_up(old: ir.Value, partial: ir.Value, ops: IRBuilder) -> None:
    """The sum of what programs added up in the place of a value."""
    whole: Value = ops.reduce_sum(ops.wrap(partial), axis=[0], keepdims=False)
    wanted = ops.wrap(old).desc
    whole = whole if wanted.dtype is dtypes.float32 else ops.cast(whole, dtype=wanted.dtype)
    whole = whole if whole.shape == wanted.shape else ops.reshape(whole, shape=list(wanted.shape))
    old.replace_all_uses_with(whole.handle)


@dataclass(frozen=True)
class _Division:
    """How many programs there are, how many rows one takes at a time, and its warps."""

    programs: int
    rows: int
    warps: int

    @staticmethod
    def of(count: int, length: int) -> _Division:
        """The division of `count` rows: programs stay on a processor, whose warps they fill."""
        block = power_of_two(length)
        warps = max(min(block // WIDE, 4), block // (32 * EACH), 1)
        rows = max(32 * EACH * warps // block, 1)
        return _Division(min(gpu_target().sms * WARPS // warps, -(-count // rows)), rows, warps)


def _stages(norm: Norm, length: int, division: _Division, x: Tensor) -> int:
    """How many steps' loads are underway."""
    block, waits = power_of_two(length), len(norm.statistics) > 1
    alone = waits and block == length and division.warps >= WARPS and bytes_of(x.element) == 2
    return FULL if alone else STAGES if block >= WIDE else 1


def _emit(filled: Filled, norm: Norm) -> Source:
    """dx, and sums of dy and of dy * normal over the rows of each program."""
    tensors = filled.tensors
    sizes, begin = [s.static or 0 for s in tensors["x"].shape], int(filled.attributes["begin"])
    count, length = math.prod(sizes[:begin]), math.prod(sizes[begin:])
    block, division = power_of_two(length), _Division.of(count, length)
    programs, rows, stages = division.programs, division.rows, _stages(norm, length, division, tensors["x"])
    inside = "" if block == length else f"columns < {length}"
    known = "" if count % rows == 0 else f"rows < {count}"
    step = _Step(filled, norm, length, known, inside)
    sums = {name: kept for name, kept in SUMS.items() if name in tensors}
    lines = [
        f"columns = tl.arange(0, {block})[None, :]",
        *([f"weight = {step.loaded(norm.weight, 'columns', inside)}"] if norm.weight in tensors else []),
        *(f"{name} = tl.full(({rows}, {block}), 0.0, tl.float32)" for name in sums.values()),
        f"for at in tl.range(tl.program_id(0) * {rows}, {count}, {programs * rows}, num_stages={stages}):",
        f"    rows = at + tl.arange(0, {rows})[:, None]",
        f"    place = rows.to(tl.int64) * {length} + columns",
        *("    " + line for line in step.lines()),
        f"target = tl.program_id(0) * {length} + columns",
        *(
            f"tl.store({tensors[name].name} + target, tl.sum({kept}, 0)[None, :]{_after(inside)})"
            for name, kept in sums.items()
        ),
    ]
    kernel = filled.kernel
    names = [n for n, _ in kernel.parameters]
    text = kernel_source(identifier(kernel.name), origins([kernel.func]), names, lines)
    return Source(kernel.name, text, tuple(kernel.parameters), str(programs), division.warps)


def _after(*texts: str) -> str:
    """Further arguments of a call, those that are not empty."""
    return "".join(f", {t}" for t in texts if t)


@dataclass(frozen=True)
class _Step:
    """Some rows of `length` elements at `place`; the masks of rows and columns are empty where all are there."""

    filled: Filled
    norm: Norm
    length: int
    known: str
    inside: str

    def lines(self) -> list[str]:
        """dx of the rows, and what they add to the sums."""
        tensors, length = self.filled.tensors, self.length
        shift = f" - shift / {length}" if self._centred else ""
        added = f" + {self.loaded(ADDED, 'place', self._there)}" if ADDED in tensors else ""
        kept = {"beta": "dy", "scale": "dy * normal", "dx_sums": _real("dx", self.known)}
        return [
            f"dy = {self.loaded('dy', 'place', self._there)}",
            f"x = {self.loaded('x', 'place', self._there)}",
            "slope = dy * weight" if self.norm.weight in tensors else "slope = dy",
            *(self._found() if "epsilon" in self.filled.attributes else self._given()),
            f"dx = (slope{shift} - normal * (along / {length})) * inverse{added}",
            f"tl.store({tensors['dx'].name} + place, dx.to(tl.{TYPES[tensors['x'].element]}){_after(self._there)})",
            *(f"{SUMS[name]} += {value}" for name, value in kept.items() if name in tensors),
        ]

    def _found(self) -> list[str]:
        """Statistics of the rows, and sums of slopes beside them: a reduction takes long whatever it adds up."""
        length, epsilon = self.length, self.filled.attributes["epsilon"]
        centre = [f"mean, shift = {_sums('x', 'slope')}", f"x = {_real(f'x - mean / {length}', self.inside)}"]
        return [
            *(centre if self._centred else []),
            f"square, along = {_sums('x * x', 'slope * x')}",
            f"inverse = 1.0 / tl.sqrt(square / {length} + {epsilon!r})",
            f"normal = {_real('x * inverse', self.known)}",
            "along = along * inverse",
        ]

    def _given(self) -> list[str]:
        """Statistics that are read, and sums of slopes."""
        *mean, inverse = (self.loaded(n, "rows", self.known) for n in self.norm.statistics)
        return [
            *(f"x = x - {m}" for m in mean),
            f"inverse = {inverse}",
            "normal = x * inverse",
            f"shift, along = {_sums('slope', 'slope * normal')}" if mean else f"along = {_sums('slope * normal')}",
        ]

    @property
    def _centred(self) -> bool:
        return len(self.norm.statistics) > 1

    @property
    def _there(self) -> str:
        """The mask of elements."""
        masks = [m for m in (self.known, self.inside) if m]
        return masks[0] if len(masks) == 1 else " & ".join(f"({m})" for m in masks)

    def loaded(self, name: str, place: str, mask: str) -> str:
        """Elements of a tensor as f32, 0 outside of the mask."""
        masked = _after(mask, "0.0") if mask else ""
        return f"tl.load({self.filled.tensors[name].name} + {place}{masked}).to(tl.float32)"


def _real(value: str, mask: str) -> str:
    """A value, 0 in lanes that are not there."""
    return f"tl.where({mask}, {value}, 0.0)" if mask else value


def _sums(*values: str) -> str:
    """The sums of one or two values along rows."""
    given, function = (values[0], "add") if len(values) == 1 else (f"({', '.join(values)})", "add_pairs")
    return f"tl.reduce({given}, 1, {function}, keep_dims=True)"


def _register(norm: Norm) -> None:
    part = Part("", ("dx", *norm.sums), lambda filled: _emit(filled, norm))
    register_template(norm.template, Template(lambda call: False, (part,)))


for _norm in NORMS:
    _register(_norm)
