"""Kernels of users for CUDA devices: C++ under nvcc, and Triton; which of an operator's kernels is called."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oneflow as flow
import oneflow.typing as tp
from oneflow.dialect import dtypes as dt
from oneflow.dialect.record import REGISTRY, Call, OperatorError
from oneflow.dialect.signature import SignatureError
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend import cuda
from oneflow.runtime.executable import KernelError
from oneflow.testing import Sample, t
from oneflow.testing.triton_interpreter import check_triton
from oneflow.testing.user_operators import check_op


def on_device(test):
    """Marks a test that needs a device."""
    return pytest.mark.gpu(pytest.mark.skipif(not cuda.is_available(), reason="needs a CUDA device")(test))


X = np.array([[1.0, -2.0, 3.0], [0.5, 0.0, -1.0]], np.float32)


@pytest.fixture(scope="session")
def scale(tmp_path_factory):
    """`t_device`, from a library made as OneFlow's documents say: nvcc compiles, g++ links."""
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    folder = tmp_path_factory.mktemp("nvcc")
    source, made, target = Path(__file__).parent / "libraries/device.cu", folder / "device.o", folder / "device.so"
    flags, link = flow.sysconfig.get_compile_flags(), flow.sysconfig.get_link_flags()
    compiler = ["nvcc", "-std=c++11", "-c", str(source), "-o", str(made), *flags, "-x", "cu", "-Xcompiler", "-fPIC"]
    subprocess.run(compiler, check=True, capture_output=True, text=True)
    subprocess.run(["g++", str(made), "-shared", "-o", str(target), *flags, "-fPIC", "-lcudart", *link], check=True)
    flow.config.load_library(target)
    yield lambda x, factor=2.0: flow.ops.t_device(x, factor=factor)
    del REGISTRY.operators["t_device"]


def test_the_host_has_its_own_kernel(scale):
    np.testing.assert_array_equal(scale(X).numpy(), X * 2)
    record: Any = REGISTRY["t_device"]
    desc = TensorDesc((2, 3), dt.float32)
    assert record.device_kernel(Call(record, {"x": desc}, {"factor": 1.0}, {"out": desc})).on_device
    other = TensorDesc((2, 3), dt.bfloat16)
    assert record.device_kernel(Call(record, {"x": other}, {"factor": 1.0}, {"out": other})) is None


def test_a_kernel_for_gpus_is_not_called_on_the_cpu(scale):
    with pytest.raises(OperatorError, match=r"no kernel matches on cpu for (?s:.*)device == cuda \(it is cpu\)"):
        record: Any = REGISTRY["t_device"]
        record.reference(X.astype(np.float64), factor=2.0)


@on_device
def test_kernels_for_gpus_run_in_programs(scale):
    program = flow.compile(lambda x: flow.relu(scale(x + 1.0, 3.0)), device="cuda")
    for x in (X, -X, X):
        np.testing.assert_allclose(program(x), np.maximum((x + 1) * 3, 0), rtol=1e-6)
    double = flow.compile(lambda x: scale(x, 0.5) * 2.0, device="cuda")
    np.testing.assert_allclose(double(X.astype(np.float64)), X, rtol=1e-12)
    dtype: Any
    for dtype in (np.float32, np.float16):
        x = flow.tensor(X.astype(dtype)).to("cuda")
        np.testing.assert_array_equal(scale(x).to("cpu").numpy(), X.astype(dtype) * dtype(2))


@on_device
def test_jobs_run_on_the_devices_of_their_scopes(scale):
    @flow.global_function()
    def job(x: tp.Numpy.Placeholder((2, 3))) -> tp.Numpy:
        with flow.scope.placement("gpu", "0:0"):
            return scale(x)

    for _ in range(2):
        np.testing.assert_array_equal(job(X), X * 2)
    assert job.device == "cuda"


CAP = """
def cap(x, y, limit, x_size, BLOCK: tl.constexpr = 64):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, lesser(tl.load(x + at, at < x_size), limit), at < x_size)
"""
LESSER = """
@triton.jit
def lesser(a, b):
    return tl.minimum(a, b)
"""


def capped(x, *, limit):
    return np.minimum(x, x.dtype.type(limit))


