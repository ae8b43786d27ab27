"""Runs that fail, and processes that fork or import at odd moments: errors, no crashes, no deadlocks."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.locks import Lock
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.runtime import native
from oneflow.runtime.executable import Options, OutOfBoundsError, compile_module


def build(text):
    context = create_context()
    with context, ir.Location.unknown():
        return compile_module(read_module(text, context), "main", Options(cached=False))


@pytest.mark.parametrize(("size", "total"), [(1 << 40, 1 << 42), (1 << 58, 1 << 60)])
@pytest.mark.parametrize("returned", ["%0", "%1", "%0, %0"])
def test_static_sizes_beyond_memory(size, total, returned):
    wide = f"tensor<{size}xf32>"
    types = ", ".join([wide] * len(returned.split(",")))
    executable = build(f"""
    func.func @main(%x: tensor<1xf32>) -> ({types}) {{
      %0 = "oneflow.expand"(%x) {{expand_shape = [{size}]}} : (tensor<1xf32>) -> {wide}
      %1 = "oneflow.exp"(%0) : ({wide}) -> {wide}
      return {returned} : {types}
    }}""")
    with pytest.raises(MemoryError, match=rf"\({total} bytes\)"):
        executable(np.ones(1, np.float32))


def test_dynamic_sizes_beyond_64_bits():
    executable = build("""
    func.func @main(%x: tensor<?x1x1xi8>, %y: tensor<1x?x1xi8>, %z: tensor<1x1x?xi8>) -> tensor<?x?x?xi8> {
      %0 = "oneflow.broadcast_add"(%x, %y) : (tensor<?x1x1xi8>, tensor<1x?x1xi8>) -> tensor<?x?x1xi8>
      %1 = "oneflow.broadcast_add"(%0, %z) : (tensor<?x?x1xi8>, tensor<1x1x?xi8>) -> tensor<?x?x?xi8>
      return %1 : tensor<?x?x?xi8>
    }""")
    long = np.zeros(1 << 22, np.int8)
    with pytest.raises(MemoryError, match="9223372036854775807 bytes"):
        executable(long.reshape(-1, 1, 1), long.reshape(1, -1, 1), long.reshape(1, 1, -1))


EMPTY_READS = {
    "gather": '"oneflow.gather"(%x, %i) : ({x}, tensor<3xi64>) -> tensor<3x30000000xf32>',
    "gather_nd": '"oneflow.gather_nd"(%x, %i) : ({x}, tensor<3x1xi64>) -> tensor<3x30000000xf32>',
    "dim_gather": (
        '"oneflow.dim_gather"(%x, %i) {{dim = 0 : si32}}\n: ({x}, tensor<3x30000xi64>) -> tensor<3x30000xf32>'
    ),
}


@pytest.mark.parametrize("rows_", ["0", "?"])
@pytest.mark.parametrize("name", EMPTY_READS)
def test_reads_of_empty_tensors_are_errors(name, rows_):
    call = EMPTY_READS[name]
    index = call.partition(", tensor<")[2].partition("xi64")[0]
    columns = 30000 if name == "dim_gather" else 30000000
    result = call.rpartition("-> ")[2]
    operand = f"tensor<{rows_}x{columns}xf32>"
    executable = build(f"""
    func.func @main(%x: {operand}, %i: tensor<{index}xi64>) -> {result} {{
      %0 = {call.format(x=operand)}
      return %0 : {result}
    }}""")
    positions = np.zeros([int(n) for n in index.split("x")], np.int64)
    with pytest.raises(OutOfBoundsError, match=r"expected an index in \[0, 0\), got 0"):
        executable(np.zeros((0, columns), np.float32), positions)


def test_writes_to_empty_tensors_are_errors():
    executable = build("""
    func.func @main(%x: tensor<?x300000xf32>, %i: tensor<3x1xi64>, %y: tensor<3x300000xf32>) -> tensor<?x300000xf32> {
      %0 = "oneflow.scatter_nd_like"(%x, %i, %y)
        : (tensor<?x300000xf32>, tensor<3x1xi64>, tensor<3x300000xf32>) -> tensor<?x300000xf32>
      return %0 : tensor<?x300000xf32>
    }""")
    arrays = np.zeros((3, 1), np.int64), np.ones((3, 300000), np.float32)
    with pytest.raises(OutOfBoundsError, match=r"expected an index in \[0, 0\), got 0"):
        executable(np.zeros((0, 300000), np.float32), *arrays)
    assert executable(np.zeros((1, 300000), np.float32), *arrays)[0].all()


SOFTMAX = """
func.func @main(%x: tensor<300x257xf32>) -> tensor<300x257xf32> {
  %0 = "oneflow.softmax"(%x) : (tensor<300x257xf32>) -> tensor<300x257xf32>
  %1 = "oneflow.exp"(%0) : (tensor<300x257xf32>) -> tensor<300x257xf32>
  return %1 : tensor<300x257xf32>
}
"""


def test_forks_while_other_threads_run():
    executable = build(SOFTMAX)
    x = np.random.default_rng(0).normal(size=(300, 257)).astype(np.float32)
    done = threading.Event()

    def work():
        while not done.is_set():
            executable(x)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                executable(x)
                create_context()
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        done.set()
        thread.join()


def test_a_lock_is_free_after_a_fork():
    lock = Lock()
    with lock.held():
        child = os.fork()
        if child == 0:
            with lock.held():
                os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_thread_count_has_a_limit():
    before = native.num_threads()
    try:
        native.set_num_threads(2**62)
        assert native.num_threads() == 1024
    finally:
        native.set_num_threads(before)


@pytest.mark.parametrize(
    "text",
    ["from oneflow.runtime.executable import compile_module", "from oneflow import dialect, frontend, lowering"],
)
def test_the_first_import(text):
    subprocess.run([sys.executable, "-c", text], check=True)
