"""Samples of softmax and related operators."""

from oneflow.dialect.dtypes import FLOATS, int32
from oneflow.testing.sample import Bad, Sample, t, v

NAN, INF = float("nan"), float("inf")
EDGES = v([[NAN, 1.0, 0.0], [1000.0, 999.0, -INF], [-1000.0, -1000.0, -1001.0]])


def _forward(name):
    return [
        Sample(name, [t(2, 3, 4)], dtypes=FLOATS),
        Sample(name, [t(5)]),
        Sample(name, [t(3, 1)]),
        Sample(name, [t(0, 3)]),
        Sample(name, [t(3, 0)]),
        Sample(name, [EDGES], gradient=False, why="NaN, infinities and values beyond the range of exp"),
    ]


def _backward(name):
    return [
        Sample(name, [t(2, 3, low=-1.0, high=1.0), t(2, 3)], dtypes=FLOATS),
        Sample(name, [t(4, low=-1.0, high=1.0), t(4)]),
        Sample(name, [t(0, 3), t(0, 3)]),
    ]


SAMPLES = [
    *_forward("softmax"),
    *_forward("log_softmax"),
    *_backward("softmax_grad"),
    *_backward("log_softmax_grad"),
]
BAD = [
    *(
        Bad(name, operands, dtype=dtype, match=match)
        for name in ("softmax", "log_softmax")
        for operands, dtype, match in [
            ([t()], SAMPLES[0].dtypes[0], "expected in of rank 1 or more"),
            ([t(3)], int32, "expected in of type f16, bf16, f32, f64, got i32"),
        ]
    ),
    Bad("softmax_grad", [t(2, 3), t(3)], match="expected dy of type tensor<2x3xf32>, got tensor<3xf32>"),
    Bad("log_softmax_grad", [t(2, 3), t(3, 2)], match="expected dy of type tensor<2x3xf32>, got tensor<3x2xf32>"),
]
