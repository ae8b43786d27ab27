"""Bodies of `linalg.generic` as Triton expressions: a table of templates, and methods for other operations.

`index` is i64. Integers are signed; unsigned operations bitcast to the unsigned type and back. Transcendental
functions are libdevice's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.access import affine_text
from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.kernel import FLOAT8, Kernel, triton_type
from oneflow.lowering.triton.codegen.prelude import LIBDEVICE
from oneflow.lowering.triton.codegen.tile import Offset, Tile, constant_text
from oneflow.lowering.triton.codegen.writer import Value
from oneflow.lowering.triton.source import FAILURE
from oneflow.lowering.triton.symbolic_sizes import Size


class Call(NamedTuple):
    """A template that calls a function: of the prelude, or of a module that the kernel then imports."""

    function: str
    arguments: str
    module: str = ""


Template = str | Call


def _libdevice(function: str, arguments: str = "{0}") -> Call:
    """The template of a call of a function of libdevice."""
    return Call(function, arguments, LIBDEVICE)


#: Operations as templates over the names of operands.
TEMPLATES: dict[str, Template] = {
    "arith.addf": "{0} + {1}", "arith.subf": "{0} - {1}", "arith.mulf": "{0} * {1}", "arith.negf": "-{0}",
    "arith.addi": "{0} + {1}", "arith.subi": "{0} - {1}", "arith.muli": "{0} * {1}",
    "arith.andi": "{0} & {1}", "arith.ori": "{0} | {1}", "arith.xori": "{0} ^ {1}",
    "arith.shli": "{0} << {1}", "arith.shrsi": "{0} >> {1}",
    "arith.divsi": "{0} // {1}", "arith.remsi": "{0} % {1}", "arith.floordivsi": Call("floor_divide", "{0}, {1}"),
    "arith.maximumf": Call("nan_maximum", "{0}, {1}"), "arith.minimumf": Call("nan_minimum", "{0}, {1}"),
    "arith.maxnumf": "tl.maximum({0}, {1})", "arith.minnumf": "tl.minimum({0}, {1})",
    "arith.maxsi": "tl.maximum({0}, {1})", "arith.minsi": "tl.minimum({0}, {1})",
    "arith.select": "tl.where({0}, {1}, {2})", "arith.remf": _libdevice("fmod", "{0}, {1}"),
    "math.absf": "tl.abs({0})", "math.absi": "tl.abs({0})", "math.erf": "tl.erf({0})",
    "math.floor": "tl.floor({0})", "math.ceil": "tl.ceil({0})", "math.fma": "{0} * {1} + {2}",
    "math.roundeven": _libdevice("rint"), "math.trunc": _libdevice("trunc"),
    "math.powf": _libdevice("pow", "{0}, {1}"), "math.atan2": _libdevice("atan2", "{0}, {1}"),
    "math.copysign": _libdevice("copysign", "{0}, {1}"),
    **{f"math.{k}": _libdevice(k) for k in
       """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
       erfc rsqrt cbrt""".split()},
}  # fmt: skip
#: Approximations of a few units in the last place of f32, for kernels whose large tensors are f16 or bf16.
FAST_MATH: dict[str, Template] = {
    "math.exp": Call("fast_exp", "{0}"), "math.exp2": Call("fast_exp2", "{0}"),
    "math.log": "tl.log({0})", "math.log2": "tl.log2({0})",
    "arith.divf": "{0} / {1}", "math.sqrt": "tl.sqrt({0})", "math.rsqrt": "tl.rsqrt({0})",
    "math.erf": Call("fast_erf", "{0}"), "math.tanh": Call("fast_tanh", "{0}"),
}  # fmt: skip
#: Approximations with an error below 2^-11, for kernels whose floats are all bf16.
FASTEST_MATH: dict[str, Template] = {"math.tanh": Call("approximate_tanh", "{0}")}
#: Operations on operands as unsigned integers.
UNSIGNED = {
    "arith.divui": "{0} // {1}", "arith.remui": "{0} % {1}", "arith.shrui": "{0} >> {1}",
    "arith.maxui": "tl.maximum({0}, {1})", "arith.minui": "tl.minimum({0}, {1})",
}  # fmt: skip
#: Operations on bools.
BOOLS = {"arith.maxui": "{0} | {1}", "arith.minui": "{0} & {1}", "arith.addi": "{0} ^ {1}", "arith.muli": "{0} & {1}",
         "arith.subi": "{0} ^ {1}", "arith.maxsi": "{0} & {1}", "arith.minsi": "{0} | {1}"}  # fmt: skip
INTEGER_PREDICATES = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
FLOAT_PREDICATES: tuple[Template, ...] = (
    "never", "{0} == {1}", "{0} > {1}", "{0} >= {1}", "{0} < {1}", "{0} <= {1}", "({0} < {1}) | ({0} > {1})",
    "({0} == {0}) & ({1} == {1})", "({0} == {1}) | ({0} != {0}) | ({1} != {1})", Call("boolean_not", "{0} <= {1}"),
    Call("boolean_not", "{0} < {1}"), Call("boolean_not", "{0} >= {1}"), Call("boolean_not", "{0} > {1}"),
    "{0} != {1}",
    "({0} != {0}) | ({1} != {1})", "always",
)  # fmt: skip
CASTS = frozenset(
    """arith.extf arith.truncf arith.sitofp arith.uitofp arith.fptosi arith.fptoui arith.extsi arith.extui
    arith.trunci arith.index_cast arith.index_castui""".split()
)
FROM_UNSIGNED = frozenset({"arith.uitofp", "arith.extui", "arith.index_castui"})


def needed_ops(
    ops: Sequence[ir.Operation], wanted: Sequence[ir.Value], known: Container[ir.Value] = ()
) -> set[ir.Operation]:
    """The operations among `ops` that the values `wanted` depend on; the values `known` are already computed."""
    values, needed = set(wanted), set()
    for op in reversed(ops):
        if any(r in values and r not in known for r in op.results):
            needed.add(op)
            values.update(op.operands)
    return needed


def literal(attribute: ir.Attribute) -> str:
    """A float, integer or bool attribute as a Python literal; a float of 8 bits as its code."""
    if str(attribute.type) in FLOAT8:
        return _float8_code(attribute)
    if isinstance(attribute, ir.FloatAttr):
        return number_text(attribute.value)
    if isinstance(attribute, ir.BoolAttr):
        return number_text(bool(attribute.value))
    return number_text(ir.IntegerAttr(attribute).value)


def number_text(number: float) -> str:
    """A float, an integer or a bool as a Python literal."""
    return repr(number) if math.isfinite(number) else f'float("{number}")'


def _float8_code(attribute: ir.FloatAttr) -> str:
    """The code of a float of 8 bits as a signed integer."""
    number = np.array(attribute.value).astype(dtypes.BY_MLIR[str(attribute.type)].numpy)
    return str(int(number.view(np.int8)))


@dataclass
class BodyEmitter:
    """Writes bodies on a tile.

    Attributes:
        tile: the tile that values are computed on.
        loop_ids: the loop of the structure for each loop dimension of the operation of the body.
        kernel_values: the scalars outside of bodies that have been written.
        division: the template of f32 division.
    """

    tile: Tile
    loop_ids: Sequence[int] = ()
    kernel_values: dict[ir.Value, Value] = field(default_factory=dict)
    division: Template = "tl.div_rn({0}, {1})"

    def __post_init__(self) -> None:
        self.kernel: Kernel = self.tile.kernel
        self.writer = self.tile.writer
        self.fast = FAST_MATH if self.kernel.is_half_precision else {}
        if self.kernel.is_bfloat16:
            self.fast = {**FAST_MATH, **FASTEST_MATH}
        self._special: dict[str, Callable[[ir.Operation, list[Value]], Value]] = {
            "arith.constant": lambda op, args: self.constant(op),
            "linalg.index": self._index,
            "arith.cmpi": self._compare_integers,
            "arith.cmpf": self._compare_floats,
            "arith.divf": self._divide,
            "math.sqrt": self._square_root,
            "arith.bitcast": lambda op, args: self._convert(str(op.results[0].type), args[0], ", bitcast=True"),
            "tensor.extract": self._extract,
            "tensor.dim": lambda op, args: self._size(self.kernel.size(op.results[0])),
            "func.call": self._check,
            "affine.apply": self._affine,
        }

    def run(self, block: ir.Block, loop_ids: Sequence[int], arguments: Mapping[ir.Value, Value],
            wanted: Sequence[ir.Value] | None = None) -> list[Value]:  # fmt: skip
        """The values `wanted` of a block (None: the values that it yields).

        `loop_ids[d]` is the structure's loop of loop dimension `d`; `arguments` are values of block arguments.
        """
        self.loop_ids = loop_ids
        ops = [o.operation for o in block.operations]
        wanted = list(ops[-1].operands) if wanted is None else wanted
        env, needed = dict(arguments), needed_ops(ops, wanted, arguments)
        for op in ops:
            if op in needed:
                env[op.results[0]] = self.op(op, [self.value(env, v) for v in self._read(op)])
        return [self.value(env, v) for v in wanted]

    def _read(self, op: ir.Operation) -> list[ir.Value]:
        """The operands that an operation needs as values."""
        if op.name == "tensor.dim":
            return []
        return list(op.operands)[1:] if op.name == "tensor.extract" else list(op.operands)

    def value(self, env: dict[ir.Value, Value], value: ir.Value) -> Value:
        """A value of a body, or of the kernel around it."""
        if value in env:
            return env[value]
        if value not in self.kernel_values:
            self.kernel_values[value] = self._kernel_value(value)
        return self.kernel_values[value]

    def _kernel_value(self, value: ir.Value) -> Value:
        if value in self.kernel.scalars:
            name, element = self.kernel.scalars[value], str(value.type)
            return self._size(Size.of(name)) if element == "index" else Value(name, element)
        if isinstance(value, ir.BlockArgument):
            raise Unsupported("a value from another block")
        return self.op(value.owner, [self.value({}, v) for v in self._read(value.owner)])

    def _size(self, size: Size) -> Value:
        """A size as a value of type `index`."""
        text = str(size) if size.static is None else constant_text(str(size), "index")
        return self.writer.define(text, "index", prefix="n")

    def constant(self, op: ir.Operation) -> Value:
        """A scalar constant."""
        element = str(op.results[0].type)
        text = literal(op.attributes["value"])
        return self.writer.define(constant_text(text, element), element, prefix="c")

    def op(self, op: ir.Operation, args: list[Value]) -> Value:
        """The value of one operation."""
        if op.name in self.fast and str(op.results[0].type) == "f32":
            return self._format(self.fast[op.name], args, "f32")
        if op.name in self._special:
            return self._special[op.name](op, args)
        if op.name in CASTS:
            return self._cast(op.name, args[0], str(op.results[0].type))
        result = str(op.results[0].type)
        if result == "i1" and op.name in BOOLS:
            return self._format(BOOLS[op.name], args, result)
        if op.name in UNSIGNED:
            names = [self._unsigned(a) for a in args]
            return self._convert(result, self._format(UNSIGNED[op.name], names, result), ", bitcast=True")
        if op.name not in TEMPLATES:
            raise Unsupported(op.name)
        return self._format(TEMPLATES[op.name], args, result)

    def _format(self, template: Template, args: Sequence[Value], element: str) -> Value:
        text = self._call(template) if isinstance(template, Call) else template
        return self.writer.define(text.format(*(a.name for a in args)), element, [a.axes for a in args])

    def _call(self, call: Call) -> str:
        """The template of a call as text."""
        self.writer.call(call.module or call.function)
        return f"{f'{call.module}.' if call.module else ''}{call.function}({call.arguments})"

    def _convert(self, result: str, value: Value, extra: str = "") -> Value:
        return self.writer.define(f"{value.name}.to({triton_type(result)}{extra})", result, value.axes)

    def _unsigned(self, value: Value) -> Value:
        kind = triton_type(value.element, "u")
        return self.writer.define(f"{value.name}.to({kind}, bitcast=True)", value.element, value.axes)

    def widened(self, value: Value) -> Value:
        """A float of 8 bits as f32."""
        return self._format(Call(f"f32_of_{value.element}", "{0}"), [value], "f32")

    def _cast(self, name: str, value: Value, result: str) -> Value:
        """A value converted to an element type by the operation `name`."""
        if value.element in FLOAT8:
            return self._cast(name, self.widened(value), result)
        if result in FLOAT8:
            return self._format(Call(f"{result}_of_f32", "{0}"), [self._cast(name, value, "f32")], result)
        source = value.element
        if triton_type(source) == triton_type(result):
            return Value(value.name, result, value.axes)
        if result == "i1":
            return self.writer.define(f"({value.name} & 1) != 0", result, value.axes)
        if source == "i1" and name in ("arith.extsi", "arith.index_cast", "arith.sitofp"):
            return self.writer.define(f"-({value.name}.to({triton_type(result)}))", result, value.axes)
        if source != "i1" and name in FROM_UNSIGNED:
            value = self._unsigned(value)
        if result == "bf16" and source != "f32":
            value = Value(f"{value.name}.to(tl.float32)", "f32", value.axes)
        return self._convert(result, value)

    def _index(self, op: ir.Operation, args: list[Value]) -> Value:
        return self.tile.position(self.loop_ids[ir.IntegerAttr(op.attributes["dim"]).value])

    def _compare_integers(self, op: ir.Operation, args: list[Value]) -> Value:
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        names = [self._unsigned(a) for a in args] if predicate >= 6 and args[0].element != "i1" else args
        return self._format(f"{{0}} {INTEGER_PREDICATES[predicate]} {{1}}", names, "i1")

    def _compare_floats(self, op: ir.Operation, args: list[Value]) -> Value:
        template = FLOAT_PREDICATES[ir.IntegerAttr(op.attributes["predicate"]).value]
        if template in ("never", "always"):
            return self.writer.define(constant_text(str(template == "always"), "i1"), "i1", prefix="c")
        return self._format(template, args, "i1")

    def _divide(self, op: ir.Operation, args: list[Value]) -> Value:
        dividend, divisor = args
        if dividend.element != "f32":
            return self._format("{0} / {1}", args, dividend.element)
        elements = math.prod(a.block for a in self.tile.block_axes if a.name in dividend.axes)
        is_shared = dividend.axes > divisor.axes and elements >= gpu_target().kernels.blocks.division_block
        return self._format(Call("divide_by_shared", "{0}, {1}") if is_shared else self.division, args, "f32")

    def _square_root(self, op: ir.Operation, args: list[Value]) -> Value:
        single = args[0].element == "f32"
        return self._format("tl.sqrt_rn({0})" if single else "tl.sqrt({0})", args, args[0].element)

    def _affine(self, op: ir.Operation, args: list[Value]) -> Value:
        form, names = op.attributes["map"].value, [a.name for a in args]
        dimensions, symbols = (dict(enumerate(part)) for part in (names[: form.n_dims], names[form.n_dims :]))
        text = affine_text(form.results[0], dimensions, symbols)
        return self.writer.define(text, "index", [a.axes for a in args])

    def _extract(self, op: ir.Operation, positions: list[Value]) -> Value:
        if op.operands[0] not in self.kernel.tensors:
            raise Unsupported("tensor.extract from a value of the kernel")
        tensor = self.kernel.tensor(op.operands[0])
        axes = frozenset[str]().union(*(p.axes for p in positions))
        parts = [
            p.name if (s := str(stride)) == "1" else f"{p.name} * {stride.factor if s else s}"
            for p, stride in zip(positions, tensor.strides, strict=True)
        ]
        return self.tile.load(tensor, Offset(" + ".join(parts), axes))

    def _check(self, op: ir.Operation, args: list[Value]) -> Value:
        """A checked position: if it is out of range, the failure is recorded and the position is 0."""
        if ir.FlatSymbolRefAttr(op.attributes["callee"]).value != "oneflow_rt_check_index":
            raise Unsupported("a call in a body")
        self.tile.kernel.checks = True
        axes = frozenset[str]().union(*(a.axes for a in args))
        mask = self.tile.mask(axes) or "True"
        names = ", ".join(a.name for a in args)
        return self.writer.define(f"{self.writer.call('check_index')}({names}, {mask}, {FAILURE})", "i64", axes)
