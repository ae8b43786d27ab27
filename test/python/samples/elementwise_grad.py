"""Samples of OneFlow's gradient operators of the element-wise families."""

from oneflow.dialect.dtypes import FLOATS, int32
from oneflow.testing.sample import Bad, Sample, t, v
from samples.unary import CURVES, DOMAINS, SHAPED

#: Attributes of forward operators, as in the samples of the forward operators.
ATTRS = dict(SHAPED)
ATTRS["threshold"] = {"threshold_val": 0.5}
QUADRUPLE = {"has_float_operand": True, "float_operand": 1.7}
RANGES = {**DOMAINS, "scalar_pow": (0.2, 2.0), "scalar_reverse_pow": (-1.0, 1.0)}
SHAPES = ((2, 3), (), (0, 3))
BY_RESULT = ("relu", "sigmoid", "tanh", "celu", "hardtanh", "hardshrink", "softshrink")
PLAIN = ("abs", "square", "trunc")
BY_OPERAND = sorted({*CURVES, *DOMAINS, *ATTRS, *PLAIN} - {*BY_RESULT})
CLIPS = {
    "clip_by_scalar": {"floating_min": -0.7, "floating_max": 0.9},
    "clip_by_scalar_min": {"floating_min": -0.7},
    "clip_by_scalar_max": {"floating_max": 0.9},
}
PAIRS = ("atan2", "pow", "xlogy", "xdivy", "floordiv", "truncdiv")


def _of(name, attrs, reverse=False):
    low, high = RANGES.get(name, (-2.0, 2.0))
    found = []
    for shape in SHAPES:
        operands = [t(*shape, low=low, high=high), t(*shape)]
        dtypes = FLOATS if shape == (2, 3) else FLOATS[2:3]
        found.append(Sample(f"{name}_grad", operands[::-1] if reverse else operands, attrs, dtypes=dtypes))
    return found


SAMPLES = [
    *[s for name in (*BY_OPERAND, *BY_RESULT) for s in _of(name, ATTRS.get(name, {}))],
    *[s for name in ("scalar_pow", "scalar_reverse_pow") for s in _of(name, QUADRUPLE)],
    *[s for name, attrs in CLIPS.items() for s in _of(name, attrs, reverse=True)],
    *[
        Sample(f"{name}_{by}_grad", [t(2, 3, low=0.6, high=1.9), t(2, 3, low=0.6, high=1.9), t(2, 3)], dtypes=FLOATS)
        for name in PAIRS
        for by in "xy"
    ],
    *[Sample(f"elementwise_{n}", [t(2, 3), t(2, 3)], dtypes=FLOATS) for n in ("maximum", "minimum")],
    *[Sample(f"elementwise_{n}_backward", [t(2, 3)] * 3, dtypes=FLOATS) for n in ("maximum", "minimum")],
    Sample(
        "elementwise_maximum_backward", [v([2.0, 4.0]), v([1.0, 3.0]), v([1.0, 5.0])], gradient=False, why="a tie"
    ),
    Sample("elementwise_minimum_backward", [t(0, 3)] * 3),
    Sample("broadcast_div_grad", [t(3, low=0.5), t(2, 3), t(2, 3)], dtypes=FLOATS),
    Sample("broadcast_div_grad", [t(2, 1, low=0.5), t(2, 3), t(2, 3)]),
    Sample("broadcast_div_grad", [t(low=0.5), t(), t()]),
    Sample("broadcast_div_grad", [t(1, 3, low=0.5), t(0, 3), t(0, 3)]),
    Sample(
        "hardtanh_grad",
        [v([[-0.7, 0.1, 0.0], [0.3, 0.1, -0.7]]), t(2, 3)],
        {"min_val": -0.7, "max_val": 0.1},
        dtypes=FLOATS,
        gradient=False,
        why="jumps at the bounds",
    ),
    *[
        Sample(f"{name}shrink_grad", [v([0.0, 0.2, -3.0]), t(3)], gradient=False, why="a jump at 0")
        for name in ("hard", "soft")
    ],
    Sample("relu_grad", [v([0.0, 2.0, 3.0]), v([5.0, 7.0, -1.0])], gradient=False, why="a bend at 0"),
]
FLOATS_TEXT = "f16, bf16, f32, f64"
BAD = [
    Bad("tanh_grad", [t(2, 3), t(3)], match="expected operands of one shape, got tensor<2x3xf32>, tensor<3xf32>"),
    Bad("relu_grad", [t(2), t(2)], dtype=int32, match=f"expected y of type {FLOATS_TEXT}, got i32"),
    Bad("gelu_grad", [t(2), t(2, dtype=int32)], match=f"expected dy of type {FLOATS_TEXT}, got i32"),
    Bad("elementwise_maximum", [t(2, 3), t(3)], match="expected operands of one shape"),
    Bad("elementwise_minimum_backward", [t(2), t(2), t(3)], match="expected operands of one shape"),
    Bad("pow_x_grad", [t(2), t(2), t(3)], match="expected operands of one shape"),
    Bad("scalar_pow_grad", [t(2), t(2)], match="expected exactly one of has_int_operand and has_float_operand"),
    Bad("broadcast_div_grad", [t(4), t(2, 3), t(2, 3)], match="expected operands that broadcast"),
    Bad("broadcast_div_grad", [t(2, 3), t(3), t(3)], match="expected dz like z, and y that broadcasts to z"),
]
