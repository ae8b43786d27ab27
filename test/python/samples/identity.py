"""Samples of operators that give a tensor unchanged."""

from oneflow.dialect.dtypes import bool_, float32, int64
from oneflow.testing.sample import ALL, Bad, Sample, t

SHAPES = ((), (2, 3), (0, 2))
WHY = "no gradient flows, which is what the operator is for"

COPIES = ("copy", "copy_h2d", "copy_d2h", "pinned_identity", "to_contiguous", "cast_to_static_shape")

SAMPLES = [
    *[Sample("stop_gradient", [t(*s)], dtypes=ALL, gradient=False, why=WHY) for s in SHAPES],
    *[Sample("depend", [t(*s), t(2, dtype=int64)], dtypes=ALL) for s in SHAPES],
    *[Sample(f"amp_{c}_identity", [t(*s)], dtypes=ALL) for c in ("white", "black") for s in SHAPES],
    *[Sample("identity_buffer", [t(*s)], {"buffer_size": 2}, dtypes=ALL) for s in SHAPES],
    *[Sample(name, [t(3, 2)], dtypes=(float32, int64)) for name in COPIES],
    Sample("depend", [t(3, 2), t(4, dtype=bool_)]),
    Sample("depend", [t(3), t()]),
]
BAD = [
    Bad("stop_gradient", [t(2)], {"axis": 1}, match="unknown attribute 'axis'; it has none"),
    Bad("amp_white_identity", [t(2)], {"buffer_size": 2}, match="unknown attribute 'buffer_size'"),
    Bad("amp_black_identity", [t(2)], {"buffer_size": 2}, match="unknown attribute 'buffer_size'"),
    Bad("identity_buffer", [t(2)], {"size": 2}, match="unknown attribute 'size'"),
    Bad("depend", [t(2), t(2)], {"axis": 1}, match="unknown attribute 'axis'"),
]
