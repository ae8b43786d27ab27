"""Floating-point arithmetic on scalars or vectors as MLIR text, for approximations of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oneflow.lowering.llvm.float_formats import FORMATS, Format
from oneflow.lowering.llvm.writer import Writer

#: The most coefficients of a polynomial that is computed by Horner's rule.
MAX_HORNER = 3


@dataclass
class Math:
    """Arithmetic on values of one shape, written as text; `base` is the default element type."""

    lanes: int | None
    writer: Writer = field(default_factory=Writer)
    base: str = "f32"

    @property
    def wide(self) -> Math:
        """The same arithmetic in f64."""
        return Math(self.lanes, self.writer, "f64")

    @property
    def format(self) -> Format:
        """The floating-point format of the base type."""
        return FORMATS[self.base]

    def type(self, element: str = "") -> str:
        """The type with this element."""
        element = element or self.base
        return f"vector<{self.lanes}x{element}>" if self.lanes else element

    def const(self, value: float | int | str, element: str = "") -> str:
        """A constant; floats are numbers or bit patterns `0x..`."""
        text = f"{value:.17e}" if not element and not isinstance(value, str) else str(value)
        return self.writer.constant(f"dense<{text}>" if self.lanes else text, self.type(element))

    def op(self, name: str, *args: str, element: str = "") -> str:
        """`arith.<name>` on values of one type."""
        return self.writer.op(f"arith.{name} {', '.join(args)} : {self.type(element)}")

    def integer(self, value: int) -> str:
        """An integer constant as wide as the base type."""
        return self.const(value, self.format.integer)

    def on_bits(self, name: str, *args: str) -> str:
        """`arith.<name>` on integers as wide as the base type."""
        return self.op(name, *args, element=self.format.integer)

    def bits(self, x: str) -> str:
        """The bits of a value as an integer."""
        return self.convert("bitcast", x, self.base, self.format.integer)

    def from_bits(self, x: str) -> str:
        """The value of bits."""
        return self.convert("bitcast", x, self.format.integer, self.base)

    def unary(self, name: str, x: str) -> str:
        """`math.<name>`."""
        return self.writer.op(f"math.{name} {x} : {self.type()}")

    def fma(self, a: str, b: str, c: str) -> str:
        """a * b + c, rounded once."""
        return self.writer.op(f"math.fma {a}, {b}, {c} : {self.type()}")

    def convert(self, name: str, x: str, source: str, target: str) -> str:
        """`arith.<name>` from one element type to another."""
        return self.writer.op(f"arith.{name} {x} : {self.type(source)} to {self.type(target)}")

    def compare(self, kind: str, predicate: str, a: str, b: str, element: str = "") -> str:
        """`arith.cmpf` or `arith.cmpi`."""
        return self.writer.op(f"arith.{kind} {predicate}, {a}, {b} : {self.type(element)}")

    def select(self, condition: str, a: str, b: str, element: str = "") -> str:
        """`a` where the condition is true, else `b`."""
        return self.writer.op(f"arith.select {condition}, {a}, {b} : {self.type('i1')}, {self.type(element)}")

    def absolute(self, x: str) -> str:
        """|x|."""
        return self.unary("absf", x)

    def copysign(self, size: str, sign: str) -> str:
        """`size` with the sign of `sign`."""
        return self.writer.op(f"math.copysign {size}, {sign} : {self.type()}")

    def is_nan(self, x: str) -> str:
        """Where `x` is NaN."""
        return self.compare("cmpf", "uno", x, x)

    def clamp(self, x: str, low: float, high: float) -> str:
        """`x` within [low, high]. NaN stays NaN, as the `maxps` of x86 keeps its second operand."""
        above = self.select(self.compare("cmpf", "ogt", self.const(low), x), self.const(low), x)
        return self.select(self.compare("cmpf", "olt", self.const(high), above), self.const(high), above)

    def polynomial(self, x: str, *coefficients: float) -> str:
        """The polynomial in `x`, by `_estrin`; coefficients from the highest power to the lowest."""
        return self._estrin(x, [self.const(c) for c in coefficients])

    def _estrin(self, x: str, coefficients: Sequence[str]) -> str:
        """The polynomial in `x` by Estrin's scheme: a polynomial in the square, whose coefficients are linear in `x`.

        The chain of dependent operations is shorter than the chain of Horner's rule, which evaluates few
        coefficients.
        """
        if len(coefficients) <= MAX_HORNER:
            return functools.reduce(lambda total, c: self.fma(total, x, c), coefficients)
        odd = len(coefficients) % 2
        pairs = zip(coefficients[odd::2], coefficients[odd + 1 :: 2], strict=True)
        linear = [self.fma(high, x, low) for high, low in pairs]
        return self._estrin(self.op("mulf", x, x), [*coefficients[:odd], *linear])

    def power_of_two(self, exponent: str) -> str:
        """2 to an integer power in the normal range; 0 for powers below the range, infinity for powers above."""
        biased = self.on_bits("addi", exponent, self.integer(self.format.bias))
        return self.from_bits(self.on_bits("shli", biased, self.integer(self.format.mantissa_bits)))

    def with_libm_fallback(self, x: str, bound: float, name: str, approximation: Callable[[], str]) -> str:
        """`approximation()` where |x| is within the bound in all lanes; else `math.<name>` of each lane by libm."""
        inside = self.compare("cmpf", "ole", self.absolute(x), self.const(bound))
        return self.if_all_lanes(inside, approximation, lambda: self._call_libm_per_lane(name, x))

    def if_all_lanes(self, condition: str, yes: Callable[[], str], no: Callable[[], str]) -> str:
        """`yes()` where the condition is true in all lanes, else `no()`; only one of the two is computed."""
        w = self.writer
        if self.lanes:
            condition = w.op(f"vector.reduction <and>, {condition} : {self.type('i1')} into i1")
        result = w.fresh()
        w.line(f"{result} = scf.if {condition} -> ({self.type()}) {{")
        w.line(f"scf.yield {yes()} : {self.type()}")
        w.line("} else {")
        w.line(f"scf.yield {no()} : {self.type()}")
        w.line("}")
        return result

    def _call_libm_per_lane(self, name: str, x: str) -> str:
        """`math.<name>` of each lane, in a loop."""
        if not self.lanes:
            return self.unary(name, x)
        w, kind = self.writer, self.type()
        result, lane, result_so_far = w.fresh(), w.fresh(), w.fresh()
        low, high, step = (w.index(n) for n in (0, self.lanes, 1))
        w.line(
            f"{result} = scf.for {lane} = {low} to {high} step {step} iter_args({result_so_far} = {x}) -> ({kind}) {{"
        )
        element = w.op(f"vector.extract {x}[{lane}] : {self.base} from {kind}")
        value = w.op(f"math.{name} {element} : {self.base}")
        inserted = w.op(f"vector.insert {value}, {result_so_far} [{lane}] : {self.base} into {kind}")
        w.line(f"scf.yield {inserted} : {kind}")
        w.line("}")
        return result
