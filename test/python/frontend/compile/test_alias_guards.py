"""Alias guards: memory that is shared after the trace, gradients of updating calls, threads, and disjoint parts
of a tensor.
"""

import threading

import numpy as np
import pytest
from shared_memory import F32, OnDevice, OnHost, counted

import oneflow as flow
from oneflow.frontend.compile.specialization import Specialization
from oneflow.frontend.eager.views import ViewMeta


def rebound(on, compiled):
    """The results while `p.data` is rebound to the memory of `c`, of `d`, and of both again."""
    c, d, found = on.tensor(counted(8)), on.tensor(counted(8) + 1), []
    p = on.tensor(counted(8))

    def step(x):
        p.mul_(x)
        c.add_(1)
        return c * 1, p * 1

    step = flow.compile(step) if compiled else step
    for data in (None, c.detach(), d, c.detach(), d.detach()):
        if data is not None:
            p.data = data
        for _ in range(3):
            found += [t.tolist() for t in step(on.tensor(np.array(0.5, F32)))]
        found += [c.tolist(), d.tolist(), p.tolist()]
    return found


def test_the_alias_guard_detects_memory_that_is_shared_later():
    assert rebound(OnHost(), True) == rebound(OnHost(), False)


def test_the_fast_path_detects_memory_that_is_shared_later(cuda):
    assert rebound(OnDevice(), True) == rebound(OnDevice(), False)


def test_the_alias_guard_detects_arrays_that_overlap_later():
    def run(compiled):
        array, found = counted(16), []
        a, b = flow.from_numpy(array[:6]), flow.from_numpy(array[10:16])

        def f():
            a.add_(1)
            return b * 1

        f = flow.compile(f) if compiled else f
        for first in (10, 4, 3, 10, 0):
            b.data = flow.from_numpy(array[first : first + 6])
            found += [f().tolist() for _ in range(2)]
        return found

    assert run(True) == run(False)


def test_gradients_use_the_values_that_a_call_read():
    """A compiled function that updates its operand is called outside of the function that computes the gradient."""

    def run(compiled):
        w, c = flow.tensor(counted(6) + 1, requires_grad=True), flow.tensor(counted(6))
        v, x = c[1:4], flow.tensor(counted(3) + 1, requires_grad=True)

        def f(x):
            read = (c.clone() * w).sum()
            with flow.no_grad():
                v.add_(1)
            return read + (c.clone() * w * 2).sum() + (x * v.clone()).sum()

        f = flow.compile(f) if compiled else f
        for _ in range(2):
            f(x).backward()
        return w.grad.tolist(), x.grad.tolist(), c.tolist()

    assert run(True) == run(False)


def test_views_without_overlap_are_independent():
    flat = flow.tensor(counted(30))
    parts = [flat[at : at + 10] for at in range(0, 30, 10)]

    @flow.compile
    def f():
        for part in parts:
            part.mul_(2)

    f()
    text = f.ir()
    assert flat.tolist() == (counted(30) * 2).tolist()
    assert text.count('"oneflow.') == 3 and text.count("tensor<30xf32>") == 0


def in_threads(work):
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("take", [lambda c: c, lambda c: c[8:40], lambda c: c.T], ids=["whole", "part", "turned"])
@pytest.mark.parametrize("on", [OnHost(), OnDevice()], ids=["host", "device"])
def test_threads_update_one_after_the_other(cuda, on, take):
    """No update is lost, and every call returns the tensor as the call updated the tensor."""
    c, one, given = on.tensor(np.zeros((64, 3), F32)), on.tensor(np.array(1, F32)), []
    state = take(c)
    add = flow.compile(lambda x: state.add_(x).sum())
    add(one)

    def work():
        given.extend([float(add(one)) for _ in range(50)])

    in_threads(work)
    assert np.unique(state.tolist()).tolist() == [201] and c[40].tolist() == (
        [0] * 3 if len(state) == 32 else [201] * 3
    )
    assert sorted(given) == [state.numel() * (n + 2) for n in range(200)]


@pytest.mark.parametrize("on", [OnHost(), OnDevice()], ids=["host", "device"])
def test_threads_update_an_argument_that_is_a_view_one_after_the_other(cuda, on, monkeypatch):
    """The root of the view is read when the call runs, not while the call waits for the call of another thread."""
    c = on.tensor(np.zeros(8, F32))
    part, waits = c[2:5], threading.Barrier(2)
    step = flow.compile(lambda x: x.add_(1).sum())
    step(part)
    monkeypatch.setattr(Specialization, "exclusive", property(lambda made: Waiting(waits, made.updating.raw)))
    in_threads(lambda: step(part))
    assert c.tolist() == [0, 0, 5, 5, 5, 0, 0, 0]


@pytest.mark.parametrize("on", [OnHost(), OnDevice()], ids=["host", "device"])
def test_an_update_while_a_view_is_refreshed_takes_effect_at_the_next_read(cuda, on, monkeypatch):
    """Another thread updates the root while the view gathers the values of the root."""
    c = on.tensor(np.zeros(8, F32))
    part, gathered_view = c[2:5], ViewMeta._gathered_view

    def meanwhile(view, *given):
        fresh = gathered_view(view, *given)
        monkeypatch.undo()
        c.add_(1)
        return fresh

    c.add_(1)
    monkeypatch.setattr(ViewMeta, "_gathered_view", meanwhile)
    assert part.tolist() == [1, 1, 1] and part.tolist() == [2, 2, 2]


@pytest.mark.parametrize("on", [OnHost(), OnDevice()], ids=["host", "device"])
def test_a_read_while_another_thread_refreshes_a_view_has_the_update(cuda, on, monkeypatch):
    """The read waits for the other thread and does not return the values before the update."""
    c = on.tensor(np.zeros(8, F32))
    part, renewed, found = c[2:5], ViewMeta.refreshed, []
    reader = threading.Thread(target=lambda: found.append(part.tolist()))

    def meanwhile(view, *given):
        fresh = renewed(view, *given)
        monkeypatch.undo()
        reader.start()
        reader.join(0.3)
        return fresh

    c.add_(1)
    monkeypatch.setattr(ViewMeta, "refreshed", meanwhile)
    assert part.tolist() == [1, 1, 1]
    reader.join()
    assert found == [[1, 1, 1]]


class Waiting:
    """A lock that is taken when two threads wait for the lock."""

    def __init__(self, waits, lock):
        self.waits, self.lock = waits, lock

    def __enter__(self):
        self.waits.wait()
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()
