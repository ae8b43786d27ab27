"""Samples of operators that give a tensor unchanged."""

from oneflow.dialect.dtypes import ALL, bool_, int64
from oneflow.testing.sample import Bad, Sample, t

SHAPES = ((), (2, 3), (0, 2))
WHY = "no gradient flows, which is what the operator is for"

SAMPLES = [
    *[Sample("stop_gradient", [t(*s)], dtypes=ALL, gradient=False, why=WHY) for s in SHAPES],
    *[Sample("depend", [t(*s), t(2, dtype=int64)], dtypes=ALL) for s in SHAPES],
    Sample("depend", [t(3, 2), t(4, dtype=bool_)]),
    Sample("depend", [t(3), t()]),
]
BAD = [
    Bad("stop_gradient", [t(2)], {"axis": 1}, match="unknown attribute 'axis'"),
    Bad("depend", [t(2), t(2)], {"axis": 1}, match="unknown attribute 'axis'"),
]
