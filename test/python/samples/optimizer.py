"""Samples of updates of parameters."""

from oneflow.dialect.dtypes import FLOATS, bfloat16, float16, float32, float64, int32, int64
from oneflow.testing.sample import Bad, Sample, t, v

RATE = v(0.1, float32)
RATES = v([0.1], float32)
SCALE = v(0.5)
SKIP, GO = v([1], int64), v(0, int64)
FIRST, SECOND = v(0.19, float32), v(0.002, float32)
ALL = {
    "scale": 0.5,
    "l1": 0.01,
    "l2": 0.02,
    "weight_decay": 0.03,
    "learning_rate_val": 0.2,
    "learning_rate_scale": 0.5,
}
LR = {"learning_rate_val": 0.1}
EPSILON = {"epsilon": 1e-3}


def positive(*shape):
    """A state that is a sum of squares."""
    return t(*shape, low=0.1, high=1.0)


P = [t(3, 4), t(3, 4)]
#: Two parameters, of equal shapes and of different shapes.
PAIR, UNLIKE = [t(3, 4), t(3, 4)], [t(3, 4), t(2)]
SQUARES, COPIES = [positive(3, 4), positive(2)], [t(3, 4, dtype=float16), t(2, dtype=float16)]
MOMENTUM = {"momentum": 0.9}
MANY = [
    Sample("multi_tensor_sgd_update", [PAIR, PAIR], LR, dtypes=FLOATS),
    Sample("multi_tensor_sgd_update", [UNLIKE, UNLIKE, RATE, SCALE, GO], ALL),
    Sample("multi_tensor_sgd_update", [[t(3)], [t(3)], RATE, None, SKIP], ALL),
    Sample("multi_tensor_momentum_update", [[t(3, 4)], [t(3, 4)], [t(3, 4)]], LR),
    Sample("multi_tensor_momentum_update", [UNLIKE, UNLIKE, UNLIKE, RATE], {**MOMENTUM, "nesterov": True}),
    Sample("multi_tensor_momentum_update", [[t(5), t(4)]] * 3, {**LR, **MOMENTUM}),
    Sample("multi_tensor_adam_update", [UNLIKE, UNLIKE, *[None] * 5, UNLIKE, SQUARES], LR),
    Sample("multi_tensor_adam_update", [UNLIKE, UNLIKE, RATE, SCALE, GO, FIRST, SECOND, UNLIKE, SQUARES], ALL),
    Sample("multi_tensor_sgd_update_with_cast", [[t(4)], [t(4)], [t(4)]], LR),
    Sample("multi_tensor_momentum_update_with_cast", [[t(4)]] * 4, LR),
    Sample("multi_tensor_sgd_update_with_cast", [UNLIKE, UNLIKE, COPIES, RATE, None, GO], ALL),
    Sample("multi_tensor_momentum_update_with_cast", [UNLIKE, UNLIKE, COPIES, UNLIKE, RATE], {**ALL, **MOMENTUM}),
    Sample("multi_tensor_adam_update_with_cast", [UNLIKE, UNLIKE, COPIES, *[None] * 5, UNLIKE, SQUARES], LR),
]  # fmt: skip
LARS = {**EPSILON, "lars_coefficient": 0.1}
FTRL = {"lr_power": 0.5, "lambda1": 0.1, "lambda2": 0.2, "beta": 0.3}
MORE = [
    Sample("lars_update", [*P, RATE, t(3, 4)], LARS, dtypes=(float32, float64)),
    Sample("lars_update", [*P, None, t(3, 4), SCALE, GO], {**ALL, **LARS, "momentum_beta": 0.5}),
    Sample("lars_update", [v([0.0, 0.0]), t(2), RATE, t(2)], LARS),
    Sample("lars_update", [*P, None, t(3, 4), None, SKIP, t(3, 4, dtype=float16)], {**LR, **LARS}),
    Sample("ftrl_update", [*P, None, None, positive(3, 4), t(3, 4)], {**LR, **FTRL}, dtypes=(float32, float64)),
    Sample("ftrl_update", [*P, RATE, GO, positive(3, 4), t(3, 4)], {**ALL, **FTRL, "lr_power": -0.5, "lambda1": 1.0}),
    Sample("ftrl_update", [*P, RATE, SKIP, positive(3, 4), t(3, 4), t(3, 4, dtype=float16)], FTRL),
    Sample("adadelta_update", [*P, None, None, positive(3, 4), positive(3, 4)], {**LR, **EPSILON}, dtypes=FLOATS),
    Sample("adadelta_update", [*P, RATE, GO, positive(3, 4), positive(3, 4)], {**ALL, **EPSILON, "rho": 0.5}),
    Sample("adadelta_update", [*P, RATE, GO, positive(3, 4), positive(3, 4)], {**ALL, **EPSILON, "maximize": True}),
    Sample("adadelta_update", [*P, RATE, SKIP, positive(3, 4), positive(3, 4), t(3, 4, dtype=float16)], EPSILON),
]  # fmt: skip
#: Gradients near the ends of a type's range, whose squares are not within the range of f32.
ENDS = {
    float32: [1e20, -3e19, 2e-25, -1e-12],
    float16: [6e4, -1e3, 1e-7, -2e-5],
    bfloat16: [1e20, -3e19, 2e-25, -1e-12],
}
NONE, SMALL = v([0.0] * 4), {**LR, "epsilon": 1e-8}


