"""Products of short integers with zero points: values and instructions on every level of processors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from call_counts import recorded
from machine_code import has_disassembler, innermost_loops, is_spill

from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.llvm.integer_products import IntegerProducts
from oneflow.lowering.targets import host
from oneflow.lowering.targets.cpu import CPU_TARGETS
from oneflow.lowering.targets.selection import using_cpu
from oneflow.runtime import objects
from oneflow.runtime.executable import Options, compile_module
from oneflow.runtime.program_source import ProgramSource

LEVELS = {
    "x86-64-v2": "pmaddwd", "x86-64-v3": "vpmaddwd", "x86-64-v3-vnni": "vpdpbusd", "x86-64-v4": "vpmaddwd",
    "x86-64-v4-vnni": "vpdpbusd",
}  # fmt: skip
RUNNING = [
    name for name in LEVELS if host.host_architecture() == "x86_64" and not host.missing_features(CPU_TARGETS[name])
]
NAMES = {np.uint8: "ui8", np.int8: "i8"}


@dataclass(frozen=True)
class Product:
    """A product of integers less zero points, which have the shapes `zeros` or are absent.

    `dynamic` products have a dynamic number of rows.
    """

    shape: tuple[int, ...]
    left: type = np.uint8
    right: type = np.int8
    zeros: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None)
    dynamic: bool = False

    def arrays(self):
        """The factors and the zero points, with the ends of the ranges."""
        *batch, rows, depth, columns = self.shape
        rng, info = np.random.default_rng(0), [np.iinfo(t) for t in (self.left, self.right)]
        factors = [
            rng.integers(i.min, i.max + 1, shape).astype(i.dtype)
            for i, shape in zip(info, ((*batch, rows, depth), (*batch, depth, columns)), strict=True)
        ]
        for x, i in zip(factors, info, strict=True):
            x.flat[: depth // 2 + 1] = i.min
            x.flat[-(depth // 2 + 1) :] = i.max
        zeros = [None if s is None else rng.integers(i.min, i.max, s).astype(i.dtype)
                 for i, s in zip(info, self.zeros, strict=True)]  # fmt: skip
        return factors, zeros

    def text(self, factors, zeros):
        """`main` of the product."""
        rows = self.shape[-3]

        def kind(shape, element):
            dims = ["?" if self.dynamic and n == rows else n for n in shape]
            return f"tensor<{''.join(f'{n}x' for n in dims)}{element}>"

        lines, parameters, names = [], [], []
        for name, x, zero in zip("xw", factors, zeros, strict=True):
            element, wide = NAMES[x.dtype.type], kind(x.shape, "i32")
            parameters.append(f"%{name}: {kind(x.shape, element)}")
            lines.append(f'%{name}0 = "oneflow.cast"(%{name}) {{dtype = i32}} : ({kind(x.shape, element)}) -> {wide}')
            names.append((f"%{name}0", wide))
            if zero is None:
                continue
            short, long = kind(zero.shape, element), kind(zero.shape, "i32")
            parameters.append(f"%{name}z: {short}")
            lines.append(f'%{name}1 = "oneflow.cast"(%{name}z) {{dtype = i32}} : ({short}) -> {long}')
            lines.append(f'%{name}2 = "oneflow.broadcast_sub"(%{name}0, %{name}1) : ({wide}, {long}) -> {wide}')
            names[-1] = (f"%{name}2", wide)
        result = kind((*self.shape[:-2], self.shape[-1]), "i32")
        (x, of_x), (w, of_w) = names
        op = "matmul" if len(self.shape) == 3 else "batch_matmul"
        lines.append(f'%0 = "oneflow.{op}"({x}, {w}) : ({of_x}, {of_w}) -> {result}')
        head = f"func.func @main({', '.join(parameters)}) -> {result} {{"
        return "\n".join([head, *lines, f"return %0 : {result}", "}"])


PRODUCTS = [
    Product((1, 70, 130), zeros=((), ())),
    Product((3, 5, 33), np.int8, np.uint8),
    Product((13, 67, 100), zeros=((13, 1), (1, 100))),
    Product((13, 64, 20), np.int8, np.int8, zeros=((), None), dynamic=True),
    Product((2, 17, 12, 65), np.uint8, np.uint8, zeros=(None, ())),
]


@pytest.mark.parametrize("level", RUNNING)
@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_products_of_short_integers(product, level, monkeypatch):
    emitted: list[Any] = []
    monkeypatch.setattr(IntegerProducts, "emit", recorded(IntegerProducts.emit, emitted))
    factors, zeros = product.arrays()
    x, w = (
        f.astype(np.int64) - (0 if z is None else z.astype(np.int64)) for f, z in zip(factors, zeros, strict=True)
    )
    arguments = [a for pair in zip(factors, zeros, strict=True) for a in pair if a is not None]
    with create_context(), using_cpu(CPU_TARGETS[level]):
        module = ir.Module.parse(product.text(factors, zeros))
        got = compile_module(module, options=Options(cached=False))(*arguments)[0]
    assert emitted
    np.testing.assert_array_equal(got, x @ w)


@pytest.mark.skipif(
    host.host_architecture() != "x86_64" or not has_disassembler(),
    reason="code is generated for the architecture of the machine, and read by objdump of binutils",
)
@pytest.mark.parametrize("level", LEVELS)
def test_instruction_of_level(level, tmp_path):
    product = Product((240, 304, 256))
    with create_context(), ir.Location.unknown(), using_cpu(CPU_TARGETS[level]):
        module = ir.Module.parse(product.text(*product.arrays()))
        lowered = ProgramSource.of(module, "main", REGISTRY).lower("llvm")
        objects.compile_code(lowered, "main", 3, tmp_path / "program.so")
    instructions = set(LEVELS.values())
    counts = [[name for name, _ in body if name in instructions] for body in innermost_loops(tmp_path / "program.so")]
    assert {name for names in counts for name in names} == {LEVELS[level]}
    body = max(innermost_loops(tmp_path / "program.so"), key=lambda body: sum(n in instructions for n, _ in body))
    assert sum(n in instructions for n, _ in body) >= 8
    assert [line for line in body if is_spill(*line)] == []
