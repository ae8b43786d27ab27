"""The fastest candidate of a kernel is chosen, by a clock that the test controls."""

import copy
from dataclasses import replace

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.core.compilation import COMPILE_OPTIONS
from oneflow.lowering.options import AUTOTUNE
from oneflow.runtime.cuda import autotune, driver, kernel_cache
from oneflow.runtime.cuda.array import CudaArray
from oneflow.runtime.cuda.compiler import CompileError
from oneflow.testing.host_cuda import host_cuda
from oneflow.tools import oneflow_run


@pytest.fixture
def cuda(tmp_path):
    """A separate `monkeypatch` instance, since patches of the test are undone before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
        patch.setitem(COMPILE_OPTIONS, AUTOTUNE, "true")
        with host_cuda() as made:
            yield made


class Clock:
    """Says that the n-th candidate of each kernel that is timed is the fastest."""

    def __init__(self, fastest):
        self.fastest, self.calls = fastest, 0

    def __call__(self, call, target, stream):
        call()
        self.calls += 1
        return 1.0 if self.calls == self.fastest else 2.0


@pytest.fixture
def clock(monkeypatch):
    def start(fastest):
        made = Clock(fastest)
        monkeypatch.setattr(autotune, "microseconds", made)
        return made

    return start


def floats(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def product(x, w):
    return flow.relu(x @ w)


def test_every_call_is_timed_after_the_cache_has_been_flushed(cuda):
    """The flushed memory is larger than the L2 cache of the target."""
    device, stream = driver.device(0), driver.make_stream()
    target = replace(device.target, l2_cache_bytes=3 << 20)
    in_use, calls = device.memory()[0], []
    autotune.microseconds(lambda: calls.append(device.memory()[0] - in_use), target, stream)
    assert set(calls) == {6 << 20} and device.memory()[0] == in_use


def program_of(function):
    return function._latest().executable.program


@pytest.mark.parametrize("fastest", [1, 2, 3])
def test_the_fastest_candidate_of_a_product(cuda, clock, fastest):
    x, w = floats(70, 40), floats(40, 50)
    used, texts = clock(fastest), []
    function = flow.compile(product, device="cuda")
    for _ in range(2):
        np.testing.assert_allclose(function(x, w), np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)
        texts.append(program_of(function).text)
    assert used.calls > 2 and texts[0] == texts[1] and not program_of(function).candidates
    flow.cuda.set_autotune(False)
    plain = flow.compile(lambda x, w: product(x, w), device="cuda")
    plain(x, w)
    kernel, other = (next(iter(program_of(f).sources.values())).text.partition("):\n")[2] for f in (function, plain))
    assert (kernel == other) == (fastest == 1)


def test_rows_differ_in_warps(cuda, clock):
    x = floats(6, 3000)
    used = clock(3)
    function = flow.compile(flow.softmax, device="cuda")
    np.testing.assert_allclose(function(x).sum(-1), np.ones(6), rtol=1e-5)
    flow.cuda.set_autotune(False)
    plain = flow.compile(lambda x: flow.softmax(x), device="cuda")
    plain(x)
    warps = [next(iter(program_of(f).sources.values())).warps for f in (function, plain)]
    assert used.calls == 3 and warps[0] == 2 * warps[1]


def test_tuned_configurations_are_cached_on_disk(cuda, clock):
    x, w = floats(70, 40), floats(40, 50)
    first = clock(2)
    one = flow.compile(product, device="cuda")
    one(x, w)
    second = clock(1)
    other = flow.compile(product, device="cuda")
    np.testing.assert_allclose(other(x, w), np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)
    assert first.calls and not second.calls and program_of(one).text == program_of(other).text
    assert flow.compile(product, device="cuda")(floats(7, 40), w).shape == (7, 50) and second.calls


def test_a_candidate_that_does_not_compile_is_skipped(cuda, clock, monkeypatch):
    x, w = floats(70, 40), floats(40, 50)
    used, compiled = clock(1), vars(kernel_cache)["compile_source"]

    def refuse(source, arch):
        if source.stages != first:
            raise CompileError("too many registers")
        return compiled(source, arch)

    flow.cuda.set_autotune(False)
    plain = flow.compile(lambda x, w: product(x, w), device="cuda")
    plain(x, w)
    first = next(iter(program_of(plain).sources.values())).stages
    flow.cuda.set_autotune(True)
    monkeypatch.setattr(kernel_cache, "compile_source", refuse)
    np.testing.assert_allclose(flow.compile(product, device="cuda")(x, w), np.maximum(x @ w, 0), 1e-4, 1e-4)
    assert used.calls < 4


def test_arguments_are_not_written_to_while_kernels_are_timed(cuda, clock):
    """A parameter that is updated in place."""
    used, w = clock(2), flow.from_numpy(floats(40, 50)).to("cuda")
    x = CudaArray.of(floats(40, 70), driver.device(0))

    @flow.compile(device="cuda")
    def step(x):
        w.copy_(flow.softmax(w + 1.0))
        return w.sum()

    before = w.numpy()
    step(x)
    e = np.exp(before - before.max(-1, keepdims=True))
    np.testing.assert_allclose(w.numpy(), e / e.sum(-1, keepdims=True), rtol=1e-5)
    assert used.calls <= 3


def test_without_autotune_nothing_is_timed(cuda, clock):
    flow.cuda.set_autotune(False)
    used = clock(1)
    flow.compile(product, device="cuda")(floats(70, 40), floats(40, 50))
    assert not used.calls


def test_products_without_candidates_run_with_autotune(cuda):
    function = flow.compile(product, device="cuda")
    np.testing.assert_allclose(
        function(floats(5, 4), floats(4, 3)), np.maximum(floats(5, 4) @ floats(4, 3), 0), 1e-5, 1e-5
    )
    assert not program_of(function).candidates


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("here", [None, False, True])
def test_autotune_can_be_set_for_one_function(cuda, clock, everywhere, here):
    flow.cuda.set_autotune(everywhere)
    x, w = floats(70, 40), floats(40, 50)
    used = clock(2)
    function = flow.compile(product, device="cuda", autotune=here)
    np.testing.assert_allclose(copy.copy(function)(x, w), np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)
    assert bool(used.calls) == (everywhere if here is None else here)


@pytest.mark.parametrize("asked", [[], ["--autotune"]])
def test_a_program_is_tuned_by_command(cuda, clock, asked, tmp_path):
    flow.cuda.set_autotune(False)
    x, w = floats(70, 40), floats(40, 50)
    np.savez(tmp_path / "in.npz", x=x, w=w)
    (tmp_path / "f.mlir").write_text(str(flow.trace(product, flow.TensorSpec(x.shape), flow.TensorSpec(w.shape))))
    used, files = clock(2), (str(tmp_path / name) for name in ("f.mlir", "in.npz", "out.npz"))
    program, given, made = files
    assert oneflow_run.main([program, "--input", given, "--output", made, "--device", "cuda", *asked]) == 0
    np.testing.assert_allclose(next(iter(np.load(made).values())), np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)
    assert bool(used.calls) == bool(asked)
