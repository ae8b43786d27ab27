"""Programs for a device, on a driver made of host memory whose kernels Triton's interpreter runs."""

import gc
import linecache
import sys
import threading
import types
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from call_counts import recorded

import oneflow as flow
from oneflow.dialect import dtypes
from oneflow.dialect.external import as_array, python_kernel
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.targets.selection import gpu_target_named, using_gpu
from oneflow.lowering.triton.codegen.prelude import preamble
from oneflow.lowering.triton.source import Parameter, Source
from oneflow.lowering.triton.symbolic_sizes import TileCount
from oneflow.runtime import dlpack
from oneflow.runtime.arguments import ArgumentError
from oneflow.runtime.cuda import compiler, driver, executable, launches, steps
from oneflow.runtime.cuda import stream as streams
from oneflow.runtime.cuda.array import CudaArray, from_other, is_on_device
from oneflow.runtime.cuda.compiler import CompileError, compile_source, parse_arch
from oneflow.runtime.cuda.graph import kernel_node_params
from oneflow.runtime.cuda.launches import LaunchConfig
from oneflow.runtime.cuda.stream import (
    ResultPool,
    Stream,
    cached_bytes,
    clear_result_pools,
    current,
    free_cached,
    using,
)
from oneflow.runtime.executable import KernelError, OutOfBoundsError
from oneflow.testing.host_cuda import host_cuda, in_c


