"""Samples of element-wise operators of a tensor and a number."""

from math import inf, nan

from oneflow.dialect.dtypes import FLOATS, bool_, float32, float64, int8, int32, uint8
from oneflow.testing.sample import ALL, INTEGERS, NUMERIC, Bad, Sample, t, v

BITS = (bool_, *INTEGERS)
SPECIAL = (nan, inf, -inf, 0.0, -0.0, 1.0, -1.5, 2.5, 1e4)
WHY = "NaN, infinities and jumps have no difference quotient"


def whole(number):
    """The number as an integer operand."""
    return {"has_int_operand": True, "int_operand": number}


def real(number):
    """The number as a floating-point operand."""
    return {"has_float_operand": True, "float_operand": number}


ARITHMETIC = ("scalar_add", "scalar_mul", "scalar_div", "scalar_fmod", "scalar_floordiv", "scalar_truncdiv")
POWERS = (-2, -1, 0, 1, 2, 3, 5)
COMPARISONS = tuple(f"scalar_logical_{c}" for c in "equal not_equal greater greater_equal less less_equal".split())
LOGICAL = tuple(f"scalar_logical_{c}" for c in ("and", "or", "xor"))
BITWISE = tuple(f"scalar_bitwise_{c}" for c in ("and", "or", "xor"))
BY_TENSOR = tuple(f"scalar_{c}_by_tensor" for c in ("add", "sub", "mul", "div"))

