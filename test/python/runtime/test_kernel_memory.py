"""Memory that kernels allocate: checked, and released at any end of the run."""

import ctypes
import re
import subprocess
import sys
from typing import Any

import pytest

from oneflow.lowering.targets.selection import cpu_target
from oneflow.runtime import native

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
SIZE = 12_345_678

OUT_OF_MEMORY = """
import resource
import numpy as np
import oneflow as flow

compiled = flow.compile(lambda x: flow.softmax(x, 0), specs=[flow.TensorSpec((None, 16), flow.float32)])
np.testing.assert_array_equal(compiled(np.zeros((4, 16), np.float32)), 0.25)
x = np.zeros((4 << 20, 16), np.float32)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
for headroom in ({headrooms}):
    resource.setrlimit(resource.RLIMIT_AS, (size + headroom, resource.RLIM_INFINITY))
    try:
        compiled(x)
    except MemoryError as error:
        print(error)
"""


@pytest.fixture
def library():
    found = native.library()
    for name in ("oneflow_rt_alloc", "oneflow_rt_temporary", "_mlir_memref_to_llvm_alloc"):
        function = getattr(found, name)
        function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_int64]
    found.oneflow_rt_free.argtypes = [ctypes.c_void_p]
    return found


@pytest.mark.parametrize("take", ["oneflow_rt_temporary", "_mlir_memref_to_llvm_alloc"])
def test_kernel_allocations_are_freed_after_the_run(library, take):
    blocks: list[Any] = []

    @ENTRY
    def entry(io, workspace):
        blocks.extend(getattr(library, take)(SIZE) for _ in range(3))

    failure = (ctypes.c_int64 * 3)()
    assert library.oneflow_rt_run(entry, None, ctypes.c_int64(0), failure) == 0
    again = [library.oneflow_rt_alloc(SIZE) for _ in range(3)]
    assert sorted(again) == sorted(blocks)
    for pointer in again:
        library.oneflow_rt_free(ctypes.c_void_p(pointer))


def test_a_failed_kernel_allocation_is_a_memory_error():
    """With little headroom the result has none, with more the kernel, which keeps a column for each vector."""
    code = OUT_OF_MEMORY.replace("{headrooms}", "16 << 20, 300 << 20")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = 4 << 20
    wanted = [rows * 16 * 4, rows * cpu_target().vector_bytes]
    assert [int(n) for n in re.findall(r"\((\d+) bytes", done.stdout)] == wanted, done.stdout
