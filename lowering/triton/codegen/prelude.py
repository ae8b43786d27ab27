"""The functions that kernels call, and the imports of a kernel.

A kernel declares the names of the functions that it calls; `definitions` returns these functions, and the functions
that these call themselves. Conversions to floats of 8 bits (fp8) are among these functions.
"""

from __future__ import annotations

import textwrap
from collections.abc import Container

import numpy as np

from oneflow.dialect.narrow_floats import F32_INFINITY, NARROW_FLOATS, NarrowFloat
from oneflow.lowering.triton.source import GLUON, TRITON, Function

HEAD = """import triton
import triton.language as tl
"""
#: The name of the functions of libdevice among the functions that a kernel calls, and their import.
LIBDEVICE, LIBDEVICE_IMPORT = "libdevice", "from triton.language.extra.cuda import libdevice\n"

#: Quotients of one call of inline assembly, and the instructions of one quotient of `a` by `b` with the reciprocal
#: `r` of `b`: the product a * r, its remainder, the corrected quotient (rounded correctly, by Markstein),
#: and the largest exponent, to test whether all exponents are in the range in which that holds.
QUOTIENTS = 16
_SHARED_DIVISION = (
    "mul.rn.f32 q{i}, ${a}, ${r}", "neg.f32 e{i}, q{i}", "fma.rn.f32 e{i}, e{i}, ${b}, ${a}",
    "fma.rn.f32 ${i}, e{i}, ${r}, q{i}",
    "shl.b32 u{i}, q{i}, 1", "sub.u32 u{i}, u{i}, 0x41000000", "max.u32 u, u, u{i}",
)  # fmt: skip


def shared_division_asm() -> str:
    """The assembly of `QUOTIENTS` divisions by reciprocals; where one exponent is out of range, all use `div.rn`."""
    n = QUOTIENTS
    lanes = [{"i": i, "a": n + i, "b": 2 * n + i, "r": 3 * n + i} for i in range(n)]
    steps = [step.format(**lane) for step in _SHARED_DIVISION for lane in lanes]
    divisions = ["div.rn.f32 ${i}, ${a}, ${b}".format(**lane) for lane in lanes]
    start = [
        f".reg .f32 q<{QUOTIENTS}>, e<{QUOTIENTS}>",
        f".reg .b32 u, u<{QUOTIENTS}>",
        ".reg .pred p",
        "mov.u32 u, 0",
    ]
    test = ["setp.lt.u32 p, u, 0x7c000000", "@p bra done"]
    return "{ " + "; ".join([*start, *steps, *test, *divisions]) + "; done: }"


def _extreme(operation: str, language: str = "tl") -> tuple[str, str]:
    """The definition of a maximum or minimum that is NaN where an operand is; `language` is the module of Triton."""
    return "a, b", f"return tl.{operation}(a, b, propagate_nan={language}.PropagateNan.ALL)"


def _widening(narrow: NarrowFloat) -> tuple[str, str]:
    """The definition of the conversion of codes to f32; see `lowering.llvm.float_conversions`."""
    return (
        "code",
        f"""
    bits = code.to(tl.int32)
    size = (bits & {narrow.sign - 1}) << {narrow.lost_bits}
    scaled = (size.to(tl.float32, bitcast=True) * {2.0**narrow.bias_difference}).to(tl.int32, bitcast=True)
    value = tl.where(size >= {narrow.special << narrow.lost_bits}, scaled | {F32_INFINITY}, scaled)
    return (value | (bits & {-(1 << 31)})).to(tl.float32, bitcast=True)
""",
    )


def _narrowing(narrow: NarrowFloat) -> tuple[str, str]:
    """The definition of the conversion of f32 to codes."""
    unit = narrow.tiny_unit
    return (
        "x",
        f"""
    bits = x.to(tl.int32, bitcast=True)
    size = bits & 0x7FFFFFFF
    normal = (size + {narrow.rounding} + ((size >> {narrow.lost_bits}) & 1)) >> {narrow.lost_bits}
    tiny = (tl.abs(x) + {unit}).to(tl.int32, bitcast=True) - {int(np.float32(unit).view(np.int32))}
    number = tl.where(size < {narrow.smallest_normal}, tiny, normal)
    special = tl.where(size > {F32_INFINITY}, {narrow.nan}, {narrow.special})
    number = tl.where(size < {narrow.overflow}, number, special)
    return (number | ((bits >> 24) & 0x80)).to(tl.int8)
""",
    )


