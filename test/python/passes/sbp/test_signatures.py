"""Every nd-signature of samples of every operator, shard by shard against the whole.

$ONEFLOW_TEST_ALL takes all samples.
"""

import itertools
from typing import Any

import pytest
from each_case import by_operator, each
from samples import SPREAD

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect.dtypes import int64
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.sbp import S
from oneflow.passes.sbp.candidates import nd_signatures
from oneflow.testing.checks import described, sbp_case
from oneflow.testing.nd_checks import check_nd_sbp
from oneflow.testing.sample import Sample, t

SPREAD_OF = by_operator(SPREAD)
MESHES = ((1, 2), (1, 3), (2, 2))


@pytest.mark.parametrize("name", SPREAD_OF)
def test_signatures(name):
    """Cut along every axis of the mesh, computed and put together."""
    each(itertools.product(SPREAD_OF[name], MESHES), check_signatures)


def check_signatures(sample, mesh):
    assert check_nd_sbp(sample, mesh)


GROUPED = {
    "kernel_size": [3, 3], "strides": [1, 1], "dilation_rate": [1, 1], "padding_before": [0, 0],
    "data_format": "channels_first", "groups": 4,
}  # fmt: skip
#: Sizes that two mesh axes can split along one axis, evenly and not.
LARGER = [
    Sample("matmul", [t(5, 6), t(6, 4)]),
    Sample("broadcast_matmul", [t(5, 4, 6), t(6, 7)]),
    Sample("broadcast_add", [t(5, 6), t(6)]),
    Sample("broadcast_mul", [t(5, 6), t(5, 1)]),
    Sample("softmax", [t(6, 5)]),
    Sample("layer_norm", [t(5, 4, 6)], {"begin_norm_axis": 2, "begin_params_axis": 2, "epsilon": 1e-5}),
    Sample("conv2d", [t(5, 4, 6, 6), t(4, 4, 3, 3)], {"kernel_size": [3, 3], "strides": [1, 1],
           "dilation_rate": [1, 1], "padding_before": [1, 1], "data_format": "channels_first", "filters": 4}),
    Sample("conv2d", [t(3, 8, 4, 4), t(8, 2, 3, 3), t(8)], {**GROUPED, "filters": 8}),
    Sample("conv_data_grad", [t(3, 8, 2, 2), t(8, 2, 3, 3), t(3, 8, 4, 4)], {**GROUPED, "num_spatial_dims": 2}),
    Sample("deconv2d", [t(3, 8, 2, 2), t(8, 2, 3, 3)], {**GROUPED, "filters": 8, "output_padding": [0, 0]}),
    Sample("conv_filter_grad", [t(3, 8, 2, 2), t(3, 8, 4, 4)], {**GROUPED, "num_spatial_dims": 2}),
    Sample("group_norm", [t(3, 12, 2), t(12), t(12)], {"num_groups": 6, "epsilon": 1e-5, "affine": True}),
    Sample("group_norm_grad", [t(3, 12, 2), t(3, 12, 2), t(3, 6), t(3, 6, low=0.5, high=2.0), t(12)],
           {"num_groups": 6, "epsilon": 1e-5}),
    Sample("group_norm_param_grad", [t(3, 12, 2), t(3, 12, 2), t(3, 6), t(3, 6, low=0.5, high=2.0)]),
    Sample("embedding", [t(7, 5), t(6, 4, low=0, high=7, dtype=int64)]),
    Sample("reduce_sum", [t(5, 4, 6)], {"axis": [1]}),
    Sample("reduce_max", [t(5, 4, 6)], {"axis": [1]}),
    Sample("transpose", [t(5, 4, 6)], {"perm": [2, 0, 1]}),
    Sample("reshape", [t(5, 4, 6)], {"shape": [5, 24]}),
    Sample("reshape", [t(3, 12)], {"shape": [3, 6, 2]}),
    Sample("reshape", [t(8, 2, 3)], {"shape": [16, 3]}),
    Sample("reshape_like", [t(12, 3), t(6, 2, 3)]),
    Sample("cat", [[t(5, 4), t(5, 6)]], {"axis": 1}),
    Sample("narrow", [t(5, 7)], {"dim": 1, "start": 1, "length": 5}),
    Sample("pad", [t(5, 4)], {"padding_before": [1, 0], "padding_after": [0, 0]}),
    Sample("dropout", [t(5, 6)], {"rate": 0.5, "seed": 7}),
    Sample("constant", [], {"dtype": "dtype", "shape": [5, 6], "is_floating_value": True, "floating_value": 2.0}),
]  # fmt: skip


@pytest.mark.parametrize("sample", LARGER, ids=str)
@pytest.mark.parametrize("mesh", [(2, 2), (3, 2), (2, 1, 2)], ids=str)
def test_nested_splits(sample, mesh):
    """Two mesh axes split one axis of a tensor; shards differ by one."""
    assert check_nd_sbp(sample, mesh) > 1


@pytest.mark.parametrize(("mesh", "count"), [((2,), 1), ((3,), 0), ((4,), 1), ((2, 2), 1), ((2, 4), 0)], ids=str)
@pytest.mark.parametrize("name", ["conv2d", "group_norm", "attention"])
def test_splits_divide_the_groups(name, mesh, count):
    """Channels, or heads, are split over devices whose number divides the 4 groups."""
    heads = [t(1, 8, 2, 2), t(1, 4, 3, 2), t(1, 4, 3, 2)]
    inputs = {"conv2d": [t(3, 8, 4, 4), t(8, 2, 3, 3)], "group_norm": [t(3, 8, 2)], "attention": heads}[name]
    attrs: Any = {"conv2d": {**GROUPED, "filters": 8}, "group_norm": {"num_groups": 4, "epsilon": 1e-5}}.get(name, {})
    call = described(sbp_case(Sample(name, inputs, attrs), REGISTRY))
    split = [s for s in nd_signatures(call, mesh) if set(s.inputs[0]) == {S(1)}]
    assert len(split) == count
