"""Matrix products of few rows: values on every level of processors, with partial sums that need several blocks."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from call_counts import recorded

from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.lowering.llvm.skinny_contraction import SkinnyContraction
from oneflow.lowering.targets import host
from oneflow.lowering.targets.cpu import CPU_TARGETS
from oneflow.lowering.targets.selection import using_cpu
from oneflow.runtime.executable import Options, compile_module

LEVELS = [
    name
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4")
    if host.host_architecture() == "x86_64" and not host.missing_features(CPU_TARGETS[name])
]
NAMES = {np.float32: "f32", np.float64: "f64", np.float16: "f16", np.int32: "i32"}
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-14, np.float16: 2e-3, np.int32: 0}


def product(x, w, bias, level):
    """`relu(x @ w + bias)`, compiled for a level with small caches, so that few columns are several blocks."""
    dtype = NAMES[x.dtype.type]
    result = (*x.shape[:-1], w.shape[-1])
    a, b, c, y = (f"tensor<{'x'.join(map(str, s))}x{dtype}>" for s in (x.shape, w.shape, bias.shape, result))
    op = "matmul" if x.ndim == 2 else "batch_matmul"
    text = f"""func.func @main(%x: {a}, %w: {b}, %c: {c}) -> {y} {{
      %0 = "oneflow.{op}"(%x, %w) : ({a}, {b}) -> {y}
      %1 = "oneflow.broadcast_add"(%0, %c) : ({y}, {c}) -> {y}
      %2 = "oneflow.relu"(%1) : ({y}) -> {y}
      return %2 : {y}
    }}"""
    fitted = {"contractions": {"max_skinny_rows": 16}}
    target = replace(CPU_TARGETS[level], l1_bytes=4096, l2_bytes=1024, cores=2, fitted=fitted)
    with create_context(), using_cpu(target):
        return compile_module(ir.Module.parse(text), options=Options(cached=False))(x, w, bias)[0]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1, 37, 50), np.float32),
        ((5, 1100, 600), np.float32),
        ((16, 9, 333), np.float32),
        ((2, 3, 40, 301), np.float64),
        ((8, 70, 130), np.float16),
        ((13, 21, 64), np.int32),
    ],
    ids=str,
)
def test_products_of_few_rows(shape, dtype, level, monkeypatch):
    emitted: list[Any] = []
    monkeypatch.setattr(SkinnyContraction, "emit", recorded(SkinnyContraction.emit, emitted))
    *batch, rows, depth, columns = shape
    rng = np.random.default_rng(0)
    x, w, bias = (
        (8 * rng.standard_normal(s)).astype(dtype)
        for s in ((*batch, rows, depth), (*batch, depth, columns), (columns,))
    )
    want = np.maximum(x.astype(np.float64) @ w.astype(np.float64) + bias, 0)
    got = product(x, w, bias, level)
    assert emitted or (dtype is np.float16 and not CPU_TARGETS[level].has_f16)
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE[dtype] * np.abs(want).max())