#: The parameters and the statements of the functions by name.
_DEFINITIONS = {
    "nan_maximum": _extreme("maximum"),
    "nan_minimum": _extreme("minimum"),
    "add": ("a, b", "return a + b"),
    "add_pairs": ("a, b, c, d", "return a + c, b + d"),
    "multiply": ("a, b", "return a * b"),
    "maximum": ("a, b", "return tl.maximum(a, b)"),
    "minimum": ("a, b", "return tl.minimum(a, b)"),
    **{
        f"{name}_u{bits}": ("a, b", f"""
    found = tl.{extreme}(a.to(tl.uint{bits}, bitcast=True), b.to(tl.uint{bits}, bitcast=True))
    return found.to(tl.int{bits}, bitcast=True)
""")
        for name, extreme in (("maximum", "maximum"), ("minimum", "minimum"))
        for bits in (8, 16, 32, 64)
    },
    "bitwise_and": ("a, b", "return a & b"),
    "bitwise_or": ("a, b", "return a | b"),
    "bitwise_xor": ("a, b", "return a ^ b"),
    "boolean_not": ("a", "return a == 0"),
    "floor_divide": ("a, b", """
    quotient = a // b
    return tl.where((quotient * b != a) & ((a < 0) != (b < 0)), quotient - 1, quotient)
"""),
    # Within two units in the last place; subnormal numbers are flushed to zero, unlike in `/` and `tl.exp2`.
    "fast_reciprocal": ("x", """
    return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
"""),
    "fast_exp2": ("x", """
    return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
"""),
    "fast_exp": ("x", "return fast_exp2(x * 1.442695041)"),
    # a / b rounded like `tl.div_rn`, where many a have one b: for |a / b| from 2^-62 to 2^62 and |b| from 2^-40 to
    # 2^40. For other b the reciprocal is NaN, so that all quotients use `div.rn`.
    "divide_by_shared": ("a, b", f"""
    known = (tl.abs(b) > {2.0**-40}) & (tl.abs(b) < {2.0**40})
    inverse = tl.where(known, tl.div_rn(tl.full((), 1.0, tl.float32), b), float("nan"))
    text: tl.constexpr = "{shared_division_asm()}"
    return tl.inline_asm_elementwise(
        text, "{",".join(["=f"] * QUOTIENTS + ["f"] * 3 * QUOTIENTS)}", [a, b, inverse], tl.float32, True, {QUOTIENTS}
    )
"""),
    # a / b to 0.51 units in the last place, exact where the quotient is an f32: an approximate quotient is corrected
    # by its remainder. Subnormal quotients, and quotients of subnormal numbers, stay within two units.
    "divide": ("a, b", """
    near = a / b
    better = tl.fma(tl.fma(-near, b, a), fast_reciprocal(b), near)
    return tl.where(tl.abs(better) < float("inf"), better, near)
"""),
    # Abramowitz and Stegun 7.1.26: absolute error below 1.5e-7, so near zero the first term of the series.
    "fast_erf": ("x", """
    size = tl.abs(x)
    t = fast_reciprocal(1.0 + 0.3275911 * size)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    value = 1.0 - tail * fast_exp2(size * -1.442695041 * size)
    return tl.where(size < 0.01, 1.128379167 * x, tl.where(x < 0, -value, value))
"""),
    "fast_tanh": ("x", """
    size = tl.abs(x)
    value = 1.0 - 2.0 * fast_reciprocal(fast_exp2(2.885390082 * size) + 1.0)
    return tl.where(size < 0.04, x - x * x * x / 3, tl.where(x < 0, -value, value))
"""),
    "approximate_tanh": ("x", """
    return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
"""),
    **{f"f32_of_{n.name}": _widening(n) for n in NARROW_FLOATS if n.bits == 8},
    **{f"{n.name}_of_f32": _narrowing(n) for n in NARROW_FLOATS if n.bits == 8},
    # The number that exponentials are relative to: 0 where the maximum is -inf.
    "softmax_base": ("x", 'return tl.where(x == float("-inf"), 0.0, x)'),
    # The upper 24 bits of the first word of Philox4x32-10 for a position and a key; see `dialect.philox`.
    "philox_bits": ("position, key", """
    zero = (position * 0).to(tl.uint32)
    a, b, c, d = position.to(tl.uint32), (position >> 32).to(tl.uint32), zero, zero
    low, high = key.to(tl.uint32), (key >> 32).to(tl.uint32)
    for _ in tl.static_range(10):
        first, second = a.to(tl.uint64) * 0xD2511F53, c.to(tl.uint64) * 0xCD9E8D57
        a, b = (second >> 32).to(tl.uint32) ^ b ^ low, second.to(tl.uint32)
        c, d = (first >> 32).to(tl.uint32) ^ d ^ high, first.to(tl.uint32)
        low, high = low + 0x9E3779B9, high + 0xBB67AE85
    return a >> 8
"""),
    "check_index": ("position, size, site, inside, failure", """
    bad = ((position < 0) | (position >= size)) & inside
    slot = failure + site.to(tl.int64) * 3 + position * 0
    tl.store(slot, position * 0 + 1, bad)
    tl.store(slot + 1, position, bad)
    tl.store(slot + 2, position * 0 + size, bad)
    return tl.where(bad, 0, position)
"""),
}  # fmt: skip
#: The functions that functions of the prelude call themselves.
_CALLS = {
    "fast_exp": ("fast_exp2",), "divide": ("fast_reciprocal",), "fast_erf": ("fast_reciprocal", "fast_exp2"),
    "fast_tanh": ("fast_reciprocal", "fast_exp2"),
}  # fmt: skip


def _function(name: str, definition: tuple[str, str]) -> Function:
    parameters, statements = definition
    body = (textwrap.dedent(statements).strip(),)
    return Function(name, tuple(parameters.split(", ")), body, calls=_CALLS.get(name, ()))


#: The functions by name, each after the functions that it calls.
FUNCTIONS = {name: _function(name, definition) for name, definition in _DEFINITIONS.items()}
#: The functions that Gluon has in another form: its language does not export `PropagateNan`.
GLUON_FUNCTIONS = {
    name: _function(name, _extreme(operation, "triton.language"))
    for name, operation in (("nan_maximum", "maximum"), ("nan_minimum", "minimum"))
}
_BY_LANGUAGE = {TRITON: FUNCTIONS, GLUON: {**FUNCTIONS, **GLUON_FUNCTIONS}}


def definitions(called: Container[str], language: str = TRITON) -> tuple[Function, ...]:
    """The functions named in `called`, each after the functions that it calls itself."""
    functions = list[Function]()
    for name, function in reversed(_BY_LANGUAGE[language].items()):
        if name in called or any(name in other.calls for other in functions):
            functions.append(function)
    return tuple(reversed(functions))


def preamble(called: Container[str]) -> tuple[str, ...]:
    """The imports of a kernel in Triton that calls the functions of the given names."""
    return (HEAD, LIBDEVICE_IMPORT) if LIBDEVICE in called else (HEAD,)
