"""Samples of normalization over a batch with an addend and relu."""

from oneflow.dialect.dtypes import FLOATS, int32
from oneflow.testing.sample import Bad, Sample, t

from .group_norm import BATCH, TRAINING
from .norm import mean, scale

SAME = "as of the operator without cuDNN's name"
FORWARD, BACKWARD = "normalization_add_relu", "normalization_add_relu_grad"


def moving(size):
    """Running statistics, gamma and beta."""
    return [mean(size), scale(size), mean(size), mean(size)]


def saved(size):
    """The mean, the deviation's inverse, gamma and beta."""
    return [mean(size), scale(size), mean(size), mean(size)]


def bits(count):
    """The number of elements of `reserve_space`."""
    return t(count, dtype=int32)


SAMPLES = [
    Sample(FORWARD, [t(2, 3, 2), t(2, 3, 2), *moving(3)], BATCH, dtypes=FLOATS),
    Sample(FORWARD, [t(5, 3, 3), None, *moving(3)], BATCH),
    Sample(FORWARD, [t(0, 3), None, *moving(3)], BATCH),
    Sample(FORWARD, [t(3, 4, 2), t(3, 4, 2), *moving(4)], TRAINING, dtypes=FLOATS),
    Sample(FORWARD, [t(8, 4), None, *moving(4)], {**TRAINING, "axis": -1}),
    Sample(FORWARD, [t(3, 6), t(3, 6), None, None, mean(3), mean(3)], {"epsilon": 0.1, "training": True}),
    Sample(BACKWARD, [t(3, 4, 2), t(3, 4, 2), *saved(4), bits(1), t(3, 4, 2)], {"axis": 1}, dtypes=FLOATS),
    Sample(
        f"cudnn_fused_{FORWARD}",
        [t(2, 2), t(2, 2), *moving(2)],
        {"axis": 1, "epsilon": 0.1, "momentum": 0.25},
        second_order=False,
        why=SAME,
    ),
    Sample(
        f"cudnn_fused_{BACKWARD}",
        [t(2, 2), t(2, 2), *saved(2), bits(1), t(2, 2)],
        {"axis": 1, "with_addend": True},
        second_order=False,
        why=SAME,
    ),
    Sample(BACKWARD, [t(4, 9), t(4, 9), *saved(4), bits(2), t(4, 9)], {"with_addend": True}),
]
BAD = [
    Bad(f"cudnn_fused_{FORWARD}", [t(2, 3), t(3), *moving(3)], {"axis": 1}, match="expected addend of type"),
    Bad(FORWARD, [t(2, 3), t(3), *[t(3)] * 4], BATCH, match="expected addend of type tensor<2x3xf32>"),
    Bad(FORWARD, [t(2, 3), None, None, None, t(3), t(3)], BATCH, match="expected moving_mean without training"),
    Bad(
        BACKWARD, [t(2, 3), t(2, 3), *[t(3)] * 4, bits(2), t(2, 3)], BATCH,
        match="expected reserve_space of type tensor<1xi32>, got tensor<2xi32>",
    ),
    Bad(BACKWARD, [t(2, 3), t(2, 3), *[t(3)] * 4, bits(1), t(2, 4)], BATCH, match="expected y of type tensor<2x3x"),
]  # fmt: skip
