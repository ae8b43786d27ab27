"""Samples of special functions and of tests of nearness."""

from math import inf, nan
from typing import Any

from oneflow.dialect.dtypes import float16, float32, float64, int64
from oneflow.testing.sample import Sample, t, v

WHY = "poles have no difference quotient"
TYPES = (float32, float64, float16)
#: Poles, zeros and their neighbours, and large arguments.
POINTS = v([nan, inf, -inf, 0.0, -0.0, 1.0, 2.0, 0.5, -0.5, -1.5, -2.0, 9.5, 30.25, -7.75, 1e-30, 1e4])
ENDS = v([nan, 0.0, 1.0, -1.0, 1.5, 0.9999, -0.99, 1e-6, 0.5])
NEAR = (v([1.0, 1.0, nan, inf, inf, 0.0, 2.0]), v([1.0001, 1.1, nan, inf, -inf, 0.0, inf]))
#: Powers and first terms at which zeta is infinite, no number, or a value of tables: pi^2 / 6, pi^4 / 90.
HURWITZ = (v([2.0, 4.0, 1.0, 0.5, 2.0, 2.0, 2.0, 30.0]), v([1.0, 1.0, 2.0, 2.0, -3.0, 0.0, -0.5, 0.1]))

SAMPLES = [
    Sample("erfinv", [t(2, 3, low=-0.95, high=0.95)], dtypes=TYPES),
    Sample("erfinv", [ENDS], dtypes=(float32, float64), gradient=False, why=WHY),
    Sample("lgamma", [t(2, 3, low=0.2, high=6.0)], dtypes=TYPES),
    Sample("digamma", [t(2, 3, low=0.2, high=6.0)], dtypes=TYPES),
    Sample("trigamma", [t(2, 3, low=0.2, high=6.0)], dtypes=TYPES),
    *[
        Sample(name, [POINTS], dtypes=(float32, float64), gradient=False, why=WHY)
        for name in ("lgamma", "digamma", "trigamma")
    ],
    *[Sample(name, [t(2, 3, low=0.5, high=4.0), t(2, 3)]) for name in ("lgamma_grad", "digamma_grad")],
    Sample("broadcast_zeta", [t(2, 3, low=1.5, high=6.0), t(3, low=0.25, high=4.0)], dtypes=TYPES),
    Sample("broadcast_zeta", [*HURWITZ], dtypes=(float32, float64), gradient=False, why=WHY),
    Sample("frac", [v([1.25, -1.25, 3.5, -0.5])], dtypes=(float32, float16)),
    Sample("not_equal_zero", [v([0.0, 2.0, -3.0, -0.0])], dtypes=(float32, float16, int64), gradient=False, why=WHY),
    *[
        Sample(f"broadcast_isclose_{name}", [*NEAR], {"rtol": 1e-3}, dtypes=(float32, float16))
        for name in ("eq_nan", "neq_nan")
    ],
    Sample("broadcast_isclose_eq_nan", [v([[10], [11]], int64), v([10, 12], int64)], {"atol": 1.0}, dtypes=(int64,)),
]
BAD: list[Any] = []
