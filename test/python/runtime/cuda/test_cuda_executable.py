"""Programs for a device, run on a driver made of host memory and Triton's interpreter; with -m gpu on a real one."""

import ctypes

import numpy as np
import pytest

import oneflow as flow
from oneflow.runtime.arguments import ArgumentError
from oneflow.runtime.cuda import driver, executable
from oneflow.runtime.cuda.array import DeviceArray, on_device
from oneflow.runtime.cuda.compiler import Binary, CompileError, parse_arch
from oneflow.runtime.executable import PositionError
from oneflow.testing.triton_interpreter import interpret_kernel, interpreting


class HostDevice:
    """The driver's functions on host memory; `live` are the blocks that were not freed."""

    arch = "sm_90"

    def __init__(self):
        self.live = {}

    def use(self):
        pass

    def allocate(self, size, stream):
        memory = np.full(max(size, 1), 0xAB, np.uint8)
        self.live[memory.ctypes.data] = memory
        return memory.ctypes.data

    def free(self, address, stream):
        del self.live[address]

    def copy(self, target, source, size, stream):
        ctypes.memmove(target, source, size)

    def fill(self, target, pattern, count, stream):
        ctypes.memmove(target, pattern * count, len(pattern) * count)


class HostKernel:
    def __init__(self, source, binary):
        self.source = source

    def launch(self, arguments, stream):
        with interpreting():
            interpret_kernel(self.source, arguments)


@pytest.fixture
def host(monkeypatch):
    host = HostDevice()
    monkeypatch.setattr(driver, "device", lambda number: host)
    monkeypatch.setattr(driver, "make_stream", lambda: 0)
    for name in ("synchronize", "wait"):
        monkeypatch.setattr(driver, name, lambda *stream: None)
    for name, function in {"allocate": host.allocate, "free": host.free, "fill": host.fill, "copy": host.copy,
                           "copy_in": host.copy, "copy_out": host.copy}.items():  # fmt: skip
        monkeypatch.setattr(driver, name, function)
    monkeypatch.setattr(DeviceArray.__del__, "__defaults__", (host.free, driver.CudaError))
    monkeypatch.setattr(executable, "_Kernel", HostKernel)
    binary = Binary("", b"", "", 0, 4, 0)
    monkeypatch.setattr(executable, "compile_all", lambda p, arch: dict.fromkeys(p.sources, binary))
    return host


def floats(*shape):
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def layer(x, w, b):
    return flow.softmax(flow.relu(x @ w + b))


def test_a_compiled_function(host):
    x, w, b = floats(6, 20), floats(20, 9), floats(9)
    got = flow.compile(layer, device="cuda")(x, w, b)
    np.testing.assert_allclose(got, flow.compile(layer)(x, w, b), 1e-5, 1e-6)


def test_nothing_but_the_program_stays_allocated(host):
    function = flow.compile(layer, device="cuda")
    x, w, b = floats(6, 20), floats(20, 9), floats(9)
    function(x, w, b)
    before = len(host.live)
    for _ in range(3):
        function(x, w, b)
    assert len(host.live) == before


def test_arrays_on_the_device_stay_there(host):
    function = flow.compile(layer, device="cuda")
    x, w, b = floats(6, 20), floats(20, 9), floats(9)
    want = function(x, w, b)
    compiled = function._current().executable
    held = DeviceArray(compiled.upload(x), x.shape, compiled.inputs[0].desc.dtype, 0)
    (got,) = compiled(held, w, b)
    assert isinstance(got, DeviceArray) and on_device(got) == got.address
    np.testing.assert_array_equal(np.asarray(got), want)


def test_arguments_are_checked(host):
    function = flow.compile(layer, device="cuda")
    x, w, b = floats(6, 20), floats(20, 9), floats(9)
    function(x, w, b)
    compiled = function._current().executable
    with pytest.raises(ArgumentError, match="expected size 6 in dimension 0"):
        compiled(x[:3], w, b)
    held = DeviceArray(compiled.upload(x[:3]), (3, 20), compiled.inputs[0].desc.dtype, 0)
    with pytest.raises(ArgumentError, match="got an array of shape"):
        compiled(held, w, b)


def test_a_position_out_of_range_is_raised_and_frees_what_was_made(host):
    function = flow.compile(lambda x, i: flow.index_select(x, 0, i), device="cuda")
    x, ids = floats(5, 4), np.array([0, 4, 2])
    np.testing.assert_array_equal(function(x, ids), x[ids])
    before = len(host.live)
    with pytest.raises(PositionError, match="got 7"):
        function(x, np.array([0, 7, 2]))
    assert len(host.live) == before


def test_the_stage_triton_is_the_plan_and_the_kernels(host):
    function = flow.compile(layer, device="cuda")
    function(floats(6, 20), floats(20, 9), floats(9))
    text = function.ir("triton")
    assert "def layer(run, in0, in1, in2):" in text and "@triton.jit" in text


@pytest.mark.parametrize("text", ["90", "sm_", "sm_x", "gfx90a"])
def test_an_architecture_has_one_form(text):
    with pytest.raises(CompileError, match="expected an architecture like sm_90"):
        parse_arch(text)


def test_a_machine_without_a_device_says_so():
    if _has_device():
        pytest.skip("there is a device here")
    with pytest.raises(driver.CudaError, match=r"expected CUDA's Python bindings|cuInit|cuDeviceGet"):
        flow.compile(layer, device="cuda")(floats(6, 20), floats(20, 9), floats(9))


def _has_device():
    try:
        return driver.device(0) is not None
    except driver.CudaError:
        return False


@pytest.mark.gpu
@pytest.mark.skipif(not _has_device(), reason="needs a CUDA device")
def test_a_compiled_function_on_a_device():
    x, w, b = floats(6, 20), floats(20, 9), floats(9)
    got = flow.compile(layer, device="cuda")(x, w, b)
    np.testing.assert_allclose(got, flow.compile(layer)(x, w, b), 1e-5, 1e-6)
