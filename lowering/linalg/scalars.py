"""Expressions of the scalar algebra in arith and math: one method per kind of node.

The laws at the top of `dialect/scalar.py` hold without undefined behaviour: divisors and shift amounts are replaced
by safe ones first. A float outside the range of an integer becomes the smallest integer, as on x86 and in NumPy
(integers of 8 and 16 bits take the low bits of the conversion to i32, `uint32` of the conversion to i64). `uint64`
holds numbers from 2^63 on; NaN becomes 2^63.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.dialect.scalar import Expr
from oneflow.lowering.linalg.emit import Emitter, Value

#: Kinds that are one operation on floats, on signed and on unsigned integers. Methods write the others.
FLOAT_OPS = {
    "neg": "arith.negf", "abs": "math.absf", "rint": "math.roundeven", "add": "arith.addf", "sub": "arith.subf",
    "mul": "arith.mulf", "div": "arith.divf", "rem": "arith.remf", "max": "arith.maximumf", "min": "arith.minimumf",
    "pow": "math.powf", "atan2": "math.atan2", "log1p": "math.log1p", "expm1": "math.expm1",
    **{k: f"math.{k}" for k in "exp exp2 log log2 log10 sqrt erf erfc ceil floor trunc".split()},
    **{k: f"math.{k}" for k in "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh".split()},
}  # fmt: skip
SIGNED_OPS = {
    "add": "arith.addi", "sub": "arith.subi", "mul": "arith.muli", "max": "arith.maxsi", "min": "arith.minsi",
    "and": "arith.andi", "or": "arith.ori", "xor": "arith.xori", "abs": "math.absi",
}  # fmt: skip
UNSIGNED_OPS = {**SIGNED_OPS, "max": "arith.maxui", "min": "arith.minui"}
del UNSIGNED_OPS["abs"]

#: Predicates of `arith.cmpf` and `arith.cmpi`: comparisons with NaN are false, `ne` true.
FLOAT_PREDICATES = {"eq": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5, "ne": 13}
SIGNED_PREDICATES = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}
UNSIGNED_PREDICATES = {"eq": 0, "ne": 1, "lt": 6, "le": 7, "gt": 8, "ge": 9}

REASSOCIATE = "#arith.fastmath<reassoc, contract, nsz>"


def is_unsigned(dtype: DType) -> bool:
    """Whether arithmetic on the type is unsigned; bool is an unsigned integer of one bit."""
    return dtype.kind in ("uint", "bool")


class Scalars:
    """Writes nodes at the insertion point."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self._special: dict[str, Callable[[Expr, Sequence[Value]], Value]] = {
            "const": lambda node, args: self.e.constant(node.value, node.dtype),
            "select": lambda node, args: self.e.op("arith.select", args[1].type, args),
            "cast": lambda node, args: self.convert(args[0], node.args[0].dtype, node.dtype),
            "neg": lambda node, args: self._same_type("arith.subi", self._constant(node, 0), args[0]),
            "not": lambda node, args: self._same_type("arith.xori", args[0], self._constant(node, -1)),
            "rsqrt": self._rsqrt,
            "floordiv": self._floordiv,
            "rem": self._remainder,
            "pow": self._power,
            "shl": self._shift,
            "shr": self._shift,
            "shru": self._shift,
            **{k: lambda node, args: args[0] for k in ("abs", "ceil", "floor", "trunc", "rint")},
        }

    def emit(self, node: Expr, args: Sequence[Value], reassociate: bool = False) -> Value:
        """The value of a node with the arguments `args`.

        `reassociate` allows floating-point additions and multiplications to be reassociated.
        """
        if node.kind in FLOAT_PREDICATES:
            return self.compare(node.kind, args[0], args[1], node.args[0].dtype)
        table = FLOAT_OPS if node.dtype.is_float else UNSIGNED_OPS if is_unsigned(node.dtype) else SIGNED_OPS
        name = table.get(node.kind)
        if name is None:
            return self._special[node.kind](node, args)
        relaxed = reassociate and name in ("arith.addf", "arith.mulf")
        return self.e.op(name, args[0].type, args, {"fastmath": self.e.attribute(REASSOCIATE)} if relaxed else None)

    def compare(self, kind: str, a: Value, b: Value, dtype: DType) -> Value:
        """The comparison `kind` of two values of `dtype`, as i1."""
        name, predicates = "arith.cmpi", UNSIGNED_PREDICATES if is_unsigned(dtype) else SIGNED_PREDICATES
        if dtype.is_float:
            name, predicates = "arith.cmpf", FLOAT_PREDICATES
        predicate = self.e.attribute(f"{predicates[kind]} : i64")
        return self.e.op(name, self.e.element(dtypes.bool_), [a, b], {"predicate": predicate})

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """`a` where `condition` holds, else `b`."""
        return self.e.op("arith.select", a.type, [condition, a, b])

    def _constant(self, node: Expr, value: float | int) -> Value:
        return self.e.constant(value, node.dtype)

    def _same_type(self, name: str, *args: Value) -> Value:
        """The operation `name`, whose result has the type of its operands."""
        return self.e.op(name, args[0].type, args)

    def _rsqrt(self, node: Expr, args: Sequence[Value]) -> Value:
        root = self.e.op("math.sqrt", args[0].type, args)
        return self.e.op("arith.divf", root.type, [self._constant(node, 1.0), root])

    def _floordiv(self, node: Expr, args: Sequence[Value]) -> Value:
        """The quotient rounded down; 0 where the divisor is 0, wrapped where it overflows."""
        name = "arith.divui" if is_unsigned(node.dtype) else "arith.floordivsi"
        if _is_positive(node.args[1]):
            return self._same_type(name, *args)
        a, b = args
        zero = self._constant(node, 0)
        by_zero = self.compare("eq", b, zero, node.dtype)
        trapping = by_zero
        if not is_unsigned(node.dtype):
            overflow = self._same_type("arith.andi", self._equals(node, a, "least"), self._equals(node, b, -1))
            trapping = self._same_type("arith.ori", by_zero, overflow)
        quotient = self._same_type(name, a, self.select(trapping, self._constant(node, 1), b))
        return self.select(by_zero, zero, quotient)

    def _equals(self, node: Expr, value: Value, wanted: int | str) -> Value:
        number = -(1 << (node.dtype.bits - 1)) if wanted == "least" else int(wanted)
        return self.compare("eq", value, self._constant(node, number), node.dtype)

    def _remainder(self, node: Expr, args: Sequence[Value]) -> Value:
        """The remainder of truncated division; 0 where the divisor is 0 or -1: these divisors are replaced by 1."""
        name = "arith.remui" if is_unsigned(node.dtype) else "arith.remsi"
        if _is_positive(node.args[1]):
            return self._same_type(name, *args)
        a, b = args
        trapping = self._equals(node, b, 0)
        if not is_unsigned(node.dtype):
            trapping = self._same_type("arith.ori", trapping, self._equals(node, b, -1))
        return self._same_type(name, a, self.select(trapping, self._constant(node, 1), b))

    def _shift(self, node: Expr, args: Sequence[Value]) -> Value:
        """A shift. Shifts by the width or more are 0, or the sign for arithmetic right shifts."""
        signed = node.kind == "shr" and not is_unsigned(node.dtype)
        name = "arith.shli" if node.kind == "shl" else "arith.shrsi" if signed else "arith.shrui"
        a, amount = args
        if signed:
            return self._same_type(
                name, a, self._same_type("arith.minui", amount, self._constant(node, node.dtype.bits - 1))
            )
        zero = self._constant(node, 0)
        width = self._constant(node, node.dtype.bits)
        predicate = self.e.attribute("6 : i64")
        inside = self.e.op("arith.cmpi", self.e.element(dtypes.bool_), [amount, width], {"predicate": predicate})
        return self.select(inside, self._same_type(name, a, self.select(inside, amount, zero)), zero)

    def _power(self, node: Expr, args: Sequence[Value]) -> Value:
        """An integer power by squaring, from the lowest bit of the exponent; shorter for a constant exponent."""
        exponent = node.args[1]
        known = int(exponent.value) if exponent.kind == "const" else None
        if known is not None and known >= 0:
            return self._known_power(node, args[0], known)
        result, square, bits, one = self._constant(node, 1), args[0], args[1], self._constant(node, 1)
        for _ in range(node.dtype.bits):
            odd = self.compare("ne", self._same_type("arith.andi", bits, one), self._constant(node, 0), node.dtype)
            result = self.select(odd, self._same_type("arith.muli", result, square), result)
            square = self._same_type("arith.muli", square, square)
            bits = self._same_type("arith.shrui", bits, one)
        return result

    def _known_power(self, node: Expr, base: Value, exponent: int) -> Value:
        result: Value | None = None
        while exponent:
            if exponent & 1:
                result = base if result is None else self._same_type("arith.muli", result, base)
            exponent >>= 1
            base = self._same_type("arith.muli", base, base) if exponent else base
        return self._constant(node, 1) if result is None else result

    def convert(self, x: Value, source: DType, target: DType) -> Value:
        """`x` converted by the law of `scalar.cast`."""
        if source == target:
            return x
        if source.is_stored_only and not target.is_float:
            return self.convert(self._float_to_float(x, source, dtypes.float32), dtypes.float32, target)
        if target.kind == "bool":
            return self.compare("ne", x, self.e.constant(0, source), source)
        if source.is_float and target.is_float:
            return self._float_to_float(x, source, target)
        if source.is_float:
            return self._float_to_integer(x, source, target)
        if target.is_float:
            return self._integer_to_float(x, source, target)
        return self._integer_to_integer(x, source, target)

    def _float_to_float(self, x: Value, source: DType, target: DType) -> Value:
        """Converts floats; conversions of floats of 8 and 16 bits are from and to f32.

        f64 to f16, and to 8 bits, is rounded once, as in NumPy; f64 to bf16 twice, as in ml_dtypes.
        """
        middle = dtypes.float32
        if source == dtypes.float64 and target in (dtypes.float16, *dtypes.FLOAT8):
            return self._float_to_float(self._round_to_odd(x), middle, target)
        if middle not in (source, target) and min(source.bits, target.bits) <= 16:
            return self._float_to_float(self._float_to_float(x, source, middle), middle, target)
        if target == dtypes.float8_e4m3fn:
            x = self._saturated(x, target.largest)
        return self.e.op("arith.extf" if target.bits > source.bits else "arith.truncf", self.e.element(target), [x])

    def _saturated(self, x: Value, most: float) -> Value:
        """An f32 clamped to the range from -`most` to `most`; NaN stays NaN."""
        low, high = (self.e.constant(bound, dtypes.float32) for bound in (-most, most))
        return self._same_type("arith.minimumf", self._same_type("arith.maximumf", x, low), high)

    def _round_to_odd(self, x: Value) -> Value:
        """An f64 rounded to f32 by round-to-odd, so that a second rounding is correct (Boldo and Melquiond, 2008).

        Round-to-odd truncates, and sets the last bit of inexact results. Results that round-to-nearest moved away
        from zero are moved back by one unit first.
        """
        nearest = self._float_to_float(x, dtypes.float64, dtypes.float32)
        back = self._float_to_float(nearest, dtypes.float32, dtypes.float64)
        bits = self.e.op("arith.bitcast", self.e.element(dtypes.int32), [nearest])
        rounded, exact = (self._same_type("math.absf", v) for v in (back, x))
        away, lost = self.compare("gt", rounded, exact, dtypes.float64), self.compare("ne", back, x, dtypes.float64)
        away, lost = (self.convert(flag, dtypes.bool_, dtypes.int32) for flag in (away, lost))
        odd = self._same_type("arith.ori", self._same_type("arith.subi", bits, away), lost)
        return self.e.op("arith.bitcast", self.e.element(dtypes.float32), [odd])

    def _float_to_integer(self, x: Value, source: DType, target: DType) -> Value:
        """Rounds towards zero; NaN and numbers out of range become the smallest integer of the register."""
        if target == dtypes.uint64:
            return self._float_to_u64(x, source)
        register = dtypes.int64 if target.bits == 64 or target == dtypes.uint32 else dtypes.int32
        least, beyond = (self.e.constant(sign * 2.0 ** (register.bits - 1), source) for sign in (-1, 1))
        inside = self._same_type(
            "arith.andi", self.compare("ge", x, least, source), self.compare("lt", x, beyond, source)
        )
        truncated = self.e.op("arith.fptosi", self.e.element(register), [self.select(inside, x, least)])
        return self._integer_to_integer(truncated, register, target)

    def _float_to_u64(self, x: Value, source: DType) -> Value:
        """Of values from 2^63 on, 2^63 is subtracted before the conversion, and the highest bit is set after it."""
        half = self.e.constant(2.0**63, source)
        large = self.compare("ge", x, half, source)
        rest = self.select(large, self._same_type("arith.subf", x, half), x)
        bits = self._float_to_integer(rest, source, dtypes.int64)
        top, nothing = (self.e.constant(value, dtypes.uint64) for value in (1 << 63, 0))
        return self._same_type("arith.xori", bits, self.select(large, top, nothing))

    def _integer_to_float(self, x: Value, source: DType, target: DType) -> Value:
        if source.kind == "index":
            return self._integer_to_float(self.convert(x, source, dtypes.int64), dtypes.int64, target)
        if target.bits <= 16:
            return self.convert(self.convert(x, source, dtypes.float32), dtypes.float32, target)
        return self.e.op("arith.uitofp" if is_unsigned(source) else "arith.sitofp", self.e.element(target), [x])

    def _integer_to_integer(self, x: Value, source: DType, target: DType) -> Value:
        unsigned = is_unsigned(source)
        if "index" in (source.kind, target.kind):
            name = "arith.index_castui" if unsigned else "arith.index_cast"
        elif source.bits == target.bits:
            return x
        elif target.bits < source.bits:
            name = "arith.trunci"
        else:
            name = "arith.extui" if unsigned else "arith.extsi"
        return self.e.op(name, self.e.element(target), [x])


def _is_positive(divisor: Expr) -> bool:
    return divisor.kind == "const" and divisor.value > 0
