"""Runs of a program with the arguments of earlier runs: each difference is detected."""

import threading

import numpy as np
import pytest
from call_counts import calls_of

import oneflow as flow
from oneflow.runtime.arguments import ArgumentError
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.array import CudaArray
from oneflow.runtime.cuda.stream import Stream, using
from oneflow.runtime.executable import OutOfBoundsError
from oneflow.testing.host_cuda import host_cuda


@pytest.fixture(autouse=True)
def cuda(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with host_cuda() as made:
        yield made


def floats(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def on(array):
    return CudaArray.of(array, driver.device(0))


def softmax(x):
    return np.exp(x) / np.exp(x).sum(1, keepdims=True)


def chain(x, w, r):
    """Enough kernels for a graph; `r` is a number."""
    return flow.softmax(flow.softmax(flow.softmax(x @ w) @ w) @ w) * r


def wanted(x, w, r):
    return softmax(softmax(softmax(x @ w) @ w) @ w) * r


X, W, R = floats(4, 4), floats(4, 4, seed=6), np.float32(2.0)


class Program:
    """The program of a function after runs with the same arguments; `looked` counts runs that check all."""

    def __init__(self, function, *arguments):
        specs = [flow.TensorSpec(a.shape, a.dtype) for a in arguments]
        compiled = flow.compile(function, specs=specs, device="cuda")
        self.executable = compiled._latest().executable
        self.looked = 0
        start = self.executable._start
        self.executable._start = lambda *given: self._counted(start, *given)
        for _ in range(3):
            self(*arguments)
        assert self.looked == 2

    def _counted(self, start, *given):
        self.looked += 1
        return start(*given)

    def __call__(self, *arguments):
        return self.executable.run(list(arguments))


@pytest.fixture
def arrays():
    return on(X), on(W), np.array(R)


@pytest.fixture
def program(arrays):
    return Program(chain, *arrays)


def test_values_in_the_same_memory_are_read_again(program, arrays):
    x, w, r = arrays
    w.take(X)
    np.testing.assert_allclose(program(x, w, r)[0].numpy(), wanted(X, X, R), 1e-5)
    assert program.looked == 2


def test_new_arguments_are_read_in_place(program, arrays):
    _, w, r = arrays
    for seed in range(5):
        x = floats(4, 4, seed=seed)
        np.testing.assert_allclose(program(on(x), w, r)[0].numpy(), wanted(x, W, R), 1e-5)
    assert program.looked == 3, "the first run with another array"


def test_a_new_argument_in_reused_memory_is_detected(program, arrays):
    _, w, r = arrays
    program(on(floats(4, 4)), w, r)
    assert program.looked == 3
    np.testing.assert_allclose(program(w, w, r)[0].numpy(), wanted(W, W, R), 1e-5)
    assert program.looked == 4


def test_a_step_of_training_takes_few_calls(arrays, monkeypatch):
    w = flow.from_numpy(W).to("cuda").requires_grad_()
    optimizer = flow.optim.SGD([w], lr=0.1)

    @flow.compile
    def step(x):
        loss = chain(x, w, 2.0).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for _ in range(4):
        step(arrays[0])
    monkeypatch.setattr(driver, "launch_graph", lambda *_: None)
    assert calls_of(step, arrays[0]) <= 80


def test_an_argument_in_other_memory_is_detected(program, arrays):
    x, _, r = arrays
    for seed in range(3):
        w = floats(4, 4, seed=seed)
        np.testing.assert_allclose(program(x, on(w), r)[0].numpy(), wanted(X, w, R), 1e-5)


def test_numbers_are_compared_by_value(program, arrays):
    x, w, r = arrays
    r[...] = 3
    np.testing.assert_allclose(program(x, w, r)[0].numpy(), wanted(X, W, 3), 1e-5)
    np.testing.assert_allclose(program(x, w, np.float32(5))[0].numpy(), wanted(X, W, 5), 1e-5)
    r[...] = 2
    for _ in range(3):
        np.testing.assert_allclose(program(x, w, r)[0].numpy(), wanted(X, W, 2), 1e-5)


def test_a_failed_run_clears_the_cache(program, arrays, cuda):
    x, w, r = arrays
    with pytest.raises(ArgumentError, match="'w'"):
        program(x, on(floats(3, 3)), np.array(7, np.float32))
    held = [on(floats(4, 4)) for _ in range(3)]  # in the former memory of a number
    np.testing.assert_allclose(program(x, w, r)[0].numpy(), wanted(X, W, R), 1e-5)
    assert len(held) == 3 and program.looked == 3


def test_host_arrays_and_unaligned_arrays_are_copied_at_every_run(program, arrays):
    x, w, r = arrays
    big = on(floats(5, 4))
    off = CudaArray(big, big.address + 4, (4, 4), big.dtype, big.stream)
    for _ in range(4):
        np.testing.assert_allclose(program(off, w, r)[0].numpy(), wanted(floats(20)[1:17].reshape(4, 4), W, R), 1e-5)
        np.testing.assert_allclose(program(x, X, r)[0].numpy(), wanted(X, X, R), 1e-5)


def test_an_array_of_another_stream_is_waited_for_at_every_run(arrays, cuda):
    x, _, r = arrays
    with using(Stream(driver.device(0))) as other:
        foreign = on(W)
    program = Program(chain, x, foreign, r)
    for _ in range(3):
        cuda.stream_waits.clear()
        program(x, foreign, r)
        assert (int(other.handle), int(x.stream.handle)) in cuda.stream_waits


def test_runs_on_another_stream_wait_for_arguments(program, arrays, cuda):
    x, w, r = arrays
    with using(Stream(driver.device(0))) as other:
        for _ in range(3):
            cuda.stream_waits.clear()
            (got,) = program(x, w, r)
            assert got.stream is other and (int(x.stream.handle), int(other.handle)) in cuda.stream_waits
    assert program(x, w, r)[0].stream is x.stream


def test_cached_arguments_are_freed_with_the_last_reference(program, arrays, cuda):
    x, _, r = arrays
    w = on(W)
    for _ in range(3):
        program(x, w, r)
    before = len(cuda.live)
    del w
    assert len(cuda.live) == before - 1
    np.testing.assert_allclose(program(x, on(X), r)[0].numpy(), wanted(X, X, R), 1e-5)


def test_a_freed_workspace_is_replaced(program, arrays, cuda):
    x, w, r = arrays
    before = len(cuda.live)
    x.stream.trim()
    assert len(cuda.live) == before - 1
    np.testing.assert_allclose(program(x, w, r)[0].numpy(), wanted(X, W, R), 1e-5)
    assert len(cuda.live) == before and program.looked == 2


def test_results_that_are_held_keep_their_values(program, arrays):
    x, w, r = arrays
    held = []
    for seed in range(4):
        w.take(floats(4, 4, seed=seed))
        held += program(x, w, r)
    for seed, got in enumerate(held):
        np.testing.assert_allclose(got.numpy(), wanted(X, floats(4, 4, seed=seed), R), 1e-5)


def test_a_failure_of_the_run_before_is_raised():
    def take(table, ids):
        return chain(flow.gather(table, 0, ids), table, 2.0)

    table, ids = on(floats(4, 4)), on(np.zeros((4, 4), np.int64))
    program = Program(take, table, ids)
    ids.take(np.full((4, 4), 9))
    program(table, ids)
    with pytest.raises(OutOfBoundsError, match="9"):
        program(table, ids)
    ids.take(np.zeros((4, 4), np.int64))
    program(table, ids)
    assert program.looked == 2


def test_replays_of_threads(program, arrays):
    _, w, r = arrays
    wrong = []

    def work(seed):
        x = floats(4, 4, seed=seed)
        for _ in range(4):
            wrong.extend([] if np.allclose(program(on(x), w, r)[0].numpy(), wanted(x, W, R), 1e-4) else [seed])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
