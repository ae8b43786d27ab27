"""Samples of reductions and of broadcasting."""

from typing import Any

from oneflow.dialect.dtypes import FLOATS, bfloat16, bool_, float16, float32, int32, uint8
from oneflow.testing.sample import ALL, NUMERIC, Bad, Sample, t, v

NAN, INF = float("nan"), float("inf")
SHAPED: list[Any] = [
    ((2, 3, 2), {"axis": [1]}),
    ((2, 3, 2), {"axis": [0, -1], "keepdims": True}),
    ((2, 3), {"axis": []}),
    ((), {"axis": []}),
    ((0, 3), {"axis": [1]}),
]


def _rows(name, dtypes):
    first, *rest = SHAPED
    return [
        Sample(name, [t(*first[0])], first[1], dtypes=dtypes),
        *(Sample(name, [t(*shape)], attrs) for shape, attrs in rest),
    ]


SAMPLES = [
    *_rows("reduce_sum", NUMERIC),
    Sample("reduce_sum", [t(0, 3)], {"axis": [0]}),
    *_rows("reduce_prod", NUMERIC),
    *(
        Sample(
            "reduce_prod",
            [v([[6e4] * 12 + [2e-5] * 12, [2e-5, 6e4] * 12])],
            {"axis": [1]},
            dtypes=(dtype,),
            gradient=False,
            why="differences of so large and so small numbers have no digits",
        )
        for dtype in (float16, bfloat16)
    ),
    Sample("reduce_prod", [t(0, 3)], {"axis": [0]}),
    Sample(
        "reduce_prod",
        [v([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])],
        {"axis": [1]},
        second_order=False,
        why="the mask of zeros is flat, so second derivatives stop at zeros",
    ),
    *_rows("reduce_max", NUMERIC),
    Sample("reduce_max", [t(2, 0)], {"axis": [1], "allow_empty": True}, dtypes=NUMERIC),
    Sample("reduce_min", [t(0, 3)], {"axis": [], "keepdims": True, "allow_empty": True}, dtypes=NUMERIC),
    Sample(
        "reduce_max",
        [v([[NAN, 1.0], [-INF, -INF], [2.0, INF]])],
        {"axis": [1]},
        dtypes=FLOATS,
        gradient=False,
        why="NaN and infinities",
    ),
    *_rows("reduce_min", NUMERIC),
    Sample(
        "reduce_min",
        [v([[1.0, NAN], [INF, INF], [2.0, -INF]])],
        {"axis": [1]},
        dtypes=FLOATS,
        gradient=False,
        why="NaN and infinities",
    ),
    *_rows("reduce_any", ALL),
    Sample("reduce_any", [v([[0, 0], [0, 2]])], {"axis": [1]}, dtypes=ALL),
    Sample("reduce_any", [t(0, 3)], {"axis": [0]}),
    *_rows("reduce_all", ALL),
    Sample("reduce_all", [v([[0, 1], [3, 2]])], {"axis": [1]}, dtypes=ALL),
    Sample("reduce_all", [t(0, 3)], {"axis": [0]}),
    *_rows("reduce_nansum", FLOATS),
    Sample("reduce_nansum", [v([[NAN, 1.0], [NAN, NAN]])], {"axis": [1]}, gradient=False, why="NaN"),
    Sample(
        "reduce_sum",
        [t(2, 300, low=0.9, high=1.0)],
        {"axis": [1]},
        dtypes=(float16, bfloat16),
        gradient=False,
        why="shows that 16-bit sums are accumulated in f32; f64 is covered above",
    ),
    Sample("reduce_sum_like", [t(2, 3, 4), t(2, 1, 4)], {"axis": [1]}, dtypes=NUMERIC),
    Sample("reduce_sum_like", [t(2, 3, 4), t(2, 4)], {"axis": [1]}),
    Sample("reduce_sum_like", [t(2, 3, 4), t(1, 4)], {"axis": [0, 1]}),
    Sample("reduce_sum_like", [t(2, 3), t()], {"axis": [0, 1]}),
    Sample("reduce_sum_like", [t(3), t(3, dtype=int32)], {"axis": []}),
    Sample("broadcast_like", [t(2, 4), t(2, 3, 4)], {"broadcast_axes": [1]}, dtypes=ALL),
    Sample("broadcast_like", [t(2, 1, 4), t(2, 3, 4, dtype=float32)], {"broadcast_axes": [1]}),
    Sample("broadcast_like", [t(3, 1), t(2, 3, 4)], {"broadcast_axes": []}),
    Sample("broadcast_like", [t(), t(2, 3)], {"broadcast_axes": [0, 1]}),
    Sample("broadcast_like", [t(), t()], {"broadcast_axes": []}),
    Sample("broadcast_like", [t(1), t(0)], {"broadcast_axes": []}),
    Sample("argmax", [t(2, 5)], dtypes=NUMERIC),
    Sample("argmax", [v([[1, 3, 3, 2]])], dtypes=NUMERIC),
    Sample("argmax", [v([[NAN, 1.0], [1.0, NAN], [-INF, -INF], [INF, NAN]])], dtypes=FLOATS),
    Sample("argmax", [t(4)], dtypes=(uint8,)),
    Sample("argmax", [t(0, 3)]),
]
BAD = [
    Bad("reduce_sum", [t(2, 3)], {"axis": [2]}, match="expected axis in [-2, 2), got 2"),
    Bad("reduce_sum", [t(2, 3)], {"axis": [-3]}, match="expected axis in [-2, 2), got -3"),
    Bad("reduce_sum", [t(2, 3)], {"axis": [1, -1]}, match="expected every axis once, got [1, -1]"),
    Bad("reduce_sum", [t(2)], {"axis": [0]}, dtype=bool_, match="expected input_tensor of type"),
    Bad("reduce_max", [t(2, 0)], {"axis": [1]}, match="expected at least one element along axes [1]"),
    Bad("reduce_min", [t(0)], {"axis": []}, match="expected at least one element along axes [0]"),
    Bad(
        "reduce_nansum", [t(2)], {"axis": [0]}, dtype=int32, match="expected input_tensor of type f16, bf16, f32, f64"
    ),
    Bad("reduce_sum_like", [t(2, 3), t(3, 3)], {"axis": [0]}, match="expected dimension 0 of like to be 1, got 3"),
    Bad("reduce_sum_like", [t(2, 3), t()], {"axis": [0]}, match="expected like to be x without axes [0]"),
    Bad("broadcast_like", [t(2, 3), t(3)], {"broadcast_axes": []}, match="expected x of rank 0 to 1"),
    Bad("broadcast_like", [t(2), t(3)], {"broadcast_axes": []}, match="expected dimension 0 of x to be 3, got 2"),
    Bad("broadcast_like", [t(2), t(2, 3)], {"broadcast_axes": [2]}, match="expected broadcast_axes in [-2, 2)"),
    Bad("argmax", [t()], match="expected in of rank 1 or more"),
    Bad("argmax", [t(2, 0)], match="expected at least one element along the last axis"),
]
