"""The cache of eager kernels: its bound, which kernels it drops, and the memory that a kernel holds."""

import gc
import threading
import weakref
from types import SimpleNamespace

import numpy as np

import oneflow as flow
from oneflow.frontend.eager.kernel_cache import PROGRAM_BYTES, KernelCache
from oneflow.frontend.eager.tensor import BUILDER
from oneflow.runtime.distributed import DistributedExecutable
from oneflow.runtime.executable import CpuExecutable


def kernel(num_programs=1):
    return SimpleNamespace(num_programs=num_programs)


def test_the_least_recently_used_kernels_are_dropped():
    cache = KernelCache(limit_bytes=8 * PROGRAM_BYTES)
    used = cache.add("used", kernel())
    for key in range(100):
        cache.add(key, kernel())
        assert cache.find("used") is used
        assert len(cache.items()) <= 8
    assert [cache.find(key) is not None for key in (0, 50, 98, 99)] == [False, False, True, True]


def test_the_size_of_a_kernel_includes_all_ranks():
    cache = KernelCache(limit_bytes=8 * PROGRAM_BYTES)
    for key in range(10):
        cache.add(key, kernel(num_programs=4))
    assert [key for key, _ in cache.items()] == [8, 9]
    cache.keep(lambda key: key != 9)
    assert [key for key, _ in cache.items()] == [8]


def test_a_kernel_that_is_added_again_counts_once():
    cache = KernelCache(limit_bytes=4 * PROGRAM_BYTES)
    other = cache.add("other", kernel())
    for _ in range(10):
        last = cache.add("key", kernel())
    assert dict(cache.items()) == {"other": other, "key": last}


def test_a_kernel_that_another_thread_adds_while_kernels_are_dropped_stays():
    cache = KernelCache()
    for key in range(3):
        cache.add(key, kernel())
    adding = threading.Thread(target=lambda: cache.add("added", kernel()))

    def is_kept(key):
        if key == 1:
            adding.start()
            adding.join(0.2)
        return key != 0

    cache.keep(is_kept)
    adding.join()
    assert [key for key, _ in cache.items()] == [1, 2, "added"]


def test_a_dropped_kernel_is_unloaded():
    cache, BUILDER.kernels = BUILDER.kernels, KernelCache(limit_bytes=2 * PROGRAM_BYTES)
    try:
        x = flow.tensor(np.ones((3, 11), np.float32))
        x * x
        ((_, first),) = BUILDER.kernels.items()
        assert isinstance(first.executable, CpuExecutable)
        code = weakref.ref(first.executable._code.owner)
        del first
        for size in range(3, 6):
            y = flow.tensor(np.ones((size, 13), np.float32))
            y * y
        gc.collect()
        assert code() is None
        assert (x * x).numpy().sum() == 33
    finally:
        BUILDER.kernels = cache


def test_a_recorded_call_keeps_no_dropped_kernels_of_its_gradient(monkeypatch):
    monkeypatch.setattr(BUILDER, "kernels", KernelCache(limit_bytes=16 * PROGRAM_BYTES))
    x = flow.ones(3, 17, requires_grad=True)
    y = flow.sinh(x)
    cotangent = flow.ones(3, 17)
    forward = [weakref.ref(k.executable) for _, k in BUILDER.kernels.items() if k.op.record.name == "sinh"]
    (first,) = flow.autograd.grad(y, x, cotangent, retain_graph=True)
    kernels = [weakref.ref(k.executable) for _, k in BUILDER.kernels.items()]
    gc.collect()
    gc.disable()
    try:
        for size in range(3, 20):
            z = flow.ones(size, 19)
            z * z
        assert [k for k in kernels if k() is not None] == forward
    finally:
        gc.enable()
    (again,) = flow.autograd.grad(y, x, cotangent)
    np.testing.assert_array_equal(again.numpy(), first.numpy())


def test_kernels_on_the_same_ranks_share_the_contexts_of_the_ranks():
    cache, BUILDER.kernels = BUILDER.kernels, KernelCache()
    try:
        x = flow.ones(6, 5).to_global(flow.placement("cpu", [0, 1]), flow.sbp.split(0))
        (x * x).sum()
        executables = [k.executable for _, k in BUILDER.kernels.items()]
        programs = [e.programs for e in executables if isinstance(e, DistributedExecutable)]
    finally:
        BUILDER.kernels = cache
    contexts = [[program.module.context for program in ranks.values()] for ranks in programs]
    assert len(contexts) > 1
    assert contexts[0][0] is not contexts[0][1]
    assert all(a is b for row in contexts[1:] for a, b in zip(row, contexts[0], strict=True))
