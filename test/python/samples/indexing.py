"""Samples of operators that read or add at positions held by another tensor."""

from oneflow.dialect.dtypes import FLOATS, float32, int32, int64
from oneflow.testing.sample import ALL, NUMERIC, Bad, Sample, T, t, v


def i32(values: object) -> T:
    """Positions of type i32."""
    return v(values, int32)


def i64(values: object) -> T:
    """Positions of type i64."""
    return v(values, int64)


ROWS = [[2, 0, 1], [4, 4, 0]]
ONES = [[0, 1, 2, 3, 4, 5], [5, 5, 0, 1, 1, 2], [3, 2, 1, 0, 0, 4]]
NONE = t(0, dtype=int64)
READ = [
    Sample("gather", [t(5, 3), i32([3, 0, 3, 1])], dtypes=ALL),
    Sample("gather", [t(2, 3), i32([3, 0, 3, 1])], {"logical_size": 4, "logical_begin": 1}, dtypes=ALL),
    Sample("gather", [t(4, 5, 3), i64(ROWS)], {"axis": 1}),
    Sample("gather", [t(4, 5), i32(2)], {"axis": -1}),
    Sample("gather", [t(4, 5), NONE], {"axis": 1}),
    Sample("gather", [t(4, 0), i64([1, 2])]),
    Sample("batch_gather", [t(3, 4), i32([[0, 3, 1], [1, 1, 1], [3, 2, 0]])], dtypes=ALL),
    Sample("batch_gather", [t(2, 5, 3), i64(ROWS)]),
    Sample("batch_gather", [t(5, 3), i64([4, 1])]),
    Sample("batch_gather", [t(3, 4), t(3, 0, dtype=int32)]),
    Sample("dim_gather", [t(5, 3), i32(ROWS)], dtypes=ALL),
    Sample("dim_gather", [t(3, 6), i64(ONES)], {"dim": -1}),
    Sample("dim_gather", [t(3, 2), i64(ONES)], {"dim": 1, "logical_size": 6, "logical_begin": 1}),
    Sample("dim_gather", [t(4, 6), i64(ONES)], {"dim": 1}),
    Sample("dim_gather", [t(4, 6), t(0, 6, dtype=int64)]),
    Sample("gather_nd", [t(3, 4), i32([[2, 3], [0, 1], [2, 3]])], dtypes=ALL),
    Sample("gather_nd", [t(3, 4, 3), i64([[[2], [0], [1]], [[1], [1], [1]]])]),
    Sample("gather_nd", [t(3, 4), t(0, 2, dtype=int32)]),
    Sample("embedding", [t(5, 3), i32(ROWS)], dtypes=FLOATS),
    Sample("embedding", [t(2, 3), i32(ROWS)], {"logical_size": 5, "logical_begin": 3}),
    Sample(
        "embedding", [t(5, 3), i64([1, 1, 4])], {"scale_grad_by_freq": True}, gradient=False, why="scaled by design",
    ),
    Sample(
        "embedding", [t(5, 3), i64([1, 1, 4])], {"padding_idx": 1}, gradient=False, why="the padding row has none",
    ),
    Sample(
        "one_hot", [i32(ROWS)], {"dtype": "dtype", "depth": 4, "integer_on_value": 1, "floating_on_value": 1.0}, ALL,
    ),
    Sample(
        "one_hot", [i64([-1, 2, 9])],
        {"dtype": "dtype", "depth": 3, "floating_on_value": 0.9, "floating_off_value": 0.1},
    ),
    Sample("embedding", [t(5, 3), NONE]),
    Sample("embedding", [t(5, 0), i64([1])]),
    Sample("one_hot", [i32(ROWS)], {"dtype": int64, "depth": 3, "integer_on_value": 1, "logical_begin": 2}),
    Sample("one_hot", [NONE], {"dtype": "dtype", "depth": 3}),
    Sample("one_hot", [i64(1)], {"dtype": "dtype", "depth": 0}),
]  # fmt: skip
ADD = [
    Sample("unsorted_segment_sum", [t(4, 3), i32([2, 0, 2, 1])], {"num_segments": 5}, dtypes=NUMERIC),
    Sample("unsorted_segment_sum", [t(4, 2, 3, 3), i64(ROWS)], {"axis": 1, "num_segments": 6}),
    Sample("unsorted_segment_sum", [t(0, 3), NONE], {"num_segments": 2}),
    Sample(
        "unsorted_segment_sum", [t(4, 3), i32([2, 0, 2, 1])],
        {"num_segments": 2, "logical_size": 4, "logical_begin": 1}, dtypes=NUMERIC,
    ),
    Sample(
        "unsorted_segment_sum_like", [t(4, 3), i32([2, 0, 2, 1]), t(2, 3)], {"logical_size": 4, "logical_begin": 1},
    ),
    Sample("embedding_grad", [t(2, 3, 4), t(2, 4), i32(ROWS)], {"logical_size": 5, "logical_begin": 1}),
    Sample(
        "embedding_grad", [t(2, 3, 4), t(3, 4), i32(ROWS)],
        {"padding_idx": 4, "scale_grad_by_freq": True, "logical_size": 5, "logical_begin": 2},
        gradient=False, second_order=False, why="scale_grad_by_freq is refused in second derivatives",
    ),
    Sample("dim_scatter_add_like", [t(3, 2), i64(ONES), t(3, 6)], {"dim": 1, "logical_size": 6, "logical_begin": 2}),
    Sample("unsorted_segment_sum_like", [t(4, 3), i32([2, 0, 2, 1]), t(5, 3)], dtypes=NUMERIC),
    Sample("unsorted_segment_sum_like", [t(4, 2, 3, 3), i64(ROWS), t(4, 5, 3)], {"axis": -2}),
    Sample(
        "unsorted_batch_segment_sum", [t(3, 3), i32([[0, 3, 1], [1, 1, 1], [3, 2, 0]])], {"num_segments": 4}, NUMERIC,
    ),
    Sample("unsorted_batch_segment_sum", [t(2, 3, 3), i64(ROWS)], {"num_segments": 5}),
    Sample("unsorted_segment_sum_like", [t(0, 3), NONE, t(2, 3)]),
    Sample("unsorted_batch_segment_sum", [t(3, 0), t(3, 0, dtype=int32)], {"num_segments": 2}),
    Sample("dim_scatter_add_like", [t(0, 3), t(0, 3, dtype=int64), t(2, 3)]),
    Sample("dim_scatter_add", [t(0, 3), t(0, 3, dtype=int64), t(2, 3)]),
    Sample("dim_scatter_add_like", [t(5, 3), i32(ROWS), t(2, 3)], dtypes=NUMERIC),
    Sample("dim_scatter_add_like", [t(3, 6), i64(ONES), t(3, 6)], {"dim": -1}),
    Sample("dim_scatter_add_like", [t(4, 6), i64(ONES), t(4, 7)], {"dim": 1}),
    Sample("dim_scatter_add", [t(5, 3), i32(ROWS), t(2, 3)], dtypes=NUMERIC),
    Sample("dim_scatter_add", [t(3, 6), i64(ONES), t(3, 6)], {"dim": 1}),
    Sample("scatter_nd", [i32([[2, 3], [0, 1], [2, 3]]), t(3)], {"shape": (3, 4)}, dtypes=NUMERIC),
    Sample("scatter_nd", [i64([[2], [0], [2]]), t(3, 4)], {"shape": (3, 4)}),
    Sample("scatter_nd_like", [t(3, 4), i32([[2, 3], [0, 1], [2, 3]]), t(3)], dtypes=NUMERIC),
    Sample("scatter_nd_like", [t(3, 4), i64([[2], [0], [2]]), t(3, 4)]),
    Sample("scatter_nd", [t(0, 1, dtype=int64), t(0, 4)], {"shape": (3, 4)}),
    Sample("scatter_nd_like", [t(3, 4), t(0, 1, dtype=int64), t(0, 4)]),
    Sample("tensor_scatter_nd_update", [t(3, 4), t(3), i32([[2, 3], [0, 1], [2, 3]])], dtypes=ALL),
    Sample("tensor_scatter_nd_update", [t(3, 4), t(3, 4), i64([[2], [0], [2]])]),
    Sample("tensor_scatter_nd_update", [t(5, 2, 3), t(2, 2, 2, 3), i64([[[4], [0]], [[4], [1]]])]),
    Sample("tensor_scatter_nd_update", [t(5, 4), t(3, 4), i64([[2], [0], [4]])], {"any_order": True}),
    Sample("tensor_scatter_nd_update", [t(3, 4), t(0, 4), t(0, 1, dtype=int64)]),
    Sample("embedding_grad", [t(0, 4), t(5, 4), NONE]),
    Sample("embedding_grad", [t(2, 3, 4), t(5, 4), i32(ROWS)], dtypes=FLOATS),
    Sample("embedding_grad", [t(3, 4), t(5, 4), i64([4, 1, 0])], {"padding_idx": 1}),
    Sample(
        "embedding_grad", [t(3, 4), t(5, 4), i64([1, 1, 4])], {"padding_idx": 4, "scale_grad_by_freq": True},
        gradient=False, second_order=False, why="scale_grad_by_freq is refused in second derivatives",
    ),
]  # fmt: skip
SAMPLES = [*READ, *ADD]
BAD = [
    Bad(
        "gather", [t(3), i32([0])], {"logical_size": 4, "logical_begin": 2},
        match="expected a shard of an axis of logical_size 4, got 3 elements from logical_begin 2 on",
    ),
    Bad("gather", [t(3), t(2)], match="expected indices of type i32, i64, got f32"),
    Bad("gather", [t(3), i32([0])], {"axis": 1}, match="expected axis in [-1, 1), got 1"),
    Bad("gather", [t(), i32([0])], match="expected axis in [0, 0), got 0"),
    Bad("batch_gather", [t(3, 4), i32([[0], [1]])], match="expected axis 0 of indices to be 3, got 2"),
    Bad("batch_gather", [t(3), i32([[0]])], match="expected indices of rank 1, got tensor<1x1xi32>"),
    Bad("dim_gather", [t(3, 4), i32([0])], match="expected index of rank 2, got tensor<1xi32>"),
    Bad(
        "dim_gather", [t(3, 2), i32(ROWS)],
        match="expected index to fit into input of type tensor<3x2xf32>, got tensor<2x3xi32>",
    ),
    Bad("gather_nd", [t(3), i32([[0, 0]])], match="expected rows of 1 to 1 positions in indices, got 2"),
    Bad("gather_nd", [t(3), i32(0)], match="expected indices of rank 1 or more, got tensor<i32>"),
    Bad("embedding", [t(3), i32([0])], match="expected weight of rank 2, got tensor<3xf32>"),
    Bad(
        "embedding", [t(3, 2), i32([0])], {"padding_idx": 3},
        match="expected padding_idx of -1 (none) or a row of weight",
    ),
    Bad("one_hot", [t(3)], {"dtype": float32, "depth": 3}, match="expected indices of type i32, i64, got f32"),
    Bad("one_hot", [i32([0])], {"dtype": float32, "depth": -1}, match="expected a depth of at least 0, got -1"),
    Bad(
        "unsorted_segment_sum", [t(3), i32([0, 1])], {"num_segments": 2},
        match="expected data of type tensor<2xf32>, got tensor<3xf32>",
    ),
    Bad(
        "unsorted_segment_sum", [t(3), i32([[0], [1]])],
        match="expected data with the axes of segment_ids from axis 0 on",
    ),
    Bad(
        "unsorted_segment_sum", [t(3), i32([0, 1, 1])], {"num_segments": -1},
        match="expected num_segments of at least 0, got -1",
    ),
    Bad(
        "unsorted_batch_segment_sum", [t(3, 2), i32([[0, 1], [1, 1], [1, 1]])], {"num_segments": -1},
        match="expected num_segments of at least 0, got -1",
    ),
    Bad(
        "unsorted_segment_sum_like", [t(3, 2), i32([0, 1, 1]), t(4, 3)],
        match="expected data of type tensor<3x3xf32>, got tensor<3x2xf32>",
    ),
    Bad(
        "unsorted_batch_segment_sum", [t(3, 2), i32([[0], [1]])],
        match="expected data of type tensor<2x1xf32>, got tensor<3x2xf32>",
    ),
    Bad(
        "dim_scatter_add_like", [t(5, 3), i32(ROWS), t(1, 3)],
        match="expected index to fit into src of type tensor<1x3xf32>",
    ),
    Bad("dim_scatter_add", [t(5, 3), i32(ROWS), t(2, 3, dtype=int32)], match="expected src of type f32, got i32"),
    Bad(
        "scatter_nd", [i32([[0]]), t(2)], {"shape": (3,)},
        match="expected updates of type tensor<1xf32>, got tensor<2xf32>",
    ),
    Bad("scatter_nd", [i32([[0]]), t(1)], {"shape": (-3,)}, match="expected sizes of at least 0 in shape, got [-3]"),
    Bad(
        "scatter_nd_like", [t(3), i32([[0]]), t(2)],
        match="expected updates of type tensor<1xf32>, got tensor<2xf32>",
    ),
    Bad(
        "tensor_scatter_nd_update", [t(3), t(2), i32([[0]])],
        match="expected updates of type tensor<1xf32>, got tensor<2xf32>",
    ),
    Bad(
        "tensor_scatter_nd_update", [t(3), t(1, dtype=int32), i32([[0]])],
        match="expected updates of type f32, got i32",
    ),
    Bad(
        "embedding_grad", [t(2, 3), t(4, 5), i32([0, 1])],
        match="expected dy of type tensor<2x5xf32>, got tensor<2x3xf32>",
    ),
]  # fmt: skip
