"""The target of a device has the facts that the driver reports; the table by architecture has the others."""

import importlib.util
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from oneflow.lowering.targets.card import CardFacts
from oneflow.lowering.targets.selection import gpu_target_named, gpu_target_on, using_gpu
from oneflow.runtime.cuda import driver
from oneflow.testing.host_cuda import host_cuda


def card(capability, sms, clocks, bus, l2_bytes, shared):
    """The driver's attributes of a card; clocks are in MHz, shared memory is in KiB."""
    major, minor = divmod(capability, 10)
    return {
        "COMPUTE_CAPABILITY_MAJOR": major, "COMPUTE_CAPABILITY_MINOR": minor, "MULTIPROCESSOR_COUNT": sms,
        "CLOCK_RATE": 1000 * clocks[0], "MEMORY_CLOCK_RATE": 1000 * clocks[1], "GLOBAL_MEMORY_BUS_WIDTH": bus,
        "L2_CACHE_SIZE": l2_bytes, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": (shared + 1) << 10,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": shared << 10, "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
        "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    }  # fmt: skip


CARDS = {
    "H200": card(90, 132, (1980, 3201), 6144, 62914560, 227),
    "H100": card(90, 132, (1980, 2619), 5120, 52428800, 227),
    "H100 PCIe": card(90, 114, (1755, 1593), 5120, 52428800, 227),
    "A100": card(80, 108, (1410, 1593), 5120, 41943040, 163),
    "A100 40GB": card(80, 108, (1410, 1215), 5120, 41943040, 163),
}


def target_of(attributes):
    """The target of a device whose driver reports attributes."""
    with host_cuda(attributes=attributes):
        return driver.device().target


@pytest.fixture(scope="module")
def targets():
    return {name: target_of(attributes) for name, attributes in CARDS.items()}


def test_facts_are_attributes_of_the_driver():
    """Triton has the header of the driver."""
    triton = importlib.util.find_spec("triton")
    assert triton is not None and triton.origin is not None
    header = Path(triton.origin).parent / "backends/nvidia/include/cuda.h"
    known = set(re.findall(r"\bCU_DEVICE_ATTRIBUTE_(\w+) *= *\d+", header.read_text(encoding="utf-8")))
    assert known.issuperset(driver.FACTS.values())
    assert list(driver.FACTS) == [f.name for f in fields(CardFacts)]


@pytest.mark.parametrize(("name", "arch"), [("H200", "sm_90"), ("A100", "sm_80")])
def test_the_table_has_the_card_of_an_architecture(targets, name, arch):
    assert targets[name] == gpu_target_named(arch)


def test_cards_of_one_architecture_have_their_own_bandwidth(targets):
    found = {name: round(t.rates.dram_bytes_per_second / 1e12, 2) for name, t in targets.items()}
    assert found == {"H200": 4.92, "H100": 3.35, "H100 PCIe": 2.04, "A100": 2.04, "A100 40GB": 1.56}
    assert [targets[n].sms for n in ("H200", "H100", "H100 PCIe", "A100")] == [132, 132, 114, 108]


def test_model_rates_are_the_same_share_of_the_peak_on_every_card(targets):
    """The model of an H100 equals the model of an H200 except for DRAM; an A100 has other SMs too."""
    shares = {t.model.dram_bytes * 1e6 / t.rates.dram_bytes_per_second for t in targets.values()}
    assert max(shares) == pytest.approx(min(shares), rel=1e-12)
    first, second = targets["H200"].model, targets["H100"].model
    assert second == replace(first, dram_bytes=second.dram_bytes)
    assert second.dram_bytes == pytest.approx(first.dram_bytes * 2619 * 5120 / (3201 * 6144))
    assert targets["A100"].model.tensor_fma == pytest.approx(first.tensor_fma / 2 * 1410 / 1980)


def test_sizes_of_kernels_follow_the_card(targets):
    """Programs per SM follow the bandwidth of an SM, shares of the L2 cache its size."""
    programs = {name: t.kernels.blocks.strided_programs_per_sm for name, t in targets.items()}
    assert programs == {"H200": 4, "H100": 3, "H100 PCIe": 2, "A100": 2, "A100 40GB": 2}
    splits = {name: t.kernels.reductions.max_programs_per_sm for name, t in targets.items()}
    assert splits == {"H200": 8, "H100": 5, "H100 PCIe": 4, "A100": 4, "A100 40GB": 3}
    streamed = {n: t.kernels.blocks.streamed_l2_caches * t.l2_cache_bytes / 2**20 for n, t in targets.items()}
    assert (streamed["H200"], round(streamed["H100"]), round(streamed["A100"])) == (64, 53, 43)


def test_facts_that_a_driver_does_not_report_are_those_of_the_table():
    names = ("COMPUTE_CAPABILITY_MAJOR", "MULTIPROCESSOR_COUNT")
    target = target_of({**{n: CARDS["H200"][n] for n in names}, "MULTIPROCESSOR_COUNT": 60})
    assert target == replace(gpu_target_named("sm_90"), sms=60)


def test_fitted_values_stay_with_the_architecture():
    fitted = {"blocks": {"pointwise": 512}}
    with using_gpu(replace(gpu_target_named("sm_90"), fitted=fitted)):
        on_hopper, on_ampere = (gpu_target_on(target_of(CARDS[name])) for name in ("H100", "A100"))
    assert on_hopper.kernels.blocks.pointwise == 512 and on_hopper.rates.memory_clock_mhz == 2619
    assert on_ampere == gpu_target_named("sm_80")