def at_the_ends(op, states, attrs):
    """Rows of an update with gradients of the ends of a type.

    `states` are the operands after the gradient, in the form of operands of `Sample`.
    """
    return [Sample(op, [v([1.0, -2.0, 3.0, 0.5]), v(ends), *states], attrs, dtypes=(d,)) for d, ends in ENDS.items()]


CORRECTED = [None, None, None, v([0.1], float32), v([0.001], float32)]
EXTREME = [
    *at_the_ends("sgd_update", [], {**LR, "scale": 1e-3}),
    *at_the_ends("momentum_update", [NONE], {**LR, "scale": 1e-3, "nesterov": True}),
    *at_the_ends("adam_update", [None, *CORRECTED, NONE, NONE], SMALL),
    *at_the_ends(
        "adam_update", [None, *CORRECTED, NONE, NONE, NONE], {**SMALL, "amsgrad": True, "weight_decay": 0.1}
    ),
    *at_the_ends("lamb_update", [*CORRECTED, NONE, NONE], SMALL),
    *at_the_ends("lars_update", [RATE, NONE], {"epsilon": 1e-30, "lars_coefficient": 0.1}),
    *at_the_ends("adagrad_update", [*[None] * 4, NONE], SMALL),
    *at_the_ends("rmsprop_update", [*[None] * 3, NONE], {**SMALL, "epsilon_apart": True}),
    *at_the_ends("rmsprop_update", [*[None] * 3, NONE, NONE, NONE], {**SMALL, "centered": True, "beta": 0.9}),
    *at_the_ends("adadelta_update", [None, None, NONE, NONE], {"learning_rate_val": 1.0, "epsilon": 1e-6}),
    *at_the_ends("ftrl_update", [None, None, NONE, NONE], {**LR, **FTRL}),
]
SAMPLES = [
    Sample("multi_tensor_yolov5_weight_update", [[t(3, 4), t(3)]] * 2, {"d": 0.75}, dtypes=(float32, float16)),
    Sample("sgd_update", P, LR, dtypes=FLOATS),
    Sample("sgd_update", [*P, None, RATE, SCALE, GO], ALL),
    Sample("sgd_update", [*P, None, RATES, None, SKIP], ALL),
    Sample("sgd_update", [v([0.0, 1.0, -1.0]), t(3)], {**LR, "l1": 0.5}),
    Sample("sgd_update", [t(2, dtype=float32), t(2, dtype=float16)], LR),
    Sample("sgd_update", [t(0, 3), t(0, 3)], LR),
    Sample("sgd_update", [t(), t()], LR),
    Sample("momentum_update", [*P, t(3, 4)], LR, dtypes=FLOATS),
    Sample("momentum_update", [*P, t(3, 4), RATE, SCALE, GO], {**ALL, "nesterov": True, "dampening": 0.1}),
    Sample("momentum_update", [*P, t(3, 4), None, None, SKIP], {**ALL, "maximize": True}),
    Sample("momentum_update", [*P, t(3, 4)], {**LR, "maximize": True, "beta": 0.5}),
    Sample("adam_update", [*P, *[None] * 6, t(3, 4), positive(3, 4)], {**LR, **EPSILON}, dtypes=FLOATS),
    Sample("adam_update", [*P, None, RATE, SCALE, GO, FIRST, SECOND, t(3, 4), positive(3, 4)], {**ALL, **EPSILON}),
    Sample(
        "adam_update", [*P, *[None] * 6, t(3, 4), positive(3, 4), positive(3, 4)],
        {**LR, **EPSILON, "amsgrad": True, "bias_correction1_val": 0.5, "bias_correction2_val": 0.01},
    ),
    Sample(
        "adam_update", [*P, None, None, None, SKIP, FIRST, SECOND, t(3, 4), positive(3, 4)],
        {**LR, **EPSILON, "do_bias_correction": False, "beta1": 0.5, "beta2": 0.25},
    ),
    Sample("lamb_update", [*P, *[None] * 5, t(3, 4), positive(3, 4)], {**LR, **EPSILON}, dtypes=(float32, float64)),
    Sample("lamb_update", [*P, RATE, SCALE, GO, FIRST, SECOND, t(3, 4), positive(3, 4)], {**ALL, **EPSILON}),
    Sample("lamb_update", [v([0.0, 0.0]), t(2), *[None] * 5, t(2), positive(2)], {**LR, **EPSILON}),
    Sample("lamb_update", [*P, None, None, SKIP, None, None, t(3, 4), positive(3, 4)], {**LR, **EPSILON}),
    Sample("adagrad_update", [*P, *[None] * 4, positive(3, 4)], {**LR, **EPSILON}, dtypes=FLOATS),
    Sample("adagrad_update", [*P, RATE, SCALE, GO, v([4], int64), positive(3, 4)], {**ALL, "lr_decay": 0.1}),
    Sample("adagrad_update", [*P, *[None] * 4, positive(3, 4)], {**LR, "lr_decay": 0.1, "train_step_val": 3}),
    Sample("rmsprop_update", [*P, *[None] * 3, positive(3, 4)], {**LR, **EPSILON}, dtypes=FLOATS),
    Sample("rmsprop_update", [*P, RATE, SCALE, GO, positive(3, 4)], {**ALL, **EPSILON, "decay_rate": 0.5}),
    Sample(
        "rmsprop_update", [*P, None, None, SKIP, t(3, 4, low=4.0, high=5.0), t(3, 4, low=0.1, high=1.0)],
        {**LR, **EPSILON, "centered": True},
    ),
    Sample(
        "rmsprop_update", [*P, *[None] * 3, t(3, 4, low=4.0, high=5.0), t(3, 4, low=0.1, high=1.0)],
        {**LR, **EPSILON, "centered": True},
    ),
    Sample("rmsprop_update", [*P, *[None] * 3, positive(3, 4)], {**LR, **EPSILON, "epsilon_apart": True}),
    Sample("rmsprop_update", [*P, *[None] * 3, positive(3, 4), None, t(3, 4)], {**LR, **EPSILON, "beta": 0.9}),
    Sample(
        "rmsprop_update", [*P, RATE, SCALE, GO, t(3, 4, low=4.0, high=5.0), t(3, 4, low=0.1, high=1.0), t(3, 4)],
        {**ALL, **EPSILON, "centered": True, "beta": 0.5},
    ),
    Sample("sgd_update", [*P, t(3, 4, dtype=float16), None, None, SKIP], LR),
    Sample("momentum_update", [*P, t(3, 4), *[None] * 3, t(3, 4, dtype=float16)], LR),
    Sample("lamb_update", [*P, *[None] * 5, t(3, 4), positive(3, 4), t(3, 4, dtype=bfloat16)], {**LR, **EPSILON}),
    Sample("rmsprop_update", [*P, None, None, GO, positive(3, 4), None, None, t(3, 4, dtype=float16)], LR),
    *MORE,
    *MANY,
    *EXTREME,
    Sample("adam_bias_correction_factor", [v([0, 1, 9, 1000], int64)], {"beta": 0.999}),
    Sample("adam_bias_correction_factor", [v(3, int64)]),
]  # fmt: skip
BAD = [
    Bad("multi_tensor_yolov5_weight_update", [[t(3)], [t(3), t(3)]], match="expected 1 tensors in model_update"),
    Bad("multi_tensor_yolov5_weight_update", [[t(3)], [t(2)]], match="expected model_update of type tensor<3xf32>"),
    Bad("sgd_update", [t(2), t(3)], match="expected model_diff of type tensor<2xf32>, got tensor<3xf32>"),
    Bad("sgd_update", [t(2), t(2)], dtype=int32, match="expected model of type f16, bf16, f32, f64, got i32"),
    Bad("sgd_update", [t(2), t(2), None, t(2)], match="expected learning_rate of one element of f32, got tensor<2x"),
    Bad("sgd_update", [t(2), t(2), *[None] * 3, t()], match="expected skip_if of one element of i64, got"),
    Bad("momentum_update", [t(2), t(2), t(3)], match="expected momentum of type tensor<2xf32>, got tensor<3xf32>"),
    Bad(
        "adam_update", [t(2), t(2), *[None] * 6, t(2), t(2), t(2)],
        match="expected amsgrad = true with max_v, got false",
    ),
    Bad(
        "rmsprop_update", [t(2), t(2), *[None] * 3, t(2)], {"centered": True},
        match="expected mean_gradient with centered = true, got none",
    ),
    Bad("sgd_update", [t(2), t(2), t(3)], match="expected model_copy of type tensor<2xf32>"),
    Bad("multi_tensor_sgd_update", [[t(2), t(3)], [t(2)]], match="tensors of model_diff as of model, 2, got 1"),
    Bad("multi_tensor_sgd_update", [[t(2)], [t(3)]], match="model_diff of type tensor<2xf32>, got tensor<3xf32>"),
    Bad(
        "multi_tensor_adam_update", [[t(2)], [t(2)], *[None] * 5, [t(2)], [t(2)]], {"amsgrad": True},
        match="expected max_v with amsgrad = true",
    ),
    Bad("multi_tensor_momentum_update", [[t(2)], [t(2)], [t(3)]], match="expected momentum_buf of type tensor<2x"),
    Bad("lars_update", [t(2), t(2), None, t(3)], match="expected momentum of type tensor<2xf32>, got tensor<3xf32>"),
    Bad("ftrl_update", [t(2), t(2), None, None, t(2), t(3)], match="expected z of type tensor<2xf32>"),
    Bad("adadelta_update", [t(2), t(2), None, GO, t(3), t(2)], match="expected square_avgs of type tensor<2xf32>"),
    Bad("adam_bias_correction_factor", [t(2)], match="expected train_step of type i64, got f32"),
]  # fmt: skip
