"""Samples of the operators that choose between values or convert values."""

from math import inf, nan

from oneflow.dialect import dtypes as dt
from oneflow.dialect.dtypes import FLOATS, bool_, float16, float32, float64, int8
from oneflow.testing.sample import ALL, INTEGERS, NUMERIC, Bad, Sample, t, v

from .scalar_ops import real, whole

ROUNDS = "rounding to fewer bits has no difference quotient"
WHY = "NaN, infinities and bends have no difference quotient"
BOTH = {"floating_min": -0.5, "integral_min": -1, "floating_max": 1.0, "integral_max": 1}
LOW = {"floating_min": -0.5, "integral_min": -1}
HIGH = {"floating_max": 1.0, "integral_max": 1}
CLIPS = (("clip_by_scalar", BOTH), ("clip_by_scalar_min", LOW), ("clip_by_scalar_max", HIGH))
EDGES = (nan, inf, -inf, 0.0, -0.0, -0.5, 1.0, 2.0)
#: Numbers beyond the integers; NumPy converts the first eight by other instructions than the last two.
BEYOND = (nan, inf, -inf, 3e9, -5.0, 1e10, 1e19, -1e19, nan, 1e19)


def holds(value):
    """The number as a bool operand."""
    return {"has_bool_operand": True, "bool_operand": value}


def _edges(op, operands, attrs=None, dtypes=(float32,), why=WHY):
    return Sample(op, operands, attrs or {}, dtypes=dtypes, gradient=False, why=why)


def _cast(values, dtype, dtypes=(float32,), why=WHY):
    return _edges("cast", [v(values)], {"dtype": dtype}, dtypes, why)


MASK = t(2, 3, dtype=bool_)
#: Shapes of condition, x and y.
WHERE = (((2, 3),) * 3, ((2, 1), (3,), (1, 3)), ((), (2,), ()), ((1, 0), (2, 0), (1,)), ((), (), ()))
#: Shapes of x and mask.
FILL = (((2, 3), (2, 3)), ((2, 3), (3,)), ((), ()), ((0, 2), (2,)))

SAMPLES = [
    *[Sample("where", [t(*c, dtype=bool_), t(*x), t(*y)], dtypes=ALL) for c, x, y in WHERE],
    Sample("where", [t(1, 3, dtype=bool_), t(2, 3), t(1)]),
    *[Sample("where", [t(4, dtype=d), t(4), t(4)]) for d in INTEGERS],
    _edges("where", [v([True, False, True], bool_), v([nan, inf, 1.0]), v([1.0, nan, -inf])]),
    *[Sample("masked_fill", [t(*x), t(*m, dtype=bool_)], whole(1), dtypes=ALL) for x, m in FILL],
    Sample("masked_fill", [t(2, 3), MASK], real(0.5), dtypes=FLOATS),
    *[Sample("masked_fill", [t(2, 3), MASK], holds(value), dtypes=ALL) for value in (True, False)],
    *[Sample("masked_fill", [t(4), t(4, dtype=d)], real(-1.0)) for d in INTEGERS],
    _edges("masked_fill", [t(2, 3), MASK], real(-inf), FLOATS),
    _edges("masked_fill", [v([nan, inf, 1.0]), v([1, 0, 1], int8)], real(nan)),
    *[Sample(n, [t(*shape, low=-3, high=3)], a, dtypes=NUMERIC) for n, a in CLIPS for shape in ((2, 3), (), (0, 2))],
    *[_edges(n, [v(EDGES)], a, FLOATS) for n, a in CLIPS],
    Sample("clip_by_scalar", [t(4)], {"floating_min": 1.0, "floating_max": -1.0}),
    Sample("clip_by_scalar", [v([-128, 0, 127])], {"integral_min": -1000, "integral_max": 1000}, dtypes=(int8,)),
    Sample("clip_by_scalar_min", [v([0, 255])], {"integral_min": -1000}, dtypes=(dt.uint8,)),
    Sample("clip_by_scalar", [v(2**64 - 1)], {"integral_min": 1, "integral_max": 2**63 - 1}, dtypes=(dt.uint64,)),
    *[
        Sample("cast", [t(2, 3, low=0.0, high=4.0)], {"dtype": d}, dtypes=ALL, gradient=d is float64, why=ROUNDS)
        for d in ALL
    ],
    *[Sample("cast", [t(*shape)], {"dtype": d}) for d in (float64, dt.int32) for shape in ((), (0, 2))],
    *[_cast([nan, inf, -inf, -0.0, 1e-9], d) for d in (*FLOATS, bool_)],
    *[_cast([-1.75, 1.75, -0.5, 0.5, 100.9], d, FLOATS) for d in (int8, dt.int32, dt.int64)],
    *[_cast(BEYOND, d, (float32, float64)) for d in INTEGERS],
    *[_cast([-129, 300, 128, -1], d, (dt.int32, dt.int64)) for d in (int8, dt.uint8, dt.int32)],
    _cast([1 + 2**-8, 1 + 2**-9 + 2**-20, 3.38e38, inf], dt.bfloat16, why=ROUNDS),
    _cast([1 + 2**-11 + 2**-30, 65519.0, 65520.0, inf], float16, (float32, float64), ROUNDS),
]
BAD = [
    Bad(
        "where",
        [t(2), t(2), t(2)],
        match="expected condition of type i1, ui8, ui16, ui32, ui64, i8, i16, i32, i64, got f32",
    ),
    Bad("where", [t(2, dtype=bool_), t(2), t(2, dtype=dt.int32)], match="expected operands of one data type"),
    Bad("where", [t(3, dtype=bool_), t(2), t(2)], match="expected operands that broadcast, got shapes 3, 2, 2"),
    Bad("masked_fill", [t(2), t(2)], whole(1), match="expected mask of type"),
    Bad("masked_fill", [t(2), t(2, dtype=bool_)], match="expected exactly one of has_int_operand"),
    Bad(
        "masked_fill", [t(2), t(2, dtype=bool_)], {**whole(1), **holds(True)}, match="expected one of has_int_operand"
    ),
    Bad("masked_fill", [t(2), t(2, dtype=bool_)], real(0.5), dtype=dt.int32, match="expected a whole number"),
    Bad("clip_by_scalar", [t(2)], dtype=bool_, match="expected x of type"),
    Bad("cast", [t(2)], match="expected the attribute dtype: data_type"),
]
