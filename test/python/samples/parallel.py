"""Samples of `dialect/ops/parallel.py`. Groups have one rank; the tests of `passes` have larger groups."""

from oneflow.dialect.dtypes import FLOATS, bool_, int32
from oneflow.testing.sample import ALL, INTEGERS, Bad, Sample, t

ONE = {"mesh_axes": [0], "members": 1}
NUMBERS = (*FLOATS, *INTEGERS)

SAMPLES = [
    Sample("hierarchical_parallel_cast", [t(4, 3)], {"nd_sbp": ["S(0)", "B"]}, dtypes=ALL),
    Sample("hierarchical_parallel_cast", [t(4, 3)], {"nd_sbp": ["S(0)"], "grad_mode": "auto", "grad_nd_sbp": []}),
    Sample(
        "hierarchical_parallel_cast",
        [t(4, 3)],
        {"nd_sbp": ["P"], "grad_mode": "manual", "grad_nd_sbp": ["S(1)"]},
        dtypes=FLOATS,
    ),
    Sample("hierarchical_parallel_cast_like", [t(4, 3), t(4, 3)], {"nd_sbp": ["B"]}, dtypes=ALL),
    Sample("parallel_cast", [t(4, 3)], {"sbp_parallel": "S(0)", "grad_sbp_parallel": "B"}, dtypes=(*FLOATS, int32)),
    Sample("parallel_cast", [t(4, 3)], {"sbp_parallel": "P", "grad_sbp_parallel": ""}),
    Sample("ccl_all_reduce", [[t(4, 3)]], ONE, dtypes=NUMBERS),
    Sample("ccl_all_reduce", [[t(4, 3), t(2), t()]], {"reduce_type": "max", **ONE}, dtypes=NUMBERS),
    Sample("ccl_reduce", [t(4, 3)], {"reduce_type": "max", **ONE}, dtypes=NUMBERS),
    Sample("ccl_broadcast", [t(4, 3)], {"root": 0, **ONE}, dtypes=ALL),
    Sample("ccl_reduce_scatter", [[t(4, 3)]], {"axis": 1, "sizes": [3], **ONE}, dtypes=NUMBERS),
    Sample("ccl_reduce_scatter", [[t(4, 3), t(2)]], {"axis": 0, "sizes": [4, 2], **ONE}, dtypes=NUMBERS),
    Sample("ccl_all_gather", [[t(4, 3)]], {"axis": -2, "sizes": [4], **ONE}, dtypes=ALL),
    Sample("ccl_all_gather", [[t(4, 3), t(2, 5)]], {"axis": 1, "sizes": [3, 5], **ONE}, dtypes=ALL),
    Sample(
        "ccl_all_to_all",
        [t(4, 3)],
        {"in_axis": 0, "in_sizes": [4], "out_axis": 1, "out_sizes": [3], **ONE},
        dtypes=ALL,
    ),
    Sample(
        "ccl_send_recv",
        [t(4, 3)],
        {"shape": [4, 3], "mesh": [1], "src_nd_sbp": ["S(0)"], "dst_nd_sbp": ["S(1)"], **ONE},
        dtypes=ALL,
    ),
]

