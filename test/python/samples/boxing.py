"""Samples of `dialect/ops/boxing.py` on one rank; `passes/sbp/test_boxing_operators.py` runs them on four."""

from typing import Any

from oneflow.dialect.dtypes import bool_, complex64, int32
from oneflow.testing.sample import Bad, Sample, t

ONE = 'device_name: "@0:0"\ndevice_tag: "cpu"'
FOUR = 'device_tag: "cuda" device_name: "@0:0-1" device_name: "@1:0,1" hierarchy { dim: 2 dim: 2 }'
CONFS = {"in_parallel_conf": FOUR, "out_parallel_conf": FOUR}
LOGICAL = "nccl_logical_"
#: The layouts before and after.
CHANGES = {
    "all_reduce": (["P"], ["B"]),
    "reduce_scatter": (["P"], ["S(0)"]),
    "reduce_scatter_noncontinuous": (["P"], ["S(1)"]),
    "all_gather": (["S(0)"], ["B"]),
    "all_gather_noncontinuous": (["S(1)"], ["B"]),
    "s2s": (["S(0)"], ["S(1)"]),
    "send_recv": (["P", "S(0)"], ["S(1)", "B"]),
    "2d_same_dim0_all_reduce": (["S(1)", "P"], ["S(1)", "B"]),
    "2d_same_dim0_all_gather": (["P", "S(0)"], ["P", "B"]),
    "2d_same_dim0_all_gather_noncontinuous": (["S(0)", "S(1)"], ["S(0)", "B"]),
    "2d_same_dim0_all2all": (["B", "S(0)"], ["B", "S(1)"]),
    "2d_same_dim1_all_reduce": (["P", "S(0)"], ["B", "S(0)"]),
}
FUSED = {
    "src_nd_sbp_str_list": ["S(0),P", "P,S(0)"],
    "dst_nd_sbp_str_list": ["S(0),B", "B,S(0)"],
    "nccl_type_list": ["_nccl_logical_2D_same_dim0_all_reduce", "_nccl_logical_2D_same_dim1_all_reduce"],
}
EAGER: dict[str, Any] = {
    "b_to_s": {"out_split_axis": 1, **CONFS, "shape": [4, 3]},
    "naive_s_to_s": {"in_split_axis": 0, "out_split_axis": 1, **CONFS, "shape": [4, 3]},
    "p_to_b": {**CONFS, "shape": [4, 3]},
    "p_to_s": {"out_split_axis": 0, **CONFS, "shape": [4, 3]},
    "s_to_b": {"in_split_axis": 0, **CONFS, "shape": [4, 3]},
    "s_to_p": {"in_split_axis": 1, **CONFS, "shape": [4, 3]},
    "symmetric_s_to_p": {"in_split_axis": 1, "parallel_conf": FOUR},
    "ccl_s2s": {"in_split_axis": 0, "out_split_axis": 1, "parallel_conf": FOUR},
    "ccl_all_reduce": {"parallel_conf": FOUR},
    "ccl_reduce": {"parallel_conf": FOUR},
    "ccl_all_gather": {"parallel_conf": FOUR, "output_shape": [4, 3], "output_dtype": "dtype"},
    "ccl_reduce_scatter": {"parallel_conf": FOUR, "output_shape": [1, 3], "output_dtype": "dtype"},
    "ccl_broadcast": {"parallel_conf": FOUR, "shape_list": [[4, 3]], "root": 3, "async_launch": False},
}

SAMPLES = [
    *(
        Sample(LOGICAL + name, [t(4, 3)], {"src_reduced_nd_sbp": src, "dst_reduced_nd_sbp": dst})
        for name, (src, dst) in CHANGES.items()
    ),
    Sample(
        f"{LOGICAL}s2s",
        [t(4, 3)],
        {"src_reduced_nd_sbp": ["S(1)"], "dst_reduced_nd_sbp": ["S(0)"]},
        dtypes=(bool_, complex64),
    ),
    Sample(f"{LOGICAL}fusion", [[t(3, 2), t(3, 4)]], FUSED),
    *(Sample(f"eager_{name}", [t(4, 3)], attributes) for name, attributes in EAGER.items()),
]


def refused(name, match, **attributes):
    """A call that differs in `attributes` from a sample, and is refused."""
    given: dict[str, object] = (
        {"src_reduced_nd_sbp": ["P"], "dst_reduced_nd_sbp": ["B"]} if name.startswith(LOGICAL) else {}
    )
    return Bad(name, [t(4, 3)], given | EAGER.get(name.removeprefix("eager_"), {}) | attributes, match=match)


BAD = [
    refused(f"{LOGICAL}all_reduce", "expected the change P -> B", src_reduced_nd_sbp=["S(0)"]),
    refused(f"{LOGICAL}reduce_scatter", "P -> S(0) of _nccl_logical_reduce_scatter, got P -> B"),
    refused(f"{LOGICAL}all_gather_noncontinuous", "S(1..) -> B", src_reduced_nd_sbp=["S(0)"]),
    refused(f"{LOGICAL}all_reduce", "as many SBPs before as after", dst_reduced_nd_sbp=["B", "B"]),
    refused(f"{LOGICAL}send_recv", "expected split axes below 2", src_reduced_nd_sbp=["S(2)"]),
    refused(
        f"{LOGICAL}2d_same_dim0_all_reduce",
        "expected the change [*, P] -> [*, B]",
        src_reduced_nd_sbp=["S(0)", "P"],
        dst_reduced_nd_sbp=["S(1)", "B"],
    ),
    Bad(f"{LOGICAL}fusion", [[t(3, 2)]], FUSED, match="an entry for each of 1 tensors"),
    Bad(
        f"{LOGICAL}fusion",
        [[t(3, 2), t(3, 4)]],
        FUSED | {"nccl_type_list": ["all_reduce", "relu"]},
        match="expected nccl_type_list to name _nccl_logical_ operators, got 'all_reduce'",
    ),
    Bad(
        f"{LOGICAL}fusion",
        [[t(3, 2), t(3, 4)]],
        FUSED | {"dst_nd_sbp_str_list": ["S(0),X", "B,S(0)"]},
        match="expected #sbp.split<axis>",
    ),
    refused("eager_b_to_s", "expected split axes below 2", out_split_axis=-1),
    refused("eager_b_to_s", "name the same devices", out_parallel_conf=ONE),
    Bad("eager_p_to_b", [t(4)], EAGER["p_to_b"], match="expected shape of the rank of in, 1, got [4, 3]"),
    refused("eager_ccl_all_reduce", "to be a placement such as", parallel_conf="cpu"),
    refused("eager_ccl_all_reduce", "to have 1 devices", parallel_conf=ONE + " hierarchy { dim: 2 }"),
    refused("eager_ccl_reduce", "expected root 0", root=1),
    refused("eager_ccl_broadcast", "expected root below 4", root=4),
    refused("eager_ccl_broadcast", "the shape of in alone", shape_list=[]),
    refused("eager_ccl_all_gather", "axis 0 of in to be 8, got 4", output_shape=[8, 3]),
    refused("eager_ccl_all_gather", "expected output_dtype", output_dtype=int32),
    refused("eager_ccl_reduce_scatter", "axis 0 of in to be 16, got 4", output_shape=[4, 3]),
    refused("eager_ccl_reduce_scatter", "expected op_type to be 'sum'", op_type="max"),
]
