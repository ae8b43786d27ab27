"""Samples of quantization."""

from oneflow.dialect.dtypes import float16, float32, int64
from oneflow.testing.sample import Bad, Sample, t, v

WHY = "the gradient is the gradient of the identity"
ONE, EACH = (v([0.125]), v([3.0])), (v([0.125, 0.25, 0.5]), v([3.0, 1.0, 7.0]))
AFFINE, CAMBRICON = {"quantization_scheme": "affine"}, {"quantization_formula": "cambricon"}
#: Slices without extent: zeros, one number, and numbers whose scale f16 rounds to 0.
FLAT = v([[0.0, 0.0], [3.0, 3.0], [0.0, 1e-6]])
BITS = {"quantization_bit": 4}
MOVING = {"training": True, "stop_update_after_iters": 1, "momentum": 0.75, **AFFINE}

SAMPLES = [
    Sample("min_max_observer", [t(3, 4)], dtypes=(float32, float16)),
    Sample("min_max_observer", [t(3, 4)], {**AFFINE, "per_layer_quantization": False}),
    Sample("min_max_observer", [t(3, 4)], CAMBRICON),
    Sample("min_max_observer", [FLAT], {**AFFINE, "per_layer_quantization": False}, dtypes=(float16,)),
    Sample("min_max_observer", [FLAT], {"per_layer_quantization": False}, dtypes=(float16,)),
    Sample("min_max_observer", [v([0.0, 0.0])], CAMBRICON),
    Sample("moving_average_min_max_observer", [v([0.0]), v([1], int64), v([0.0]), v([0.0])], MOVING),
    *[
        Sample("moving_average_min_max_observer", [x, v([step], int64), v([high]), v([-1.5])], MOVING, dtypes)
        for x, step, high, dtypes in (
            (t(3, 4), 0, 1.25, (float32, float16)), (t(3, 4), 2, 1.25, (float32,)), (t(2, 2), 1, 0.0, (float32,)),
        )
    ],
    *[
        Sample("moving_average_min_max_observer", [t(2, 2), v([1], int64), v([1.25]), v([-1.5])],
               {**MOVING, "quantization_scheme": "symmetric", **attrs})
        for attrs in ({}, CAMBRICON, {"training": False})
    ],
    *[
        Sample(name, operands, attrs, gradient=False, why=WHY)
        for name in ("quantization", "fake_quantization")
        for operands, attrs in (
            ([t(3, 4), *ONE], BITS), ([t(3, 4), *EACH], {**AFFINE, **BITS}),
            ([t(3, 4), v([1.0]), v([0.0])], CAMBRICON),
        )
    ],
]  # fmt: skip
BAD = [
    Bad(
        "moving_average_min_max_observer",
        [t(3), v([0], int64), t(1), t(1)],
        match="expected stop_update_after_iters of at least 1, got 0",
    ),
    Bad(
        "moving_average_min_max_observer",
        [t(3), v([0], int64), t(1), t(2)],
        MOVING,
        match="expected moving_min of type tensor<1xf32>",
    ),
    Bad("min_max_observer", [t(3)], {"quantization_bit": 9}, match="expected quantization_bit from 2 to 8, got 9"),
    Bad("quantization", [t(3), t(2), t(1)], match="expected the size of scale to be 3, got 2"),
    Bad(
        "fake_quantization",
        [t(3), t(1), t(1)],
        {"quantization_scheme": "s"},
        match="quantization_scheme symmetric or",
    ),
]
