"""Device memory of programs is released with the last reference: in any thread, during other work."""

import gc
import threading

import numpy as np
import pytest

import oneflow as flow
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.array import CudaArray
from oneflow.runtime.cuda.stream import free_cached
from oneflow.testing.host_cuda import host_cuda


@pytest.fixture
def cuda(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
        with host_cuda(devices=2) as made:
            yield made


def take(table, ids):
    """A program that checks positions, whose failures kernels write to memory of the host."""
    return flow.softmax(flow.gather(table, 0, ids))


def drop(held):
    held.clear()
    gc.collect()


def an_array(device):
    return [CudaArray.of(np.eye(4, dtype=np.float32), driver.device(device))]


def a_program(device):
    """A program that has run often enough for a graph, and the results."""
    function, table = flow.compile(take, device=f"cuda:{device}"), an_array(device)[0]
    ids = CudaArray.of(np.zeros((4, 4), np.int64), driver.device(device))
    return [function, [function(table, ids) for _ in range(4)]]


def test_release_in_a_thread_without_a_device(cuda):
    before = set(cuda.pinned)
    held = a_program(0)[:1]
    made = set(cuda.pinned) - before
    assert made and cuda.modules
    thread = threading.Thread(target=drop, args=(held,))
    thread.start()
    thread.join()
    assert made.isdisjoint(cuda.pinned) and not cuda.modules


@pytest.mark.parametrize("make", [a_program, an_array])
def test_release_during_work_of_another_device(cuda, make):
    pinned, held = set(cuda.pinned), make(1)
    before = len(cuda.live)
    driver.device(0).use()
    drop(held)
    free_cached(driver.device(1))
    assert len(cuda.live) < before and pinned.issuperset(cuda.pinned) and not cuda.modules
    assert driver.call("cuCtxGetCurrent") == driver.device(0).context
