"""The machine code of matrix products: innermost loops of register tiles, which keep accumulators in registers."""

import pytest
from machine_code import has_disassembler, innermost_loops, is_spill

from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.targets import host
from oneflow.lowering.targets.cpu import CPU_TARGETS
from oneflow.lowering.targets.selection import using_cpu
from oneflow.runtime import objects
from oneflow.runtime.program_source import ProgramSource

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")

pytestmark = pytest.mark.skipif(
    host.host_architecture() != "x86_64" or not has_disassembler(),
    reason="code is generated for the architecture of the machine, and read by objdump of binutils",
)


def is_multiply_add(name):
    return name.startswith("vfmadd") or name in ("mulps", "mulpd")


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("rows", "columns"), [(240, 256), (8, 4096)], ids=["tiles", "few rows"])
def test_accumulators_stay_in_registers(rows, columns, level, dtype, tmp_path):
    x, w, y = (f"tensor<{shape}x{dtype}>" for shape in (f"{rows}x304", f"304x{columns}", f"{rows}x{columns}"))
    text = f"""func.func @main(%x: {x}, %w: {w}) -> {y} {{
      %0 = "oneflow.matmul"(%x, %w) : ({x}, {w}) -> {y}
      return %0 : {y}
    }}"""
    with create_context(), ir.Location.unknown(), using_cpu(CPU_TARGETS[level]):
        lowered = ProgramSource.of(ir.Module.parse(text), "main", REGISTRY).lower("llvm")
        objects.compile_code(lowered, "main", 3, tmp_path / "program.so")
    loops = innermost_loops(tmp_path / "program.so")
    body = max(loops, key=lambda body: sum(is_multiply_add(name) for name, _ in body))
    assert sum(is_multiply_add(name) for name, _ in body) >= 8
    assert [line for line in body if is_spill(*line)] == []
