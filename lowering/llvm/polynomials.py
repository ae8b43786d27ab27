"""`oneflow-expand-math`: exp, log, tanh and erf of f32 as polynomials, on scalars and on vectors.

libm computes one number per call; these compute a vector in the time of one or two. Errors stay below 3 ulp,
NaN and infinities are exact. Each is one function per vector type, inlined by LLVM. Coefficients are those of
Cephes (exp, log, tanh) and N. Juffa (erf). Imports the MLIR seam.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from oneflow.dialect._mlir import func, ir
from oneflow.dialect.record import Registry
from oneflow.lowering.llvm.writer import Writer
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass


@dataclass
class Math:
    """Arithmetic on f32 values of one shape, written as text."""

    lanes: int | None
    writer: Writer = field(default_factory=Writer)

    def type(self, element: str = "f32") -> str:
        """The type with this element."""
        return f"vector<{self.lanes}x{element}>" if self.lanes else element

    def const(self, value: float | int | str, element: str = "f32") -> str:
        """A constant; floats as numbers or as bit patterns `0x..`."""
        text = repr(float(value)) if element == "f32" and not isinstance(value, str) else str(value)
        return self.writer.constant(f"dense<{text}>" if self.lanes else text, self.type(element))

    def op(self, name: str, *args: str, element: str = "f32") -> str:
        """`arith.<name>` on values of one type."""
        return self.writer.op(f"arith.{name} {', '.join(args)} : {self.type(element)}")

    def unary(self, name: str, x: str) -> str:
        """`math.<name>`."""
        return self.writer.op(f"math.{name} {x} : {self.type()}")

    def fma(self, a: str, b: str, c: str) -> str:
        """a * b + c, rounded once."""
        return self.writer.op(f"math.fma {a}, {b}, {c} : {self.type()}")

    def convert(self, name: str, x: str, source: str, target: str) -> str:
        """`arith.<name>` from one element type to another."""
        return self.writer.op(f"arith.{name} {x} : {self.type(source)} to {self.type(target)}")

    def compare(self, kind: str, predicate: str, a: str, b: str, element: str = "f32") -> str:
        """`arith.cmpf` or `arith.cmpi`."""
        return self.writer.op(f"arith.{kind} {predicate}, {a}, {b} : {self.type(element)}")

    def select(self, condition: str, a: str, b: str) -> str:
        """`a` where the condition holds, else `b`."""
        return self.writer.op(f"arith.select {condition}, {a}, {b} : {self.type('i1')}, {self.type()}")

    def copysign(self, size: str, sign: str) -> str:
        """`size` with the sign of `sign`."""
        return self.writer.op(f"math.copysign {size}, {sign} : {self.type()}")

    def clamp(self, x: str, low: float, high: float) -> str:
        """`x` within [low, high]; NaN becomes a bound, and is put back by who needs it."""
        above = self.select(self.compare("cmpf", "ogt", x, self.const(low)), x, self.const(low))
        return self.select(self.compare("cmpf", "olt", above, self.const(high)), above, self.const(high))

    def polynomial(self, x: str, *coefficients: float) -> str:
        """The polynomial, highest power first."""
        total = self.const(coefficients[0])
        for c in coefficients[1:]:
            total = self.fma(total, x, self.const(c))
        return total

    def power_of_two(self, exponent: str) -> str:
        """2 to an i32 power within the normal range."""
        biased = self.op("addi", exponent, self.const(127, "i32"), element="i32")
        bits = self.op("shli", biased, self.const(23, "i32"), element="i32")
        return self.convert("bitcast", bits, "i32", "f32")


def _split_exp(m: Math, x: str) -> tuple[str, str]:
    """e to the x as (y, n), meaning y * 2^n: x = n log(2) + r, and y a polynomial in r."""
    n = m.unary("roundeven", m.op("mulf", x, m.const(1.44269504088896341)))
    r = m.fma(n, m.const(2.12194440e-4), m.fma(n, m.const(-0.693359375), x))
    p = m.polynomial(
        r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1
    )
    y = m.op("addf", m.fma(m.op("mulf", r, r), p, r), m.const(1.0))
    return y, m.convert("fptosi", n, "f32", "i32")


def exp(m: Math, x: str) -> str:
    """e to the x, scaled by 2^n in two steps so that denormals are right."""
    y, n = _split_exp(m, m.clamp(x, -104.0, 89.0))
    half = m.op("shrsi", n, m.const(1, "i32"), element="i32")
    rest = m.op("subi", n, half, element="i32")
    y = m.op("mulf", m.op("mulf", y, m.power_of_two(half)), m.power_of_two(rest))
    return m.select(m.compare("cmpf", "uno", x, x), x, y)


def _near_exp(m: Math, x: str) -> str:
    """e to the x for x in [-80, 80]."""
    y, n = _split_exp(m, x)
    return m.op("mulf", y, m.power_of_two(n))


def log(m: Math, x: str) -> str:
    """The natural logarithm: mantissa in [sqrt(1/2), sqrt(2)) and exponent; denormals are scaled up first."""
    tiny = m.compare("cmpf", "olt", x, m.const(1.17549435e-38))
    scaled = m.select(tiny, m.op("mulf", x, m.const(8388608.0)), x)
    bits = m.convert("bitcast", scaled, "f32", "i32")
    # Moves the bits so that the exponent changes at sqrt(1/2) instead of 1.
    moved = m.op("subi", bits, m.const(0x3F3504F3, "i32"), element="i32")
    exponent = m.convert("sitofp", m.op("shrsi", moved, m.const(23, "i32"), element="i32"), "i32", "f32")
    exponent = m.select(tiny, m.op("subf", exponent, m.const(23.0)), exponent)
    low = m.op("andi", moved, m.const(0x007FFFFF, "i32"), element="i32")
    mantissa = m.convert("bitcast", m.op("addi", low, m.const(0x3F3504F3, "i32"), element="i32"), "i32", "f32")
    f = m.op("subf", mantissa, m.const(1.0))
    z = m.op("mulf", f, f)
    p = m.polynomial(
        f, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )  # fmt: skip
    y = m.fma(exponent, m.const(-2.12194440e-4), m.op("mulf", m.op("mulf", f, z), p))
    y = m.op("addf", f, m.fma(z, m.const(-0.5), y))
    y = m.fma(exponent, m.const(0.693359375), y)
    y = m.select(m.compare("cmpf", "oeq", x, m.const("0x7F800000")), x, y)
    y = m.select(m.compare("cmpf", "ult", x, m.const(0.0)), m.const("0x7FC00000"), y)
    return m.select(m.compare("cmpf", "oeq", x, m.const(0.0)), m.const("0xFF800000"), y)


def tanh(m: Math, x: str) -> str:
    """The hyperbolic tangent: a polynomial below 0.625, 1 - 2 / (exp(2x) + 1) above."""
    size = m.unary("absf", x)
    z = m.op("mulf", x, x)
    p = m.polynomial(z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
    small = m.fma(m.op("mulf", p, z), x, x)
    # Beyond 10 the result is 1.
    near = m.clamp(size, 0.0, 10.0)
    e = _near_exp(m, m.op("addf", near, near))
    ratio = m.op("divf", m.const(2.0), m.op("addf", e, m.const(1.0)))
    large = m.op("subf", m.const(1.0), ratio)
    y = m.copysign(m.select(m.compare("cmpf", "olt", size, m.const(0.625)), small, large), x)
    return m.select(m.compare("cmpf", "uno", x, x), x, y)


def erf(m: Math, x: str) -> str:
    """The error function: a polynomial up to 0.93, 1 - exp(polynomial) above."""
    size = m.unary("absf", x)
    z = m.op("mulf", x, x)
    p = m.polynomial(z, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
    small = m.fma(p, x, x)
    # Beyond 4 the result is 1; the polynomial would overflow.
    t = m.clamp(size, 0.0, 4.0)
    q = m.polynomial(
        t, -1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1, -6.34846687e-1,
        -1.28717512e-1,
    )  # fmt: skip
    large = m.op("subf", m.const(1.0), _near_exp(m, m.fma(q, t, m.op("subf", m.const(0.0), t))))
    y = m.copysign(m.select(m.compare("cmpf", "olt", size, m.const(0.927734375)), small, large), x)
    return m.select(m.compare("cmpf", "uno", x, x), x, y)


FUNCTIONS: dict[str, Callable[[Math, str], str]] = {
    "math.exp": exp,
    "math.log": log,
    "math.tanh": tanh,
    "math.erf": erf,
}


@register_pass
@dataclass(frozen=True)
class ExpandMath(Pass):
    """Replaces exp, log, tanh and erf of f32 by calls of polynomials that LLVM inlines.

    %y = math.exp %x : vector<16xf32>   ->   %y = call @oneflow_exp_16(%x) : (vector<16xf32>) -> vector<16xf32>
    """

    name: ClassVar[str] = "oneflow-expand-math"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites every such operation in the module."""
        found: list[ir.Operation] = []

        def collect(op: ir.Operation) -> ir.WalkResult:
            if op.name in FUNCTIONS:
                found.append(op)
            return ir.WalkResult.ADVANCE

        module.operation.walk(collect)
        made: set[str] = set()
        for op in found:
            lanes = _lanes(op.results[0].type)
            if lanes is not None:
                _replace(module, op, lanes, made)


def _lanes(value_type: ir.Type) -> int | None:
    """The vector length, 0 for a scalar, None for what is left to libm."""
    text = str(value_type)
    if text == "f32":
        return 0
    is_row = text.startswith("vector<") and text.endswith("xf32>") and text.count("x") == 1
    return int(text[7:-5]) if is_row else None


def _replace(module: ir.Module, op: ir.Operation, lanes: int, made: set[str]) -> None:
    name = f"oneflow_{op.name.removeprefix('math.')}_{lanes}"
    if name not in made:
        made.add(name)
        m = Math(lanes or None)
        result = FUNCTIONS[op.name](m, "%x")
        head = f"func.func private @{name}(%x: {m.type()}) -> {m.type()} attributes {{"
        options = 'llvm.linkage = #llvm.linkage<internal>, passthrough = ["alwaysinline"]} {'
        text = "\n".join([head + options, m.writer.text(), f"return {result} : {m.type()}", "}"])
        module.body.append(ir.Operation.parse(text))
    with ir.InsertionPoint(op), op.location:
        call = func.CallOp([op.results[0].type], name, [op.operands[0]])
    op.results[0].replace_all_uses_with(call.operation.results[0])
    op.erase()