SAMPLES = [
    *[Sample(name, [t(2, 3, low=0.1, high=0.7)], real(0.75), dtypes=FLOATS) for name in ARITHMETIC],
    *[Sample(name, [t(2, 3, low=-3, high=4)], whole(2), dtypes=INTEGERS) for name in ARITHMETIC],
    *[Sample(name, [t(2, 3, low=-5, high=6)], real(3.0), dtypes=INTEGERS) for name in ARITHMETIC],
    *[Sample(name, [t(2, 3, low=0.1, high=1.9)], whole(2), dtypes=FLOATS) for name in ARITHMETIC],
    *[Sample(name, [t(2, 3)], whole(0), dtypes=INTEGERS) for name in ARITHMETIC],
    *[Sample(name, [v([-128, 127, -7, 7])], whole(-2), dtypes=(int8, int32)) for name in ARITHMETIC],
    *[Sample(name, [v([-128, 127, 0])], whole(-1), dtypes=(int8,)) for name in ARITHMETIC],
    *[Sample(name, [t(*shape)], whole(1), dtypes=(float32, int32)) for name in ARITHMETIC for shape in ((), (0, 2))],
    *[
        Sample(name, [v(SPECIAL)], real(number), dtypes=(float32, float64), gradient=False, why=WHY)
        for name in ARITHMETIC
        for number in (0.0, -2.5, inf, nan)
    ],
    Sample("scalar_add", [v([0, 1, 255])], whole(-1), dtypes=(uint8,)),
    Sample("scalar_mul", [v([0, 1, 255])], whole(300), dtypes=(uint8,)),
    *[Sample("scalar_pow", [t(2, 3, low=0.5, high=2.0)], whole(n), dtypes=FLOATS) for n in POWERS],
    *[Sample("scalar_pow", [t(2, 3, low=0.5, high=2.0)], real(n), dtypes=FLOATS) for n in (0.5, 2.0, -1.5)],
    *[Sample("scalar_pow", [t(5, low=-3, high=4)], whole(n), dtypes=NUMERIC) for n in (0, 1, 2, 3, 7)],
    *[Sample("scalar_pow", [v([-2, -1, 0, 1, 2])], whole(n), dtypes=(int8, int32)) for n in (-1, -2, -3)],
    *[
        Sample("scalar_pow", [v(SPECIAL)], real(n), gradient=False, why=WHY)
        for n in (0.0, 1.0, 2.0, 3.0, -1.0, 0.5, inf)
    ],
    *[Sample("scalar_pow", [t(*shape)], real(2.0)) for shape in ((), (0, 2))],
    *[Sample("scalar_reverse_pow", [t(2, 3)], real(n), dtypes=FLOATS) for n in (0.5, 2.0, 10.0)],
    *[Sample("scalar_reverse_pow", [t(2, 3, low=-2, high=5)], whole(n), dtypes=(int8, int32)) for n in (-1, 0, 1, 3)],
    *[
        Sample("scalar_reverse_pow", [v(SPECIAL)], real(n), gradient=False, why=WHY)
        for n in (0.0, 1.0, -2.0, inf, nan)
    ],
    *[Sample("scalar_reverse_pow", [t(*shape)], real(2.0)) for shape in ((), (0, 2))],
    *[Sample(name, [t(2, 3)], whole(1), dtypes=ALL) for name in (*COMPARISONS, *LOGICAL)],
    *[Sample(name, [v(SPECIAL)], real(n)) for name in (*COMPARISONS, *LOGICAL) for n in (0.0, -1.5, inf, nan)],
    *[Sample(name, [t(*shape)], whole(0)) for name in (*COMPARISONS, *LOGICAL) for shape in ((), (0, 2))],
    *[Sample(name, [t(2, 3, low=-3, high=9)], {"operand": n}, dtypes=BITS) for name in BITWISE for n in (0, 1)],
    *[
        Sample(name, [t(*shape)], {"operand": -5}, dtypes=(int32,))
        for name in BITWISE
        for shape in ((), (2, 3), (0, 2))
    ],
    *[Sample(name, [t(2, 3)], dtypes=BITS) for name in BITWISE],
    *[
        Sample(name, [t(*a, low=0.5), t(*b, low=0.5, high=3.0)], dtypes=NUMERIC)
        for name in BY_TENSOR
        for a, b in (((2, 3), ()), ((2, 3), (1,)), ((3,), (1,)), ((), ()), ((0, 2), (1, 1)))
    ],
    *[Sample(n, [v(SPECIAL), v(x)], gradient=False, why=WHY) for n in BY_TENSOR for x in (0.0, -2.5, nan)],
    Sample("scalar_div_by_tensor", [t(2, 3), t(1, low=0.5)]),
    Sample("host_scalar_add_by_tensor", [t(2, 3), t(1)]),
    Sample("scalar_div_by_tensor", [v([-7, 7, 0]), v([0])], dtypes=(int8, int32)),
]
BAD = [
    Bad("scalar_add", [t(2)], match="expected exactly one of has_int_operand and has_float_operand to be true"),
    Bad("scalar_mul", [t(2)], {**whole(1), **real(1.0)}, match="expected exactly one of has_int_operand"),
    Bad("scalar_mul", [t(2)], real(1.5), dtype=int32, match="expected a whole number for a tensor of i32, got 1.5"),
    Bad("scalar_add", [t(2)], real(inf), dtype=int32, match="expected a whole number for a tensor of i32, got inf"),
    Bad("scalar_add", [t(2)], whole(1), dtype=bool_, match="expected in of type"),
    Bad(
        "scalar_logical_less",
        [t(2)],
        whole(-1),
        dtype=uint8,
        match="expected a number in [0, 255] for a tensor of ui8",
    ),
    Bad(
        "scalar_bitwise_or",
        [t(2)],
        {"operand": 300},
        dtype=uint8,
        match="expected a number in [0, 255] for a tensor of ui8",
    ),
    Bad(
        "scalar_bitwise_and",
        [t(2)],
        {"operand": 1},
        match="expected in of type i1, ui8, ui16, ui32, ui64, i8, i16, i32, i64, got f32",
    ),
    Bad("scalar_add_by_tensor", [t(2), t(2)], match="expected scalar of one element"),
    Bad("scalar_mul_by_tensor", [t(2), t(1, 1)], match="expected scalar of one element, static, of rank 1 at most"),
    Bad(
        "scalar_div_by_tensor", [t(2), t(1, dtype=int32)], match="expected operands of one data type, got f32 and i32"
    ),
]
