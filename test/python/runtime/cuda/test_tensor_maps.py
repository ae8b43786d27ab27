"""Descriptors as parameters: descriptors that are lifted out of kernels, and maps of the current memory."""

import ml_dtypes
import numpy as np
import pytest

import oneflow as flow
from oneflow.lowering.targets.hopper import HOPPER_TILES
from oneflow.lowering.triton.codegen.prelude import preamble
from oneflow.lowering.triton.cost.matmul_configurations import configs_of
from oneflow.lowering.triton.source import Parameter, Source, TensorDescriptor
from oneflow.lowering.triton.symbolic_sizes import TileCount
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.array import CudaArray
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.runtime.cuda.tensor_maps import TensorMap, lift_descriptors
from oneflow.testing.host_cuda import host_cuda

TMA_CONFIGS = configs_of(HOPPER_TILES.tma)

SOURCE = Source(
    "copy", (Parameter("n", "i32"), Parameter("p0", "*bf16"), Parameter("p1", "*bf16")), TileCount.of(1),
    (
        TensorDescriptor("block1", "p0", 768, (96, 128), (256, 1), (64, 64)),
        "block2 = tl.make_tensor_descriptor(p1, [n, 128], [128, 1], [64, 64])",
        TensorDescriptor("block3", "p1", 0, (96, 128), (128, 1), (64, 128)),
        "block3.store([0, 0], tl.full((64, 128), 0.0, tl.bfloat16))",
        "block2.store([0, 0], block1.load([0, 64]))",
    ),
    preamble=preamble(()),
)  # fmt: skip


def test_descriptors_of_known_sizes_are_parameters():
    lifted, found = lift_descriptors(SOURCE, has_tma=True)
    assert found == [(1, 768, (96, 128), (256, 1)), (2, 0, (96, 128), (128, 1))]
    assert lifted.parameters[3:] == (("block1", "tensordesc<bf16[64, 64]>"), ("block3", "tensordesc<bf16[64, 128]>"))
    assert "def copy(n, p0, p1, block1, block3):" in lifted.text and lifted.text.count("make_tensor_descriptor") == 1
    assert lift_descriptors(SOURCE, has_tma=False) == (SOURCE, [])


def test_maps_say_how_blocks_are_copied():
    """128 columns of bf16 are two copies: a swizzled row has 128 bytes."""
    binary, how = compile_source(SOURCE), ((64, 64), 2, 9, 3)
    assert binary.maps == (
        TensorMap(1, 768, (96, 128), (256, 1), *how),
        TensorMap(2, 0, (96, 128), (128, 1), *how),
    )
    assert binary.scratch == 128, "one descriptor is left to the kernel"
    assert binary.ptx.count(".param .align 64 .b8") == 2


@pytest.mark.parametrize("graphs", ["0", "1"])
def test_maps_follow_the_memory(graphs, tmp_path, change_gpu, monkeypatch):
    """Kept results change the address of the next results: the driver checks the map of each launch."""
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ONEFLOW_CUDA_GRAPHS", graphs)
    change_gpu(overrides={"tiles": (TMA_CONFIGS[-1],)})
    x, w = (np.random.default_rng(n).standard_normal((128, 128)).astype(ml_dtypes.bfloat16) for n in (1, 2))
    want = np.asarray(x, np.float32)
    for _ in range(4):
        want = (want @ np.asarray(w, np.float32) / 16).astype(ml_dtypes.bfloat16).astype(np.float32)
    with host_cuda() as cuda:
        function = flow.compile(_four, device="cuda")
        given = [CudaArray.of(a, driver.device(0)) for a in (x, w)]
        kept = [function(*given) for _ in range(5)]
        assert ("change" in cuda.log) == (graphs == "1")
        for got in kept:
            np.testing.assert_allclose(np.float32(got.numpy()), want, 0.1, 0.1)


def _four(x, w):
    for _ in range(4):
        x = x @ w / 16
    return x