@pytest.fixture
def cap():
    """An operator that is a Triton kernel, and an operator with another kernel for the host."""

    @flow.operator("t_cap(x, limit: float = 1.0) -> y")
    class Cap:
        types = "x"
        sbp = "rows columns -> rows columns"
        kernel = flow.triton_kernel(CAP, LESSER, grid="cdiv(x_size, BLOCK)")
        reference = capped

    @flow.operator("t_cap_both(x, limit: float = 1.0) -> y")
    class CapBoth:
        types = "x"
        kernel = flow.numpy_kernel(capped)
        triton = flow.triton_kernel(CAP, LESSER, grid="cdiv(x_size, BLOCK)", warps=2)

    yield Cap
    for name in ("t_cap", "t_cap_both"):
        del REGISTRY.operators[name]


def test_an_operator_that_is_a_triton_kernel(cap):
    x = np.random.default_rng(0).normal(size=(9, 20)).astype(np.float32)
    np.testing.assert_array_equal(flow.ops.t_cap(x, limit=0.5).numpy(), np.minimum(x, 0.5))
    program = flow.compile(lambda x: -flow.ops.t_cap(x * 2.0, limit=0.25))
    np.testing.assert_array_equal(program(x), -np.minimum(x * 2, 0.25))
    check_op(cap, [Sample("t_cap", [t(4, 5)], {"limit": 0.25}, dtypes=[dt.float32, dt.float64])])


@pytest.mark.parametrize("name", ["t_cap", "t_cap_both"])
def test_the_kernel_is_part_of_programs_for_devices(cap, name):
    check_triton(Sample(name, [t(9, 20)], {"limit": 0.25}), dt.float32)


@on_device
def test_triton_kernels_run_on_devices(cap):
    x = np.random.default_rng(0).normal(size=(90, 200)).astype(np.float32)
    for name in ("t_cap", "t_cap_both"):
        program = flow.compile(lambda x, name=name: getattr(flow.ops, name)(x + 1.0, limit=0.5) * 2.0, device="cuda")
        for _ in range(3):
            np.testing.assert_array_equal(program(x), np.minimum(x + 1, np.float32(0.5)) * 2)


@pytest.mark.parametrize(
    "text, grid, message",
    [
        ("def f(x, y, z): pass", "1", "its Triton kernel has the parameter z, expected a default or one of x, xs_0"),
        ("def f(x, y): pass", "1 / 0", "the grid '1 / 0' of its Triton kernel: division by zero"),
        ("def f(x, y, items): pass", "1", r"expected a number or string for the parameter items .*, got \(1, 2\)"),
    ],
)
def test_kernels_that_are_refused(text, grid, message):
    kernel = flow.triton_kernel(text, grid=grid)
    record = flow.operator("t_odd(x, xs*, bias?, items: list_int32 = []) -> y")(
        type("Odd", (), {"types": "x", "kernel": kernel})
    )
    try:
        with pytest.raises(flow.OneFlowError, match=message):
            flow.ops.t_odd(X, [X], None, items=[1, 2])
    finally:
        del REGISTRY.operators[record.name]


def test_a_failing_kernel_is_an_error():
    kernel = flow.triton_kernel("def f(x, y):\n    tl.store(y, tl.nothing(x))", grid="1")
    record = flow.operator("t_failing(x) -> y")(type("Failing", (), {"types": "x", "kernel": kernel}))
    try:
        with pytest.raises(KernelError, match=r"t_failing: .*nothing"):
            flow.ops.t_failing(X)
    finally:
        del REGISTRY.operators[record.name]


def test_texts_of_triton_kernels_that_are_refused():
    with pytest.raises(ValueError, match="expected Triton functions, got text with an error in line 1"):
        flow.triton_kernel("def f(", grid="1")
    with pytest.raises(ValueError, match="expected a Triton function, got none"):
        flow.triton_kernel("x = 1", grid="1")
    with pytest.raises(SignatureError, match="a kernel with a launch on a device, got a launch with decompose"):
        flow.operator("t_wrong(x) -> y")(
            type(
                "W",
                (),
                {"types": "x", "decompose": lambda ops, op: op.x, "triton": flow.triton_kernel(CAP, grid="1")},
            )
        )
