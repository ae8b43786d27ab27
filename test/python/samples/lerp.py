"""Samples of linear interpolation."""

from oneflow.dialect.dtypes import FLOATS, int32
from oneflow.testing.sample import NUMERIC, Bad, Sample, t
from samples.scalar_ops import real, whole

SAMPLES = [
    Sample("lerp", [t(2, 3), t(2, 3), t(2, 3)], dtypes=NUMERIC),
    *[Sample("lerp", [t(2, 3), t(2, 3), t(*one)], dtypes=FLOATS) for one in ((), (1,), (1, 1))],
    *[Sample("lerp", [t(*shape), t(*shape), t(*shape)]) for shape in ((), (0, 3))],
    Sample("lerp", [t(0, 3), t(0, 3), t(1)]),
    Sample("scalar_lerp", [t(2, 3), t(2, 3)], real(0.3), dtypes=FLOATS),
    Sample("scalar_lerp", [t(2, 3), t(2, 3)], whole(2), dtypes=NUMERIC),
    *[Sample("scalar_lerp", [t(*shape), t(*shape)], real(-0.7)) for shape in ((), (0, 3))],
    Sample("lerp_grad", [t(2, 3)] * 4, dtypes=FLOATS),
    *[Sample("lerp_grad", [t(*shape)] * 4) for shape in ((), (0, 3))],
    Sample("scalar_lerp_grad", [t(2, 3)] * 3, real(0.3), dtypes=FLOATS),
    *[Sample("scalar_lerp_grad", [t(*shape)] * 3, whole(2)) for shape in ((), (0, 3))],
]
BAD = [
    Bad("lerp", [t(2, 3), t(3), t(2, 3)], match="expected end of type tensor<2x3xf32>, got tensor<3xf32>"),
    Bad("lerp", [t(2, 3), t(2, 3), t(3)], match="expected weight of type tensor<2x3xf32>, or of one element"),
    Bad("lerp", [t(3), t(3), t(1, 1)], match="expected weight of type tensor<3xf32>, or of one element"),
    Bad("lerp", [t(2), t(2), t(2, dtype=int32)], match="expected operands of one data type, got f32 and i32"),
    Bad("scalar_lerp", [t(2), t(3)], real(0.5), match="expected end of type tensor<2xf32>, got tensor<3xf32>"),
    Bad("scalar_lerp", [t(2), t(2)], match="expected exactly one of has_int_operand and has_float_operand"),
    Bad("scalar_lerp", [t(2), t(2)], real(0.5), dtype=int32, match="expected a whole number for a tensor of i32"),
    Bad("lerp_grad", [t(2), t(2), t(1), t(2)], match="expected operands of one shape"),
    Bad("scalar_lerp_grad", [t(2), t(2), t(3)], real(0.5), match="expected operands of one shape"),
]