TWO = {"mesh_axes": [0], "members": 2, "index": 1}
#: From member 0 to member 1 of two ranks.
ONWARD = {
    **TWO, "shape": [4, 3], "mesh_axes": [], "ranks": [4, 7], "mesh": [1], "src_nd_sbp": ["B"], "dst_nd_sbp": ["B"],
    "src_members": [0], "dst_mesh": [1], "dst_members": [1],
}  # fmt: skip
BAD = [
    Bad(
        "parallel_cast",
        [t(3)],
        {"sbp_parallel": "S(1)", "grad_sbp_parallel": ""},
        match="sbp_parallel: expected split axes below 1",
    ),
    Bad(
        "parallel_cast",
        [t(3)],
        {"sbp_parallel": "", "grad_sbp_parallel": "P"},
        dtype=bool_,
        match="grad_sbp_parallel: expected no partial sums of i1",
    ),
    Bad(
        "parallel_cast",
        [t(3)],
        {"sbp_parallel": "", "grad_sbp_parallel": "X"},
        match="expected grad_sbp_parallel to be",
    ),
    Bad("hierarchical_parallel_cast_like", [t(4), t(3)], {"nd_sbp": ["B"]}, match="expected like of the type of in"),
    Bad("ccl_all_reduce", [[t(4)]], {**TWO, "ranks": [4]}, match=r"expected ranks of 2 members, got [4]"),
    Bad("ccl_send_recv", [t(4, 3)], ONWARD, match="expected in of type tensor<0xf32>"),
    Bad("ccl_send_recv", [t(0)], {**ONWARD, "dst_members": [2]}, match=r"expected a mesh of [2], members below 2"),
    Bad("hierarchical_parallel_cast", [t(4, 3)], {"nd_sbp": ["S(2)"]}, match="expected split axes below 2"),
    Bad("hierarchical_parallel_cast", [t(4)], {"nd_sbp": ["P"]}, dtype=bool_, match="expected no partial sums of i1"),
    Bad("hierarchical_parallel_cast", [t(4)], {"nd_sbp": ["S0"]}, match="expected #sbp.split<axis>"),
    Bad("hierarchical_parallel_cast", [t(4)], {"nd_sbp": "B"}, match="expected a list of SBPs"),
    Bad("hierarchical_parallel_cast", [t(4)], {"nd_sbp": ["B"], "grad_mode": "none"}, match="expected grad_mode"),
    Bad("ccl_all_reduce", [[t(4)]], TWO, dtype=bool_, match="expected in of type"),
    Bad("ccl_all_reduce", [[t(4)]], {**TWO, "index": 2}, match="an index below members"),
    Bad("ccl_reduce", [t(4)], {**TWO, "root": 2}, match="expected root below the 2 members, got 2"),
    Bad("ccl_reduce", [t(4)], {**TWO, "reduce_type": "min"}, match="expected reduce_type to be one of sum, max"),
    Bad("ccl_broadcast", [t(4)], {**TWO, "root": -1}, match="expected root below the 2 members, got -1"),
    Bad("ccl_reduce_scatter", [[t(4)]], {"axis": 0, "sizes": [1, 2], **TWO}, match="axis 0 of in to be 3, got 4"),
    Bad("ccl_reduce_scatter", [[t(4)]], {"axis": 1, "sizes": [1, 3], **TWO}, match="expected axis in [-1, 1)"),
    Bad("ccl_all_gather", [[t(4)]], {"axis": 0, "sizes": [4, 3], **TWO}, match="axis 0 of in to be 3, got 4"),
    Bad("ccl_all_gather", [[t(4)]], {"axis": 0, "sizes": [4], **TWO}, match="expected sizes of 2 members"),
    Bad("ccl_all_gather", [[t(4), t(4)]], {"axis": 0, "sizes": [4, 4], **TWO}, match="members for each of 2 tensors"),
    Bad("ccl_all_gather", [[t(1), t(4)]], {"axis": 0, "sizes": [2, 1, 4, 3], **TWO}, match="axis 0 of in 1 to be 3"),
    Bad("ccl_reduce_scatter", [[t(3), t(4)]], {"axis": 0, "sizes": [1, 2, 1, 2], **TWO}, match="of in 1 to be 3"),
    Bad("ccl_all_reduce", [[t(4), t(4, dtype=int32)]], TWO, match="expected operands of one data type"),
    Bad(
        "ccl_all_to_all",
        [t(2, 3)],
        {"in_axis": 0, "in_sizes": [2, 2], "out_axis": -2, "out_sizes": [2, 2], **TWO},
        match="expected in_axis and out_axis to differ",
    ),
    Bad(
        "ccl_send_recv",
        [t(2, 3)],
        {"shape": [4, 3], "mesh": [2], "src_nd_sbp": ["P"], "dst_nd_sbp": ["B"], **TWO},
        match="reduce the partial sums first",
    ),
    Bad(
        "ccl_send_recv",
        [t(3, 3)],
        {"shape": [4, 3], "mesh": [2], "src_nd_sbp": ["S(0)"], "dst_nd_sbp": ["B"], **TWO},
        match="expected in of type tensor<2x3xf32>",
    ),
    Bad(
        "ccl_send_recv",
        [t(2, 3)],
        {"shape": [4, 3], "mesh": [3], "src_nd_sbp": ["S(0)"], "dst_nd_sbp": ["B"], **TWO},
        match="expected a mesh of 2 members",
    ),
]
