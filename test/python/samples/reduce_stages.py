"""Samples of maxima and minima in two stages."""

from oneflow.dialect.dtypes import bool_, float16, float32, int32
from oneflow.testing.sample import Bad, Sample, t, v

COUNTS = v([[1, 2, 1, 3], [2, 1, 1, 1], [1, 1, 2, 1]], int32)
ONES = v([[1] * 4] * 3, int32)
MASK = v([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1]], bool_)
HITS = v([[2], [1], [4]], int32)
ROWS = {"axis": [1]}

SAMPLES = [
    *[
        Sample(f"reduce_{kind}_device_stage", [t(3, 4)], ROWS, dtypes=(float32, float16, int32))
        for kind in ("max", "min")
    ],
    Sample("reduce_max_device_stage", [t(2, 3)], {"axis": []}),
    *[
        Sample(f"reduce_{kind}_device_stage_grad", [t(3, 1), MASK, HITS], ROWS, dtypes=(float32, float16))
        for kind in ("max", "min")
    ],
    *[
        Sample(f"reduce_{kind}_global_stage", [t(3, 4), ONES], ROWS, dtypes=(float32, int32))
        for kind in ("max", "min")
    ],
    Sample("reduce_max_global_stage", [t(3, 4), ONES], {"axis": [-1], "keepdims": True}),
    *[
        Sample(f"reduce_{kind}_global_stage_grad", [t(3), MASK, COUNTS], ROWS, dtypes=(float32, float16))
        for kind in ("max", "min")
    ],
    Sample("reduce_max_global_stage_grad", [t(3, 1), MASK, COUNTS], {"axis": [1], "keepdims": True}),
]
BAD = [
    Bad("reduce_max_device_stage", [t(3, 0)], ROWS, match="expected at least one element along axes [1]"),
    Bad("reduce_max_global_stage", [t(3, 3), ONES], ROWS, match="expected device_count of type tensor<3x3xi32>"),
    Bad("reduce_max_device_stage_grad", [t(3), MASK, HITS], ROWS, match="expected out_diff of type tensor<3x1xf32>"),
    Bad("reduce_max_device_stage_grad", [t(3, 1), MASK, t(3, 4, dtype=int32)], ROWS, match="expected count of type"),
]
