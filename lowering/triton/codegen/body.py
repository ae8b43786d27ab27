"""Bodies of `linalg.generic` as Triton expressions: a table of operations, and what needs more than a template.

`index` is i64. Integers are signed; operations on unsigned ones go through the unsigned type. Transcendental
functions are libdevice's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.access import to_python
from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.triton.codegen.kernel import FAILURE, Kernel, triton_type
from oneflow.lowering.triton.codegen.tile import Tile, constant_text
from oneflow.lowering.triton.codegen.writer import V

#: Operations by template over operand names.
TEMPLATES = {
    "arith.addf": "{0} + {1}", "arith.subf": "{0} - {1}", "arith.mulf": "{0} * {1}", "arith.negf": "-{0}",
    "arith.addi": "{0} + {1}", "arith.subi": "{0} - {1}", "arith.muli": "{0} * {1}",
    "arith.andi": "{0} & {1}", "arith.ori": "{0} | {1}", "arith.xori": "{0} ^ {1}",
    "arith.shli": "{0} << {1}", "arith.shrsi": "{0} >> {1}",
    "arith.divsi": "{0} // {1}", "arith.remsi": "{0} % {1}", "arith.floordivsi": "floor_divide({0}, {1})",
    "arith.maximumf": "largest({0}, {1})", "arith.minimumf": "smallest({0}, {1})",
    "arith.maxnumf": "tl.maximum({0}, {1})", "arith.minnumf": "tl.minimum({0}, {1})",
    "arith.maxsi": "tl.maximum({0}, {1})", "arith.minsi": "tl.minimum({0}, {1})",
    "arith.select": "tl.where({0}, {1}, {2})", "arith.remf": "libdevice.fmod({0}, {1})",
    "math.absf": "tl.abs({0})", "math.absi": "tl.abs({0})", "math.erf": "tl.erf({0})",
    "math.floor": "tl.floor({0})", "math.ceil": "tl.ceil({0})", "math.fma": "{0} * {1} + {2}",
    "math.roundeven": "libdevice.rint({0})", "math.trunc": "libdevice.trunc({0})",
    "math.powf": "libdevice.pow({0}, {1})", "math.atan2": "libdevice.atan2({0}, {1})",
    "math.copysign": "libdevice.copysign({0}, {1})",
    **{f"math.{k}": f"libdevice.{k}({{0}})" for k in
       """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
       erfc rsqrt cbrt""".split()},
}  # fmt: skip
#: The same in hardware, a few units in the last place of f32 off: where large tensors have no more digits than f16.
FAST = {
    "math.exp": "coarse_exp({0})", "math.exp2": "power_of_two({0})",
    "math.log": "tl.log({0})", "math.log2": "tl.log2({0})",
    "arith.divf": "{0} / {1}", "math.sqrt": "tl.sqrt({0})", "math.rsqrt": "tl.rsqrt({0})",
    "math.erf": "coarse_erf({0})", "math.tanh": "coarse_tanh({0})",
}  # fmt: skip
#: Within 2^-11 of the value: where no tensor has more digits than bf16.
FASTEST = {"math.tanh": "hardware_tanh({0})"}
#: The elements of a block of which every thread has as many as are divided at once, whatever its warps are. Of 8192
#: they take registers of which 3 programs had room before: a softmax of such rows takes 137 us in place of 132.
SHARED = 16384
#: Operations on the operands as unsigned integers.
UNSIGNED = {
    "arith.divui": "{0} // {1}", "arith.remui": "{0} % {1}", "arith.shrui": "{0} >> {1}",
    "arith.maxui": "tl.maximum({0}, {1})", "arith.minui": "tl.minimum({0}, {1})",
}  # fmt: skip
#: The same on bools.
BOOLS = {"arith.maxui": "{0} | {1}", "arith.minui": "{0} & {1}", "arith.addi": "{0} ^ {1}", "arith.muli": "{0} & {1}",
         "arith.subi": "{0} ^ {1}", "arith.maxsi": "{0} & {1}", "arith.minsi": "{0} | {1}"}  # fmt: skip
INTEGER_PREDICATES = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
FLOAT_PREDICATES = (
    "never", "{0} == {1}", "{0} > {1}", "{0} >= {1}", "{0} < {1}", "{0} <= {1}", "({0} < {1}) | ({0} > {1})",
    "({0} == {0}) & ({1} == {1})", "({0} == {1}) | ({0} != {0}) | ({1} != {1})", "not_({0} <= {1})",
    "not_({0} < {1})", "not_({0} >= {1})", "not_({0} > {1})", "{0} != {1}", "({0} != {0}) | ({1} != {1})", "always",
)  # fmt: skip
CASTS = frozenset(
    """arith.extf arith.truncf arith.sitofp arith.uitofp arith.fptosi arith.fptoui arith.extsi arith.extui
    arith.trunci arith.index_cast arith.index_castui""".split()
)
FROM_UNSIGNED = frozenset({"arith.uitofp", "arith.extui", "arith.index_castui"})


def needed_ops(
    ops: Sequence[ir.Operation], wanted: Sequence[ir.Value], given: Container[ir.Value] = ()
) -> set[ir.Operation]:
    """The operations among `ops` that the wanted values need, when others are given."""
    values, found = set(wanted), set()
    for op in reversed(ops):
        if any(r in values and r not in given for r in op.results):
            found.add(op)
            values.update(op.operands)
    return found


def literal(attribute: ir.Attribute) -> str:
    """A number attribute as Python text."""
    if isinstance(attribute, ir.FloatAttr):
        value = attribute.value
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if isinstance(attribute, ir.BoolAttr):
        return str(bool(attribute.value))
    return str(ir.IntegerAttr(attribute).value)


@dataclass
class Bodies:
    """Computes bodies on a tile; `outside` keeps values of the kernel that are no tensors, `quotient` divides f32."""

    tile: Tile
    names: Sequence[int] = ()
    outside: dict[ir.Value, V] = field(default_factory=dict)
    quotient: str = "tl.div_rn({0}, {1})"

    def __post_init__(self) -> None:
        self.kernel: Kernel = self.tile.kernel
        self.writer = self.tile.writer
        self.fast = FAST if self.kernel.is_coarse else {}
        if self.kernel.is_coarsest:
            self.fast = {**FAST, **FASTEST}
        self._special: dict[str, Callable[[ir.Operation, list[V]], V]] = {
            "arith.constant": lambda op, args: self.constant(op),
            "linalg.index": self._index,
            "arith.cmpi": self._compare_integers,
            "arith.cmpf": self._compare_floats,
            "arith.divf": self._divide,
            "math.sqrt": self._root,
            "arith.bitcast": lambda op, args: self._to(op, args[0], ", bitcast=True"),
            "tensor.extract": self._extract,
            "tensor.dim": lambda op, args: self._scalar(str(self.kernel.size(op.results[0])), "index"),
            "func.call": self._check,
            "affine.apply": self._affine,
        }

    def run(self, block: ir.Block, names: Sequence[int], arguments: Mapping[ir.Value, V],
            wanted: Sequence[ir.Value] | None = None) -> list[V]:  # fmt: skip
        """The `wanted` values of a block (None: what it yields); `names[d]` is loop `d` in the structure."""
        self.names = names
        ops = [o.operation for o in block.operations]
        wanted = list(ops[-1].operands) if wanted is None else wanted
        env, needed = dict(arguments), needed_ops(ops, wanted, arguments)
        for op in ops:
            if op in needed:
                env[op.results[0]] = self.op(op, [self.value(env, v) for v in self._read(op)])
        return [self.value(env, v) for v in wanted]

    def _read(self, op: ir.Operation) -> list[ir.Value]:
        """The operands whose values an operation needs."""
        if op.name == "tensor.dim":
            return []
        return list(op.operands)[1:] if op.name == "tensor.extract" else list(op.operands)

    def value(self, env: dict[ir.Value, V], value: ir.Value) -> V:
        """A value of a body, or of the kernel around it."""
        if value in env:
            return env[value]
        if value not in self.outside:
            self.outside[value] = self._outside(value)
        return self.outside[value]

    def _outside(self, value: ir.Value) -> V:
        if value in self.kernel.scalars:
            name, element = self.kernel.scalars[value], str(value.type)
            return self._scalar(name, element) if element == "index" else V(name, element)
        if isinstance(value, ir.BlockArgument):
            raise Unsupported("a value from another block")
        return self.op(value.owner, [self.value({}, v) for v in self._read(value.owner)])

    def _scalar(self, text: str, element: str) -> V:
        """A size as a value: literals need a type."""
        typed = constant_text(text, element) if text.lstrip("-").isdigit() else text
        return self.writer.define(typed, element, prefix="n")

    def constant(self, op: ir.Operation) -> V:
        """A scalar constant."""
        element = str(op.results[0].type)
        text = literal(op.attributes["value"])
        return self.writer.define(constant_text(text, element), element, prefix="c")

    def op(self, op: ir.Operation, args: list[V]) -> V:
        """The value of one operation."""
        if op.name in self.fast and str(op.results[0].type) == "f32":
            return self._format(self.fast[op.name], args, "f32")
        if op.name in self._special:
            return self._special[op.name](op, args)
        if op.name in CASTS:
            return self._cast(op, args[0])
        result = str(op.results[0].type)
        if result == "i1" and op.name in BOOLS:
            return self._format(BOOLS[op.name], args, result)
        if op.name in UNSIGNED:
            names = [self._unsigned(a) for a in args]
            return self._to(op, self._format(UNSIGNED[op.name], names, result), ", bitcast=True")
        if op.name not in TEMPLATES:
            raise Unsupported(op.name)
        return self._format(TEMPLATES[op.name], args, result)

    def _format(self, template: str, args: Sequence[V], element: str) -> V:
        return self.writer.define(template.format(*(a.name for a in args)), element, [a.axes for a in args])

    def _to(self, op: ir.Operation, value: V, extra: str = "") -> V:
        result = str(op.results[0].type)
        return self.writer.define(f"{value.name}.to({triton_type(result)}{extra})", result, value.axes)

    def _unsigned(self, value: V) -> V:
        kind = triton_type(value.element).replace("tl.", "tl.u")
        return self.writer.define(f"{value.name}.to({kind}, bitcast=True)", value.element, value.axes)

    def _cast(self, op: ir.Operation, value: V) -> V:
        source, result = value.element, str(op.results[0].type)
        if triton_type(source) == triton_type(result):
            return V(value.name, result, value.axes)
        if result == "i1":
            return self.writer.define(f"({value.name} & 1) != 0", result, value.axes)
        if source == "i1" and op.name in ("arith.extsi", "arith.index_cast", "arith.sitofp"):
            return self.writer.define(f"-({value.name}.to({triton_type(result)}))", result, value.axes)
        if source != "i1" and op.name in FROM_UNSIGNED:
            value = self._unsigned(value)
        if result == "bf16" and source != "f32":
            value = V(f"{value.name}.to(tl.float32)", "f32", value.axes)
        return self._to(op, value)

    def _index(self, op: ir.Operation, args: list[V]) -> V:
        return self.tile.position(self.names[ir.IntegerAttr(op.attributes["dim"]).value])

    def _compare_integers(self, op: ir.Operation, args: list[V]) -> V:
        number = ir.IntegerAttr(op.attributes["predicate"]).value
        names = [self._unsigned(a) for a in args] if number >= 6 and args[0].element != "i1" else args
        return self._format(f"{{0}} {INTEGER_PREDICATES[number]} {{1}}", names, "i1")

    def _compare_floats(self, op: ir.Operation, args: list[V]) -> V:
        template = FLOAT_PREDICATES[ir.IntegerAttr(op.attributes["predicate"]).value]
        if template in ("never", "always"):
            return self.writer.define(constant_text(str(template == "always"), "i1"), "i1", prefix="c")
        return self._format(template, args, "i1")

    def _divide(self, op: ir.Operation, args: list[V]) -> V:
        one, other = args
        if one.element != "f32":
            return self._format("{0} / {1}", args, one.element)
        elements = math.prod(a.block for a in self.tile.spread if a.name in one.axes)
        shares = one.axes > other.axes and elements >= SHARED
        return self._format("share({0}, {1})" if shares else self.quotient, args, "f32")

    def _root(self, op: ir.Operation, args: list[V]) -> V:
        single = args[0].element == "f32"
        return self._format("tl.sqrt_rn({0})" if single else "tl.sqrt({0})", args, args[0].element)

    def _affine(self, op: ir.Operation, args: list[V]) -> V:
        text = to_python(str(op.attributes["map"].value.results[0]))
        first = {"d": 0, "s": op.attributes["map"].value.n_dims}
        template = re.sub(r"\b([ds])(\d+)\b", lambda m: f"{{{first[m[1]] + int(m[2])}}}", text)
        return self._format(template, args, "index")

    def _extract(self, op: ir.Operation, positions: list[V]) -> V:
        if op.operands[0] not in self.kernel.tensors:
            raise Unsupported("tensor.extract from a value of the kernel")
        tensor = self.kernel.tensor(op.operands[0])
        axes = frozenset[str]().union(*(p.axes for p in positions))
        parts = [
            p.name if (s := str(stride)) == "1" else f"{p.name} * {stride.factor if s else s}"
            for p, stride in zip(positions, tensor.strides, strict=True)
        ]
        return self.tile.load(tensor, " + ".join(parts), axes)

    def _check(self, op: ir.Operation, args: list[V]) -> V:
        """A position verified to lie in the tensor; a failure is recorded, the first of the run stays."""
        if ir.FlatSymbolRefAttr(op.attributes["callee"]).value != "oneflow_rt_check_index":
            raise Unsupported("a call in a body")
        self.tile.kernel.checks = True
        axes = frozenset[str]().union(*(a.axes for a in args))
        mask = self.tile.mask(axes) or "True"
        names = ", ".join(a.name for a in args)
        return self.writer.define(f"check_index({names}, {mask}, {FAILURE})", "i64", axes)
