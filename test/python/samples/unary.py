"""Samples of element-wise operators of one operand."""

from math import inf, nan
from typing import Any

from oneflow.dialect.dtypes import (
    ALL,
    FLOATS,
    INTEGERS,
    NUMERIC,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    uint8,
)
from oneflow.testing.sample import Bad, Sample, t, v

#: Points where functions end, bend or overflow.
EDGES = (nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 20.5, -20.5, 100.0, -100.0, 1e4, -1e4)
HALVES = (nan, inf, -inf, 0.5, 1.5, 2.5, -0.5, -1.5, -0.25, 0.75, -1e4, 8388609.0)
BITS = (bool_, *INTEGERS)

#: Operators defined on an interval, which has to hold the random operands.
DOMAINS = {
    "acos": (-0.9, 0.9), "asin": (-0.9, 0.9), "atanh": (-0.9, 0.9), "acosh": (1.1, 3.0), "rsqrt": (0.1, 2.0),
    **dict.fromkeys("log log10 log1p log2 reciprocal sqrt".split(), (0.1, 3.0)),
}  # fmt: skip
CURVES = """asinh atan cos cosh sin sinh tan tanh erf erfc exp exp2 expm1 reciprocal_no_nan square_relu selu sigmoid
    silu quick_gelu gelu fast_gelu log_sigmoid mish softsign hardsigmoid hardswish""".split()
#: Attributes of the operators that have some.
SHAPED: Any = (
    ("leaky_relu", {"alpha": 0.25}),
    ("elu", {"alpha": 1.5}),
    ("celu", {"alpha": 1.5}),
    ("softplus", {"beta": 2.0, "threshold": 2.5}),
    ("softplus", {}),
    ("hardtanh", {"min_val": -1.0, "max_val": 0.5}),
    ("hardshrink", {"lambd": 0.5}),
    ("softshrink", {"alpha": 0.5}),
    ("threshold", {"threshold_val": 0.5, "value": -2.0}),
)
WHOLE = "ceil floor rint round trunc".split()
ARITHMETIC = ("abs", "negative", "sign", "square", "relu", *WHOLE)
TESTS = ("isnan", "isinf", "isfinite")


def _curve(name, attrs=None, low=-2.0, high=2.0):
    edges: dict[str, Any] = {
        "gradient": False,
        "why": "NaN, infinities, bends and overflow have no difference quotient",
    }
    return [
        Sample(name, [t(2, 3, low=low, high=high)], attrs or {}, dtypes=FLOATS),
        Sample(name, [t(low=low, high=high)], attrs or {}),
        Sample(name, [t(0, 3)], attrs or {}),
        Sample(name, [v(EDGES)], attrs or {}, dtypes=(float16, float32, float64), **edges),
    ]


def _arithmetic(name):
    return [
        Sample(name, [t(2, 3, low=-3, high=3)], dtypes=NUMERIC),
        Sample(name, [t()], dtypes=NUMERIC),
        Sample(name, [t(3, 0)], dtypes=NUMERIC),
        Sample(name, [v(EDGES if name not in WHOLE else HALVES)], gradient=False, why="NaN, infinities and bends"),
        Sample(name, [v([-128, 127, 0, -1], int8)], dtypes=(int8,)),
        Sample(name, [v([0, 255, 128], uint8)], dtypes=(uint8,)),
        Sample(name, [v([-(2**31), 2**31 - 1, 0], int32)], dtypes=(int32,)),
    ]


SAMPLES = [
    *[s for name, (low, high) in DOMAINS.items() for s in _curve(name, low=low, high=high)],
    *[s for name in CURVES for s in _curve(name)],
    *[s for name, attrs in SHAPED for s in _curve(name, attrs)],
    *[s for name in ARITHMETIC for s in _arithmetic(name)],
    *[Sample(name, [v([nan, inf, -inf, 0.0, 1.0])], dtypes=FLOATS) for name in TESTS],
    *[Sample(name, [t(2, 3)], dtypes=INTEGERS) for name in TESTS],
    *[Sample(name, [t(*shape)]) for name in TESTS for shape in ((), (0, 2))],
    *[Sample("identity", [t(*shape)], dtypes=ALL) for shape in ((), (2, 3), (0, 2))],
    *[Sample("logical_not", [t(*shape)], dtypes=ALL) for shape in ((), (2, 3), (0, 2))],
    Sample("logical_not", [v([nan, -0.0, inf, 0.25])]),
    *[Sample("bitwise_not", [t(*shape)], dtypes=BITS) for shape in ((), (2, 3), (0, 2))],
    Sample("expm1", [v([1e-8, -1e-8, 1e-20])], gradient=False, why="differences cancel"),
    Sample("log1p", [v([1e-8, -1e-8, 1e-20])], gradient=False, why="differences cancel"),
]
FLOATS_TEXT = "f16, bf16, f32, f64"
BAD = [
    *[Bad(n, [t(2)], dtype=int32, match=f"expected x of type {FLOATS_TEXT}") for n in ("tanh", "exp", "sqrt")],
    *[Bad(n, [t(2)], dtype=int32, match=f"expected in of type {FLOATS_TEXT}") for n in ("gelu", "silu", "elu")],
    Bad(
        "negative",
        [t(2)],
        dtype=bool_,
        match="expected x of type ui8, ui16, ui32, ui64, i8, i16, i32, i64, f16, bf16, f32, f64, complex<f32>",
    ),
    Bad("bitwise_not", [t(2)], match="expected x of type i1, ui8, ui16, ui32, ui64, i8, i16, i32, i64, got f32"),
    Bad("isnan", [t(2)], dtype=bool_, match="got i1"),
    Bad("leaky_relu", [t(2)], {"alpha": "big"}, match="attribute alpha: expected a number, got 'big'"),
    Bad("elu", [t(2)], {"slope": 1.0}, match="unknown attribute 'slope'; it has alpha"),
]
