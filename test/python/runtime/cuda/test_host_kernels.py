"""Kernels without a Triton form run on the host, on copies; fused kernels are split first."""

from pathlib import Path

import numpy as np
import pytest
import scipy.special

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.triton.codegen import body
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda import executable
from oneflow.runtime.executable import OutOfBoundsError
from oneflow.testing.host_cuda import host_cuda
from oneflow.testing.triton_interpreter import interpret_program

KERNELS = Path(__file__).parents[3] / "lit" / "lowering" / "triton" / "launch" / "host_kernels.mlir"


@pytest.fixture
def cuda(tmp_path):
    """A device that has no error function."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
        for table in (body.TEMPLATES, body.FAST_MATH):
            patch.delitem(table, "math.erf")
        with host_cuda() as made:
            yield made


def floats(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def gelu(x):
    x = x.astype(np.float64)
    return x * (1 + scipy.special.erf(x / np.sqrt(2))) / 2


def test_hand_written_plans_with_host_kernels():
    """A gather from a value of the kernel, and a count of bits plus a number."""
    context = create_context()
    module = ir.Module.parse(KERNELS.read_text(encoding="utf-8"), context)
    with context, ir.Location.unknown():
        Pipeline.parse("builtin.module(oneflow-emit-triton)", context).run(module, REGISTRY)
        program = read_program(module)
    assert [h.message for h in program.hosts] == ["kernel main_kernel_1 runs on the host: math.ctpop"]
    x, positions, bits = floats(8), np.array([7, 0, 3, 3, 1, 6, 2, 5]), np.array([0, 1, 255, -1, 1 << 30], np.int32)
    got = interpret_program(program, x, positions, bits)
    np.testing.assert_array_equal(got[0], 2 * x[positions])
    np.testing.assert_array_equal(got[1], [7, 8, 15, 39, 8])


@pytest.mark.parametrize("graphs", ["0", "1"])
def test_host_kernels_read_and_write_device_memory(cuda, graphs, monkeypatch):
    monkeypatch.setenv(executable.USE_GRAPHS, graphs)
    function = flow.compile(lambda x, w: flow.gelu(x @ w) @ w, device="cuda")
    w = floats(9, 9)
    with pytest.warns(RuntimeWarning, match=r"\(oneflow.gelu\) runs on the host: math.erf"):
        got = function(floats(6, 9), w)
    want = gelu(floats(6, 9).astype(np.float64) @ w) @ w
    for _ in range(2):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
        got = function(floats(6, 9), w)
    assert "math.erf" in function.ir("triton") and "run.on_host(" in function.ir("triton")


def test_host_kernels_of_dynamic_sizes(cuda):
    spec = flow.TensorSpec((None, 4), flow.float32)
    function = flow.compile(lambda x: flow.gelu(x).sum(0), spec, device="cuda")
    with pytest.warns(RuntimeWarning, match="runs on the host"):
        function(floats(3, 4))
    for rows in (1, 5):
        np.testing.assert_allclose(function(floats(rows, 4)), gelu(floats(rows, 4)).sum(0), rtol=1e-5, atol=1e-5)


def test_host_kernels_are_cached_on_disk(cuda):
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="runs on the host"):
            got = flow.compile(flow.gelu, device="cuda")(floats(5))
        np.testing.assert_allclose(got, gelu(floats(5)), rtol=1e-5, atol=1e-6)


def test_a_failed_check_is_raised_as_on_the_device(cuda):
    function = flow.compile(lambda x, i: flow.gelu(x[i]), device="cuda")
    with pytest.warns(RuntimeWarning, match="runs on the host"):
        got = function(floats(5), np.array([4, 0]))
    np.testing.assert_allclose(got, gelu(floats(5)[[4, 0]]), rtol=1e-5, atol=1e-6)
    with pytest.raises(
        OutOfBoundsError, match=r"gather: indices \(.*test_host_kernels.py:.*expected an index in \[0, 5\), got 5"
    ):
        function(floats(5), np.array([0, 5]))


@pytest.mark.parametrize("graphs", ["0", "1"])
def test_readers_run_on_the_host(cuda, graphs, monkeypatch, tmp_path):
    """Each run of a program reads the next batch, with graphs and without."""
    monkeypatch.setenv(executable.USE_GRAPHS, graphs)
    np.arange(12, dtype=np.float32).tofile(tmp_path / "tensors")
    read = flow.nn.RawReader([tmp_path / "tensors"], (2,), flow.float32, 2, random_shuffle=False)
    function = flow.compile(lambda x: (read() + x) * 2, device="cuda")
    expected = [np.arange(n, n + 4, dtype=np.float32).reshape(2, 2) for n in (0, 4, 8, 0, 4)]
    for batch in expected:
        np.testing.assert_array_equal(function(np.ones(2, np.float32)), (batch + 1) * 2)
