"""Arguments of a program on a device that share memory, where results take the memory of some."""

import numpy as np
import pytest

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.array import CudaArray
from oneflow.runtime.cuda.executable import compile_cuda
from oneflow.runtime.executable import Options
from oneflow.testing.host_cuda import host_cuda

KIND = "tensor<64xf32>"
#: The first result is there before the second begins, which reads both arguments.
TEXT = f"""
func.func @main(%a: {KIND} {{oneflow.donated = 0 : i64}}, %b: {KIND} SECOND, %c: {KIND}) -> ({KIND}, {KIND}) {{
  %0 = "oneflow.broadcast_mul"(%a, %c) : ({KIND}, {KIND}) -> {KIND}
  %1 = "oneflow.softmax"(%0) : ({KIND}) -> {KIND}
  %2 = "oneflow.softmax"(%1) : ({KIND}) -> {KIND}
  %3 = "oneflow.broadcast_sub"(%b, %2) : ({KIND}, {KIND}) -> {KIND}
  return %0, %3 : {KIND}, {KIND}
}}"""


@pytest.fixture(autouse=True)
def cuda():
    with host_cuda() as made:
        yield made


def softmax(x):
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def parts(*begins):
    """Parts of one array on the device, given by the first elements."""
    whole = CudaArray.of(np.linspace(0, 1, 128, dtype=np.float32), driver.device(0))
    return [CudaArray(whole, whole.address + 4 * at, (64,), whole.dtype, whole.stream) for at in begins]


@pytest.mark.parametrize("second", ["", "{oneflow.donated = 1 : i64}"])
@pytest.mark.parametrize("begins", [(0, 16), (16, 0), (0, 64), (32, 32)])
def test_results_do_not_overwrite_arguments(begins, second):
    with create_context() as context, ir.Location.unknown():
        program = compile_cuda(read_module(TEXT.replace("SECOND", second), context), options=Options(cached=False))
    c = CudaArray.of(np.full(64, 3, np.float32), driver.device(0))
    for _ in range(3):
        a, b = parts(*begins)
        first, last = a.numpy(), b.numpy()
        for _ in range(2):
            results = program(a, b, c)
            np.testing.assert_allclose(results[0].numpy(), first * 3, 1e-6)
            np.testing.assert_allclose(results[1].numpy(), last - softmax(softmax(first * 3)), 1e-5)
            a.take(first)
            b.take(last)


def test_a_new_argument_that_overlaps_an_updated_one(cuda):
    with create_context() as context, ir.Location.unknown():
        program = compile_cuda(read_module(TEXT.replace("SECOND", ""), context), options=Options(cached=False))
    c = CudaArray.of(np.full(64, 3, np.float32), driver.device(0))
    a, disjoint, over = parts(0, 64, 16)
    first = a.numpy()
    for b in (disjoint, disjoint, disjoint, over, disjoint, over):
        a.take(first)
        last = b.numpy()
        results = program(a, b, c)
        np.testing.assert_allclose(results[1].numpy(), last - softmax(softmax(first * 3)), 1e-5)
