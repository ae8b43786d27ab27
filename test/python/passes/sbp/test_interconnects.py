"""Layouts follow the interconnect: its bandwidth and latency are the cost of transfers."""

from dataclasses import replace

import pytest
from sbp_programs import run_passes

from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.passes.pipeline import PipelineFailure
from oneflow.passes.sbp.interconnects import ETHERNET, INTERCONNECTS, NVLINK, interconnect, using_interconnect
from oneflow.runtime.distributed import lay_out

B = "{oneflow.nd_sbp = [#sbp.broadcast]}"
#: Two ranks compute half of the product each, and exchange the halves, where this takes less time than the product.
PRODUCT = f"""module attributes {{oneflow.mesh = array<i64: 2>}} {{
  func.func @main(%a: tensor<384x384xf32> {B}, %b: tensor<384x384xf32> {B}) -> (tensor<384x384xf32> {B}) {{
    %0 = "oneflow.matmul"(%a, %b) : (tensor<384x384xf32>, tensor<384x384xf32>) -> tensor<384x384xf32>
    return %0 : tensor<384x384xf32>
  }}
}}"""


def is_split(options=""):
    """Whether the cost model splits the product."""
    with create_context(REGISTRY) as context:
        module = read_module(PRODUCT, context)
        run_passes(module, f"oneflow-infer-sbp{{strategy=auto {options}}}")
        return "split" in str(module)


@pytest.mark.parametrize(("name", "split"), [("ethernet", False), ("nvlink", True)])
def test_products_are_split_where_transfers_are_fast(name, split):
    assert is_split(f"interconnect={name}") == split
    with using_interconnect(INTERCONNECTS[name]):
        assert is_split() == split


def test_options_replace_the_numbers_of_the_interconnect():
    assert not is_split("interconnect=nvlink latency=1000")
    assert is_split("interconnect=ethernet bandwidth=1000")
    with using_interconnect(replace(ETHERNET, bandwidth=1000.0)):
        assert is_split()
    with pytest.raises(PipelineFailure, match=r"option interconnect: expected one of .*, got 'token-ring'"):
        is_split("interconnect=token-ring")


@pytest.mark.parametrize(("device", "split"), [("cpu", True), ("cuda", False)])
def test_a_gpu_computes_a_small_product_faster_than_it_exchanges_a_part(device, split):
    with create_context(REGISTRY) as context, using_interconnect(NVLINK):
        assert ("split" in str(lay_out(read_module(PRODUCT, context), "auto", device=device))) == split


def test_gpus_have_nvlink_unless_another_interconnect_is_chosen():
    assert interconnect() == ETHERNET and interconnect(NVLINK) == NVLINK
    with using_interconnect(INTERCONNECTS["pcie"]):
        assert interconnect() == interconnect(NVLINK) == INTERCONNECTS["pcie"]
