"""Measures and prints the cost of a call of a C++ kernel in a compiled program.

    python benchmarks/user_kernel.py

Two programs are compared: a chain of calls of a kernel that does nothing, and a shorter one. The difference of their
times, over the difference in calls, is the cost of one call. A C++ compiler is needed.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import oneflow as flow
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.runtime.executable import CpuExecutable, compile_module

SOURCE = """
#include "oneflow/core/framework/framework.h"
namespace oneflow {
REGISTER_USER_OP("bench_nothing").Input("in").Output("out").SetTensorDescInferFn(
    user_op::TensorDescInferFnUtil::Unchanged);
class NothingKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    user_op::Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    out->mut_dptr<float>()[0] = in->dptr<float>()[0];
  }
};
REGISTER_USER_KERNEL("bench_nothing").SetCreateFn<NothingKernel>().SetIsMatchedHob(user_op::HobTrue());
}
"""
SHORT, LONG, ROUNDS, RUNS = 10, 210, 30, 20


def build(folder: Path) -> Path:
    """The library with the operator."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        sys.exit("expected a C++ compiler (c++ or g++)")
    source, library = folder / "nothing.cpp", folder / "nothing.so"
    source.write_text(SOURCE)
    flags = [*flow.sysconfig.get_compile_flags(), *flow.sysconfig.get_link_flags()]
    subprocess.run([compiler, "-O2", "-fPIC", "-shared", str(source), "-o", str(library), *flags], check=True)
    return library


def chain(count: int) -> CpuExecutable:
    """A program of `count` calls, one after the other."""
    kind = "tensor<1xf32>"
    lines = [f'%{i + 1} = "oneflow.bench_nothing"(%{i}) : ({kind}) -> {kind}' for i in range(count)]
    text = f"func.func @main(%0: {kind}) -> {kind} {{ {' '.join(lines)} return %{count} : {kind} }}"
    return compile_module(read_module(text, create_context()))


def seconds(program: CpuExecutable, x: np.ndarray) -> float:
    """The time of one run, from several."""
    begin = time.perf_counter()
    for _ in range(RUNS):
        program(x)
    return (time.perf_counter() - begin) / RUNS


def main() -> None:
    """Prints the cost of one call in microseconds: the median of rounds."""
    with tempfile.TemporaryDirectory() as folder:
        flow.config.load_library(build(Path(folder)))
        x, short, long = np.ones(1, np.float32), chain(SHORT), chain(LONG)
        short(x), long(x)
        costs = [(seconds(long, x) - seconds(short, x)) / (LONG - SHORT) for _ in range(ROUNDS)]
    print(f"one call of a C++ kernel in a compiled program: {1e6 * statistics.median(costs):.2f} us")


if __name__ == "__main__":
    main()