@pytest.fixture
def cuda(tmp_path):
    """A separate `monkeypatch` instance, since patches of the test are undone before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
        with host_cuda() as made:
            yield made


def floats(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def layer(x, w, b):
    return flow.softmax(flow.relu(x @ w + b))


def chain(x, w):
    """Enough kernels that a graph pays, two of which do not wait for each other."""
    a, b = flow.softmax(x @ w), flow.softmax(x @ (w * 2.0))
    return flow.softmax((a + b) @ w), a.sum(0)


def softmax(x):
    return np.exp(x) / np.exp(x).sum(1, keepdims=True)


def executable_of(function, *arrays):
    function(*arrays)
    return function._latest().executable


def on(array):
    return CudaArray.of(array, driver.device(0))


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "int64", "float64"])
def test_a_broadcast_host_array_copies_one_element(dtype, cuda, monkeypatch):
    monkeypatch.setattr(driver, "copy_to_device", None)
    array = np.broadcast_to(np.array(3, dtype), (5, 7))
    np.testing.assert_array_equal(on(array).numpy(), array)


def test_a_compiled_function(cuda):
    x, w, b = floats(6, 20), floats(20, 9), floats(9)
    got = flow.compile(layer, device="cuda")(x, w, b)
    np.testing.assert_allclose(got, flow.compile(layer)(x, w, b), 1e-5, 1e-6)


def test_a_run_leaves_no_allocations(cuda):
    function = flow.compile(chain, device="cuda")
    for _ in range(2):
        function(floats(6, 9), floats(9, 9))
    before = len(cuda.live)
    for _ in range(3):
        function(floats(6, 9), floats(9, 9))
    assert len(cuda.live) == before
    clear_result_pools(driver.device(0))
    assert len(cuda.live) < before


def test_a_training_step_is_one_graph_launch(cuda):
    x, w = on(floats(6, 9)), on(floats(9, 9))
    function, want = flow.compile(chain, device="cuda"), flow.compile(chain)(x.numpy(), w.numpy())
    for _ in range(4):
        results = function(x, w)
    addresses = set()
    for _ in range(4):
        cuda.log.clear()
        results = function(x, w)
        addresses.add(results[0].address)
        assert cuda.log == ["graph"] and len(addresses) <= 2
    for one, other in zip(results, want, strict=True):
        np.testing.assert_allclose(one.numpy(), other, 1e-4, 1e-5)


def test_live_results_are_not_overwritten(cuda):
    function, want = flow.compile(chain, device="cuda"), flow.compile(chain)
    given = [(floats(6, 9, seed=i), floats(9, 9, seed=i)) for i in range(6)]
    kept = [function(on(x), on(w)) for x, w in given]
    for got, (x, w) in zip(kept, given, strict=True):
        for one, other in zip(got, want(x, w), strict=True):
            np.testing.assert_allclose(one.numpy(), other, 1e-4, 1e-5)


def test_result_pools_are_freed_when_memory_runs_out(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with host_cuda(limit=1 << 14) as cuda:
        function = flow.compile(chain, device="cuda")
        for _ in range(3):
            function(floats(6, 9), floats(9, 9))
        used = sum(b.size for b in cuda.live.values())
        clear = sum(len(s.addresses) for s in ResultPool.known if s.stream.device is driver.device(0))
        assert clear
        array = on(np.zeros((1 << 14) - used + 1, np.uint8))
        assert not sum(len(s.addresses) for s in ResultPool.known if s.stream.device is array.device)


def test_arrays_on_the_device_are_not_copied_and_results_stay_there(cuda):
    x, w, b = floats(6, 20), floats(20, 9), floats(9)
    compiled = executable_of(flow.compile(layer, device="cuda"), x, w, b)
    given = [on(a) for a in (x, w, b)]
    free_cached(driver.device(0))
    before = len(cuda.live)
    (got,) = compiled(*given)
    assert isinstance(got, CudaArray) and is_on_device(got) and len(cuda.live) == before + 1
    np.testing.assert_allclose(got.numpy(), flow.compile(layer)(x, w, b), 1e-5, 1e-6)


def test_a_stream_caches_the_memory_of_results(cuda):
    x, w, b = on(floats(6, 20)), on(floats(20, 9)), on(floats(9))
    compiled = executable_of(flow.compile(layer, device="cuda"), x, w, b)
    addresses, live = set(), set()
    for _ in range(3):
        (got,) = compiled(x, w, b)
        addresses.add(got.address)
        live.add(len(cuda.live))
        del got
    assert len(addresses) == len(live) == 1 and cached_bytes(driver.device(0)) == 4 * 6 * 9
    one, two = (compiled(x, w, b)[0] for _ in range(2))
    assert one.address in addresses and two.address not in addresses and not cached_bytes(driver.device(0))
    del one, two
    free_cached(driver.device(0))
    assert len(cuda.live) == live.pop() - 1


@pytest.mark.parametrize(("limit", "held"), [(500, 432), (300, 216), (100, 0)])
def test_the_cache_of_a_stream_is_limited(cuda, limit, held):
    """A result that exceeds the limit evicts other blocks."""
    current(driver.device(0)).max_cached_bytes = limit
    x, w, b = on(floats(6, 20)), on(floats(20, 9)), on(floats(9))
    compiled = executable_of(flow.compile(layer, device="cuda"), x, w, b)
    free_cached(driver.device(0))
    before = len(cuda.live)
    results = [compiled(x, w, b) for _ in range(2)]
    results.clear()
    assert cached_bytes(driver.device(0)) == held and len(cuda.live) == before + held // 216


def test_the_oldest_cached_block_is_freed_first(cuda):
    """Memory that is used and released again is a recent entry."""
    stream = current(driver.device(0))
    stream.max_cached_bytes = 350
    free_cached(driver.device(0))
    first, second, third = ((stream.allocate(size), size) for size in (100, 120, 140))
    stream.cache(*first)
    assert stream.take_cached(100) == first[0] and stream.take_cached(100) is None
    for address, size in (second, first, third):
        stream.cache(address, size)
    assert (stream.cached_bytes(), second[0] in cuda.live) == (240, False)
    assert [stream.take_cached(size) for _, size in (first, second, third)] == [first[0], None, third[0]]
    for address, _ in (first, third):
        driver.free(address, stream.handle)


def test_a_dropped_stream_frees_its_workspace(cuda):
    before, stream = len(cuda.live), Stream(driver.device(0))
    stream.workspace(800)
    with stream.lock:
        assert len(cuda.live) == before + 1
    del stream
    gc.collect()
    assert len(cuda.live) == before


def test_the_cache_of_streams_is_emptied(cuda):
    stream = Stream(driver.device(0))
    stream.workspace(800)
    before = len(cuda.live)
    flow.cuda.empty_cache()
    assert len(cuda.live) < before and stream.workspace(800)


def test_cached_memory_is_not_counted_as_allocated(cuda):
    function = flow.compile(chain, device="cuda")

    def run():
        return [r.numpy() for r in function(on(floats(6, 9)), on(floats(9, 9)))]

    used = {flow.cuda.memory_allocated() for _ in range(4) if run()}
    assert len(used) == 1 and any(s.addresses for s in ResultPool.known if s.stream.device is driver.device(0))


def test_an_allocation_waits_for_frees_on_other_streams(tmp_path, monkeypatch):
    """The memory of arrays and of the workspace."""
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with host_cuda(limit=1 << 10):
        device = driver.device(0)
        for take in (lambda stream: stream.allocate(800), lambda stream: stream.workspace(800)):
            other = Stream(device)
            other.cache(other.allocate(800), 800)
            stream = Stream(device)
            address = take(stream)
            assert address and not other.cached_bytes()
            driver.free(address, stream.handle)


def test_the_second_run_is_a_graph(cuda):
    function, want = flow.compile(chain, device="cuda"), flow.compile(chain)
    for run in range(4):
        x, w = floats(6, 9, seed=run), floats(9, 9, seed=run + 9)
        cuda.log.clear()
        for got, other in zip(function(x, w), want(x, w), strict=True):
            np.testing.assert_allclose(got, other, 1e-4, 1e-5)
        assert cuda.log.count("graph") == (run > 0) and ("launch" in cuda.log) == (run == 0)


@pytest.fixture
def negate(cuda):
    """`t_negate`, whose kernel for devices was made elsewhere."""
    f32 = TensorDesc((6, 9), dtypes.float32)

    def run(buffers, stream):
        cuda.log.append("elsewhere")
        np.negative(as_array(buffers[0], f32), out=as_array(buffers[1], f32))

    @flow.operator("t_negate(x) -> y")
    class Negate:
        types = "x"
        kernel = flow.numpy_kernel(np.negative)

    known = REGISTRY.operators
    known["t_negate"] = replace(known["t_negate"], device_kernel=lambda call: python_kernel(run, on_device=True))
    yield flow.ops.t_negate
    del known["t_negate"]


def test_external_kernels_split_a_graph(cuda, negate):
    def layers(x, w):
        a, b = negate(flow.softmax(x @ w)), flow.softmax(x @ (w * 2.0))
        return negate((a + b) @ w), flow.softmax(a.sum(0))

    w = floats(9, 9)
    compiled = executable_of(flow.compile(layers, device="cuda"), floats(6, 9), w)
    kept = []
    for run in range(5):
        cuda.log.clear()
        kept.append(compiled(on(floats(6, 9, seed=run // 2)), on(w)))
        parts = [n for n in cuda.log if n in ("elsewhere", "graph", "launch")]
        assert parts == ["graph", "elsewhere", "graph", "elsewhere", "graph"]
    for run, got in enumerate(kept):
        x = floats(6, 9, seed=run // 2)
        a, b = softmax(x @ w), softmax(x @ (w * 2))
        np.testing.assert_allclose(got[0].numpy(), -(b - a) @ w, 1e-4, 1e-5)
        np.testing.assert_allclose(got[1].numpy(), softmax(-a.sum(0, keepdims=True))[0], 1e-4, 1e-5)


def test_a_graph_is_updated_for_moved_memory(cuda):
    x, w = floats(6, 9), floats(9, 9)
    compiled = executable_of(flow.compile(chain, device="cuda"), x, w)
    first, weights = on(x), on(w)
    kept = [compiled(first, weights) for _ in range(2)]
    cuda.log.clear()
    other = on(floats(6, 9, seed=8))
    got = compiled(other, weights)
    assert cuda.log.count("graph") == 1 and 0 < cuda.log.count("change") < 8
    for one, want in zip(got, flow.compile(chain)(other.numpy(), w), strict=True):
        np.testing.assert_allclose(one.numpy(), want, 1e-4, 1e-5)
    for one, want in zip(kept[0], flow.compile(chain)(x, w), strict=True):
        np.testing.assert_allclose(one.numpy(), want, 1e-4, 1e-5)


def test_two_alternating_sets_of_addresses_have_a_graph_each(cuda):
    function, want, w = flow.compile(chain, device="cuda"), flow.compile(chain), on(floats(9, 9))
    given = [on(floats(6, 9, seed=seed)) for seed in range(3)]
    for x in (*given, *given[:2] * 4):
        cuda.log.append("run")
        got = [r.numpy() for r in function(x, w)]
        for one, other in zip(got, want(x.numpy(), w.numpy()), strict=True):
            np.testing.assert_allclose(one, other, 1e-4, 1e-5)
    assert cuda.log[-8:] == ["run", "graph"] * 4


@pytest.mark.parametrize("failing", range(2))
def test_a_graph_after_a_failed_update_is_not_used(cuda, monkeypatch, failing):
    function, want, w = flow.compile(chain, device="cuda"), flow.compile(chain), on(floats(9, 9))
    given = [on(floats(6, 9, seed=seed)) for seed in range(4)]
    kept = [function(x, w) for x in given[:3]]
    change, numbers = driver.update_launch, iter(range(failing))

    def change_some(*given):
        if next(numbers, None) is None:
            raise driver.CudaError("no more")
        change(*given)

    with monkeypatch.context() as patch, pytest.raises(driver.CudaError, match="no more"):
        patch.setattr(driver, "update_launch", change_some)
        function(given[3], w)
    del kept
    for x in given * 2:
        for got, other in zip(function(x, w), want(x.numpy(), w.numpy()), strict=True):
            np.testing.assert_allclose(got.numpy(), other, 1e-4, 1e-5)


def test_launches_after_a_failed_update_are_resolved_again(cuda, monkeypatch):
    monkeypatch.setenv(executable.USE_GRAPHS, "0")
    function, want, w = flow.compile(chain, device="cuda"), flow.compile(chain), on(floats(9, 9))
    one, other = on(floats(6, 9)), on(floats(6, 9, seed=8))
    held = function(one, w)
    fill, numbers = steps.LaunchStep.resolve, iter(range(1))

    def fill_some(step, bases):
        if next(numbers, None) is None:
            raise driver.CudaError("no more")
        fill(step, bases)

    with monkeypatch.context() as patch, pytest.raises(driver.CudaError, match="no more"):
        patch.setattr(steps.LaunchStep, "resolve", fill_some)
        function(other, w)
    del held
    for got, result in zip(function(one, w), want(one.numpy(), w.numpy()), strict=True):
        np.testing.assert_allclose(got.numpy(), result, 1e-4, 1e-5)


def test_node_parameters_are_created_once(cuda, monkeypatch):
    made, w = list[Any](), on(floats(9, 9))
    monkeypatch.setattr(steps, "kernel_node_params", recorded(kernel_node_params, made))
    function, want = flow.compile(chain, device="cuda"), flow.compile(chain)
    given = [on(floats(6, 9, seed=seed)) for seed in range(5)]
    for x in given * 2:
        for got, other in zip(function(x, w), want(x.numpy(), w.numpy()), strict=True):
            np.testing.assert_allclose(got.numpy(), other, 1e-4, 1e-5)
    assert cuda.log.count("change") > len(made) == len(set(made)) > 3


def test_graphs_can_be_switched_off(cuda, monkeypatch):
    monkeypatch.setenv(executable.USE_GRAPHS, "0")
    function, want = flow.compile(chain, device="cuda"), flow.compile(chain)
    filled, real = list[Any](), steps.LaunchStep.resolve
    monkeypatch.setattr(steps.LaunchStep, "resolve", recorded(real, filled, lambda step, bases: step))
    first, second, w = on(floats(6, 9)), on(floats(6, 9, seed=8)), on(floats(9, 9))
    counts = []
    for x in (first, first, second, first):
        for got, other in zip(function(x, w), want(x.numpy(), w.numpy()), strict=True):
            np.testing.assert_allclose(got.numpy(), other, 1e-4, 1e-5)
        counts.append(len(filled))
    assert "graph" not in cuda.log and counts[0] < counts[2] < counts[3]
    for _ in range(5):
        function(first, w)
        counts.append(len(filled))
    assert counts[-1] < counts[3] + 5 * counts[0], "memory of results comes again"


def test_single_launches_go_to_the_current_stream(cuda, monkeypatch):
    monkeypatch.setenv(executable.USE_GRAPHS, "0")
    seen = []

    def launch(config, *given):
        seen.append(LaunchConfig.from_address(config).stream)
        return cuda.launch(config, *given)

    monkeypatch.setattr(cuda, "cuLaunchKernelEx", in_c(launch))
    function, x, w = flow.compile(chain, device="cuda"), on(floats(6, 9)), on(floats(9, 9))
    own, other = current(driver.device(0)), Stream(driver.device(0))
    for stream in (own, other, other, own):
        seen.clear()
        with using(stream):
            function(x, w)
        assert len(seen) > 3 and set(seen) == {int(stream.handle)}


def test_a_refused_launch_is_an_error_and_the_last(cuda, monkeypatch):
    given = []

    def launch(config, function, *rest):
        given.append(cuda.modules[function].name)
        return 0 if len(given) < 3 else 701

    monkeypatch.setattr(cuda, "cuLaunchKernelEx", in_c(launch))
    with pytest.raises(driver.CudaError, match="701") as caught:
        flow.compile(chain, device="cuda")(floats(6, 9), floats(9, 9))
    assert len(given) == 3 and f"cuLaunchKernelEx of {given[-1]}: 701" in str(caught.value)


def test_an_exception_of_a_host_kernel_passes_the_native_library(cuda, monkeypatch):
    monkeypatch.setattr(cuda, "_run", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        flow.compile(chain, device="cuda")(floats(6, 9), floats(9, 9))


def test_only_steps_with_moved_memory_are_resolved_again(cuda, monkeypatch):
    monkeypatch.setenv(executable.USE_GRAPHS, "0")
    filled, real = list[Any](), steps.LaunchStep.resolve
    monkeypatch.setattr(steps.LaunchStep, "resolve", recorded(real, filled, lambda step, bases: step))
    wanted = flow.compile(chain)
    total, w = (flow.tensor(floats(*sizes)).to("cuda") for sizes in ((6, 9), (9, 9)))

    @flow.compile
    def add(x):
        total.add_(chain(x, w)[0])

    cuda.log.clear()
    held = [on(floats(6, 9))]
    add(held[0])
    assert len(filled) == cuda.log.count("launch") > 4
    for seed in range(4):
        filled.clear()
        before = total.cpu().numpy()
        held.append(on(floats(6, 9, seed=seed)))
        add(held[-1])
        assert 0 < len(filled) < 4, "the first ones, which take the argument that has moved"
        added = wanted(held[-1].numpy(), w.cpu().numpy())[0]
        np.testing.assert_allclose(total.cpu().numpy(), before + added, 1e-4, 1e-5)


def test_consecutive_launches_are_one_batch(cuda, monkeypatch):
    monkeypatch.setenv(executable.USE_GRAPHS, "0")
    rows, real = list[Any](), launches.LaunchBatch.launch
    monkeypatch.setattr(launches.LaunchBatch, "launch", recorded(real, rows))
    function, x, w = flow.compile(chain, device="cuda"), on(floats(6, 9)), on(floats(9, 9))
    function(x, w)
    assert cuda.log.count("launch") > len(rows) > 0


def test_dynamic_sizes_have_a_script_each(cuda):
    spec = [flow.TensorSpec((None, 9), flow.float32), flow.TensorSpec((9, 9), flow.float32)]
    function, w = flow.compile(chain, specs=spec, device="cuda"), floats(9, 9)
    for rows in (3, 7, 3, 7, 3):
        x = floats(rows, 9)
        for got, want in zip(function(x, w), flow.compile(chain)(x, w), strict=True):
            np.testing.assert_allclose(got, want, 1e-4, 1e-5)


def test_programs_on_one_stream_share_a_workspace(cuda):
    x, w = floats(6, 9), floats(9, 9)
    one = executable_of(flow.compile(chain, device="cuda"), x, w)
    before = sum(b.size for b in cuda.live.values())
    executable_of(flow.compile(lambda x, w: chain(x, w)[0] * 2.0, device="cuda"), x, w)
    assert one.peak_bytes > 0 and sum(b.size for b in cuda.live.values()) == before


@pytest.mark.parametrize(
    ("argument", "match"),
    [
        (floats(3, 20), "expected size 6 in dimension 0"),
        (lambda: on(floats(3, 20)), "got an array of shape"),
        (lambda: on(floats(6, 20).astype(np.float64)), "expected dtype float32, got float64"),
    ],
)
def test_arguments_are_checked(cuda, argument, match):
    x, w, b = floats(6, 20), floats(20, 9), floats(9)
    compiled = executable_of(flow.compile(layer, device="cuda"), x, w, b)
    with pytest.raises(ArgumentError, match=match):
        compiled(argument() if callable(argument) else argument, w, b)


def test_an_array_on_another_device_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    x, w, b = floats(6, 20), floats(20, 9), floats(9)
    with host_cuda(devices=2):
        compiled = executable_of(flow.compile(layer, device="cuda"), x, w, b)
        with pytest.raises(ArgumentError, match="'w': expected an array on cuda:0, got one on cuda:1"):
            compiled(x, CudaArray.of(w, driver.device(1)), b)


def test_a_position_out_of_range_is_raised_and_frees_what_was_made(cuda):
    function = flow.compile(lambda x, i: flow.index_select(x, 0, i), device="cuda")
    x, ids = floats(5, 4), np.array([0, 4, 2])
    np.testing.assert_array_equal(function(x, ids), x[ids])
    before = len(cuda.live)
    with pytest.raises(OutOfBoundsError, match="got 7"):
        function(x, np.array([0, 7, 2]))
    assert len(cuda.live) == before
    np.testing.assert_array_equal(function(x, ids), x[ids])


def test_a_failed_check_is_raised_by_the_next_use(cuda):
    x, ids = floats(5, 4), np.array([0, 4, 2])
    compiled = executable_of(flow.compile(lambda x, i: flow.index_select(x, 0, i), device="cuda"), x, ids)
    (bad,) = compiled(on(x), np.array([0, 7, 2]))
    with pytest.raises(OutOfBoundsError, match="got 7"):
        bad.numpy()
    compiled(on(x), np.array([0, 8, 2]))
    with pytest.raises(OutOfBoundsError, match="got 8"):
        compiled(on(x), ids)
    np.testing.assert_array_equal(compiled(on(x), ids)[0].numpy(), x[ids])


def test_another_stream_waits_for_the_values(cuda):
    x, w, b = floats(6, 20), floats(20, 9), floats(9)
    compiled = executable_of(flow.compile(layer, device="cuda"), x, w, b)
    held, usual = on(x), current(driver.device(0))
    with using(Stream(driver.device(0))) as other:
        (got,) = compiled(held, w, b)
    assert (usual.handle, other.handle) in cuda.stream_waits and got.stream is other
    cuda.stream_waits.clear()
    held.__dlpack__(stream=77)
    assert cuda.stream_waits == [(usual.handle, 77)]
    del held
    assert (other.handle, usual.handle) in cuda.stream_waits


def test_concurrent_device_programs_of_threads(cuda):
    function, x, w = flow.compile(chain, device="cuda"), floats(6, 9), floats(9, 9)
    want, found = function(x, w), []
    threads = [threading.Thread(target=lambda: found.append(function(x, w))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for got in found:
        np.testing.assert_array_equal(got[0], want[0])


def test_out_of_memory_names_the_bytes(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with host_cuda(limit=10_000), pytest.raises(MemoryError, match=r"expected 40000 bytes.* of 10000 bytes are free"):
        flow.compile(layer, device="cuda")(floats(500, 20), floats(20, 9), floats(9))


class Foreign:
    """An array of another library on the device."""

    def __init__(self, array, **changes):
        self.held, self.changes = on(array), changes

    @property
    def __cuda_array_interface__(self):
        return {**self.held.__cuda_array_interface__, **self.changes}


class ForeignDLPack:
    def __init__(self, array):
        self.held, self.streams = on(array), []

    def __dlpack_device__(self):
        return self.held.__dlpack_device__()

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.held.__dlpack__(stream=stream)


def test_arrays_of_other_libraries_are_not_copied(cuda):
    x, w, b = floats(6, 20), floats(20, 9), floats(9)
    function, foreign = flow.compile(layer, device="cuda"), ForeignDLPack(x)
    got = function(foreign, Foreign(w, stream=55), b)
    assert isinstance(got, CudaArray)
    np.testing.assert_allclose(np.asarray(got), flow.compile(layer)(x, w, b), 1e-5, 1e-6)
    stream = current(driver.device(0)).handle
    assert foreign.streams == [stream] and (55, stream) in cuda.stream_waits
    assert from_other(foreign).address == foreign.held.address


@pytest.mark.parametrize("made", [ForeignDLPack, Foreign])
@pytest.mark.parametrize(
    "last", [flow.cuda.synchronize, streams.release_all_borrowed, lambda: from_other(Foreign(floats(2)))]
)
def test_borrowed_memory_is_released_after_use(cuda, made, last):
    """The owner of a released array may write to the array at once."""
    function, stream = flow.compile(lambda x: x * 2.0, device="cuda"), current(driver.device(0))
    cuda.is_busy, foreign = True, made(floats(4, 3))
    held, got = weakref.ref(foreign.held), function(foreign)
    del foreign
    stream.release_completed()
    gc.collect()
    assert held() is not None
    cuda.is_busy = False
    last()
    assert held() is None and not stream.has_borrowed and np.asarray(got).shape == (4, 3)


def test_a_capsule_keeps_memory_until_it_is_deleted(cuda):
    array = on(floats(4, 3))
    capsule = array.__dlpack__(stream=-1)
    before = len(cuda.live)
    del array
    assert len(cuda.live) == before
    del capsule
    assert len(cuda.live) == before - 1


class Strided(ForeignDLPack):
    """A view of an array of another library, by a capsule with strides."""

    def __init__(self, view, base):
        super().__init__(base)
        self.view, self.base = view, base

    def __dlpack__(self, stream=None):
        at = self.view.__array_interface__["data"][0] - self.base.__array_interface__["data"][0]
        capsule = dlpack.export(
            self, self.held.address + at, self.view.shape, self.held.dtype, self.__dlpack_device__()
        )
        *_, strides, _ = dlpack._exported[max(dlpack._exported)]
        strides[:] = [s // self.view.itemsize for s in self.view.strides]
        return capsule


#: Views of an array of 6 x 8.
VIEWS = {
    "transposed": lambda x: x.T, "in steps": lambda x: x[:, ::2], "a part": lambda x: x[1:, 3:7],
    "repeated": lambda x: np.broadcast_to(x[:1], (5, 8)), "of three axes": lambda x: x.reshape(3, 2, 8)[..., 1:5].T,
    "backwards": lambda x: x[::-1, ::-3], "empty": lambda x: x[:0, ::2],
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("library", ["interface", "capsule"])
def test_strided_arrays_are_copied(cuda, name, library):
    base = floats(6, 8)
    view = VIEWS[name](base)
    at = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    given: Any = Strided(view, base)
    if library == "interface":
        given = Foreign(base)
        given.changes = {"data": (given.held.address + at, False), "shape": view.shape, "strides": view.strides}
    got = flow.compile(lambda x: x * 2.0, device="cuda")(given)
    np.testing.assert_array_equal(np.asarray(got), view * 2.0)


def pytorch(**functions):
    """PyTorch with these functions of `torch.cuda`."""
    return types.SimpleNamespace(cuda=types.SimpleNamespace(**functions))


def test_arrays_are_taken_where_pytorch_is_built_without_cuda(cuda, monkeypatch):
    def refuse():
        raise RuntimeError("Tried to instantiate dummy base class _cuda_isCurrentStreamCapturing")

    torch = pytorch(is_initialized=lambda: False, is_current_stream_capturing=refuse)
    monkeypatch.setitem(sys.modules, "torch", torch)
    got = flow.compile(lambda x: x * 2.0, device="cuda")(ForeignDLPack(floats(4, 3)))
    np.testing.assert_array_equal(np.asarray(got), floats(4, 3) * 2.0)


def test_arrays_are_refused_while_pytorch_captures_a_graph(cuda, monkeypatch):
    """The error comes before any driver call, so that the capture can end regularly."""
    torch = pytorch(is_initialized=lambda: True, is_current_stream_capturing=lambda: True)
    function, given = flow.compile(lambda x: x * 2.0, device="cuda"), ForeignDLPack(floats(4, 3))
    np.testing.assert_array_equal(np.asarray(function(given)), floats(4, 3) * 2.0)
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(flow.CallError, match="argument x: expected no capture of a CUDA graph by PyTorch"):
        function(ForeignDLPack(floats(4, 3)))
    assert len(given.streams) == 1


def test_sources_of_kernels_are_dropped_after_compilation():
    before = set(linecache.cache)
    assert compile_source(compiler.FIRST).cubin
    assert not [name for name in linecache.cache if name.startswith("<") and name not in before]


def test_kernels_name_their_source_locations(cuda):
    """Programs that differ in locations share cached kernels, and each text has its own locations."""
    first = lambda x, w: flow.gelu(x @ w)  # noqa: E731
    second = lambda x, w: flow.gelu(x @ w)  # noqa: E731
    for written in (first, second):
        function, line = flow.compile(written, device="cuda"), written.__code__.co_firstlineno
        function(floats(4, 8), floats(8, 2))
        for op in ("matmul", "gelu"):
            assert f"# oneflow.{op} ({__file__}:{line})\n" in function.ir("triton")


def test_a_cached_program_needs_neither_passes_nor_triton(cuda, monkeypatch):
    x, w, b = floats(6, 20), floats(20, 9), floats(9)
    want = flow.compile(layer, device="cuda")(x, w, b)

    def refuse(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr("oneflow.runtime.cuda.kernel_cache.compile_source", refuse)
    monkeypatch.setattr("oneflow.runtime.cuda.executable.read_program", refuse)
    np.testing.assert_array_equal(flow.compile(layer, device="cuda")(x, w, b), want)


@flow.operator("tc_row_max(x) -> y")
class RowMax:
    """The largest element of each row, by NumPy."""

    types = lambda op: flow.TensorDesc(op.x.shape[:-1], op.x.dtype)  # noqa: E731
    kernel = flow.numpy_kernel(lambda x: x.max(axis=-1))


@flow.operator("tc_fails(x) -> y")
class Fails:
    """An error."""

    types = "x"
    kernel = flow.numpy_kernel(lambda x: 1 / 0)


def test_a_kernel_for_the_host_is_called_on_copies(cuda):
    function, x = flow.compile(lambda x: flow.ops.tc_row_max(x * 2.0) + 1.0, device="cuda"), floats(4, 5)
    for _ in range(2):
        np.testing.assert_allclose(function(x), (x * 2).max(1) + 1, 1e-6)
    before = len(cuda.live)
    with pytest.raises(KernelError, match=r"oneflow.tc_fails: .*division by zero"):
        flow.compile(lambda x: flow.ops.tc_fails(x * 2.0), device="cuda")(x)
    assert len(cuda.live) == before


def test_the_memory_of_a_program(cuda):
    x, w = floats(6, 9), floats(9, 9)
    memory = executable_of(flow.compile(chain, device="cuda"), x, w).memory
    assert memory.arguments == 4 * (54 + 81) and memory.results == 4 * (54 + 9) and memory.workspace > 0


def test_the_stage_triton_is_the_plan_and_the_kernels(cuda):
    function = flow.compile(layer, device="cuda")
    function(floats(6, 20), floats(20, 9), floats(9))
    text = function.ir("triton")
    assert "def layer(run, in0, in1, in2):" in text and "@triton.jit" in text


@pytest.mark.parametrize("text", ["90", "sm_", "sm_x", "gfx90a"])
def test_malformed_architectures_are_refused(text):
    with pytest.raises(CompileError, match="expected an architecture like sm_90"):
        parse_arch(text)


def test_errors_without_a_device_name_what_is_missing():
    if _has_device():
        pytest.skip("there is a device here")
    with pytest.raises(driver.CudaError, match=r"expected an NVIDIA GPU, its driver, and CUDA's|expected a CUDA d"):
        flow.compile(layer, device="cuda")(floats(6, 20), floats(20, 9), floats(9))


def test_missing_devices_are_refused():
    with host_cuda(devices=0), pytest.raises(driver.CudaError, match="cuda:0, the machine has none"):
        driver.device(0)


def _has_device():
    try:
        return driver.device(0) is not None
    except driver.CudaError:
        return False


DEEP = """\
rows, columns = tl.arange(0, 128)[:, None], tl.arange(0, 128)[None, :]
within = tl.arange(0, 64)
total = tl.zeros((128, 128), tl.float32)
for k in range(0, 4096, 64):
    x = tl.load(a + rows * 4096 + k + within[None, :])
    y = tl.load(b + (k + within[:, None]) * 128 + columns)
    total = tl.dot(x, y, total)
tl.store(out + rows * 128 + columns, total)
"""


def test_stages_are_limited_by_shared_memory():
    parameters = tuple(Parameter(n, kind) for n, kind in (("a", "*fp16"), ("b", "*fp16"), ("out", "*fp32")))
    source = Source("deep", parameters, TileCount.of(1), tuple(DEEP.splitlines()), 8, 9, preamble=preamble(()))
    many, few = compile_source(source), compile_source(source, "sm_80")
    assert 150_000 < few.shared <= 166_912 < many.shared <= 232_448
    small = replace(gpu_target_named("sm_90"), block_shared_bytes=1000)
    expected = r"kernel deep: expected at most 1000 bytes of shared memory on sm_90"
    with using_gpu(small), pytest.raises(CompileError, match=expected):
        compile_source(replace(source, stages=2))
