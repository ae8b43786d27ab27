"""Samples of element-wise operators of two or more operands."""

from math import inf, nan

from oneflow.dialect.dtypes import FLOATS, bool_, float32, float64, int8, int32, int64, uint8
from oneflow.testing.sample import ALL, INTEGERS, NUMERIC, Bad, Sample, t, v

BITS = (bool_, *INTEGERS)
#: Pairs of shapes: equal, broadcast both ways, with a scalar, empty, rank 0.
SHAPES = (((2, 3), (2, 3)), ((2, 1, 3), (4, 1)), ((), (3,)), ((0, 3), (1, 3)), ((), ()))
#: Every pair of these is tried.
SPECIAL = (nan, inf, -inf, 0.0, -0.0, 1.0, -1.5, 2.5)
WHY = "NaN, infinities, ties and jumps have no difference quotient"

SMOOTH = (
    "broadcast_add",
    "broadcast_sub",
    "broadcast_mul",
    "broadcast_mul_no_nan",
    "broadcast_div",
    "broadcast_maximum",
    "broadcast_minimum",
)
REMAINDERS = ("broadcast_floor_mod", "broadcast_fmod", "floordiv", "truncdiv")
COMPARISONS = tuple(f"broadcast_{c}" for c in "equal not_equal greater greater_equal less less_equal".split())
LOGICAL = tuple(f"broadcast_logical_{c}" for c in ("and", "or", "xor"))
BITWISE = tuple(f"broadcast_bitwise_{c}" for c in ("and", "or", "xor"))
INT8_PAIRS = ([-128, -128, 127, -7, 7, -7, 0, 5], [-1, 3, -2, 2, -2, -2, 0, 0])


def _pairs(name, values=SPECIAL, **options):
    left, right = [a for a in values for _ in values], [b for _ in values for b in values]
    return Sample(name, [v(left), v(right)], gradient=False, why=WHY, **options)


def _shapes(name, dtypes, low=-2.0, high=2.0):
    return [Sample(name, [t(*a, low=low, high=high), t(*b, low=low, high=high)], dtypes=dtypes) for a, b in SHAPES]


SAMPLES = [
    *[s for name in SMOOTH for s in _shapes(name, NUMERIC)],
    *[s for name in REMAINDERS for s in _shapes(name, INTEGERS)],
    *[s for name in REMAINDERS for s in _shapes(name, FLOATS, 0.5, 3.0)],
    *[Sample(name, [t(3, low=4.5, high=5.4), t(3, low=-2.0, high=-1.9)]) for name in REMAINDERS],
    *[_pairs(name, dtypes=(float32, float64)) for name in (*SMOOTH, *REMAINDERS)],
    *[Sample(n, [v(a, int8) for a in INT8_PAIRS], dtypes=(int8,)) for n in (*SMOOTH, *REMAINDERS)],
    *[
        Sample(n, [v([0, 255, 200, 7], uint8), v([0, 2, 0, 255], uint8)], dtypes=(uint8,))
        for n in (*SMOOTH, *REMAINDERS)
    ],
    *[s for name in ("broadcast_pow", "pow") for s in _shapes(name, FLOATS, 0.5, 2.0)],
    *[s for name in ("broadcast_pow", "pow") for s in _shapes(name, INTEGERS, -3, 4)],
    *[_pairs(name, dtypes=(float32, float64)) for name in ("broadcast_pow", "pow", "atan2", "xlogy", "xdivy")],
    Sample("broadcast_pow", [v([3, -3, 7, 0, -1], int64), v([39, 41, 22, 0, -3], int64)], dtypes=(int64,)),
    Sample("broadcast_pow", [v([2, 3, -2], int8), v([8, 5, 7], int8)], dtypes=(int8,)),
    *_shapes("atan2", FLOATS, 0.5, 2.0),
    *_shapes("xlogy", FLOATS, 0.5, 2.0),
    *_shapes("xdivy", FLOATS, 0.5, 2.0),
    *[s for name in (*COMPARISONS, *LOGICAL) for s in _shapes(name, ALL)],
    *[_pairs(name) for name in (*COMPARISONS, *LOGICAL)],
    *[s for name in BITWISE for s in _shapes(name, BITS)],
    *[Sample("broadcast_equal", [v([2**53 + 1], int64), v([2**53], int64)], dtypes=(int64,))],
    Sample("broadcast_div", [t(2, 3), t(2, 3, low=0.5)]),
    Sample("add_n", [[t(2, 3)]], dtypes=NUMERIC),
    Sample("add_n", [[t(2, 3), t(2, 3), t(2, 3)]], dtypes=NUMERIC),
    Sample("add_n", [[t(), t()]]),
    Sample("add_n", [[t(0, 2), t(0, 2)]]),
    Sample("add_n", [[v([nan, inf, inf]), v([1.0, -inf, inf])]], gradient=False, why=WHY),
    Sample("add_n", [[v([100, -100], int8), v([100, -100], int8)]], dtypes=(int8,)),
]
BAD = [
    Bad("broadcast_add", [t(2, 3), t(4)], match="expected operands that broadcast, got shapes 2x3, 4"),
    Bad("broadcast_mul", [t(2), t(2, dtype=int32)], match="expected operands of one data type, got f32 and i32"),
    Bad("broadcast_sub", [t(2), t(2)], dtype=bool_, match="expected x of type"),
    Bad("atan2", [t(2), t(2)], dtype=int32, match="expected x of type f16, bf16, f32, f64, got i32"),
    Bad(
        "broadcast_bitwise_and",
        [t(2), t(2)],
        match="expected x of type i1, ui8, ui16, ui32, ui64, i8, i16, i32, i64, got f32",
    ),
    Bad("add_n", [[t(2), t(3)]], match="expected operands of one shape, got tensor<2xf32>, tensor<3xf32>"),
    Bad("add_n", [[t(2), t(2, dtype=int32)]], match="expected operands of one data type, got f32 and i32"),
    Bad("add_n", [[t(2)]], dtype=bool_, match="expected in of type"),
]
