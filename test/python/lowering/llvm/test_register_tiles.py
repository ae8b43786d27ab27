"""The machine code of matrix products: innermost loops of register tiles, which keep accumulators in registers."""

import re
import shutil
import subprocess

import pytest

from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.targets import host
from oneflow.lowering.targets.cpu import CPU_TARGETS
from oneflow.lowering.targets.selection import using_cpu
from oneflow.runtime import objects
from oneflow.runtime.program_source import ProgramSource

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
#: An instruction of objdump: address, name, operands.
LINE = re.compile(r"^[ \t]*([0-9a-f]+):[ \t]+(\S+)[ \t]*(.*)$", re.MULTILINE)

pytestmark = pytest.mark.skipif(
    host.host_architecture() != "x86_64" or shutil.which("objdump") is None,
    reason="code is generated for the architecture of the machine, and read by objdump of binutils",
)


def loops(path):
    """The innermost loops of a shared object: lists of instructions (name, operands)."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    lines = [(int(at, 16), name, operands) for at, name, operands in LINE.findall(text.stdout)]
    numbers = {at: number for number, (at, *_) in enumerate(lines)}
    found = []
    for number, (_, name, operands) in enumerate(lines):
        target = re.match(r"([0-9a-f]+)\b", operands)
        first = numbers.get(int(target[1], 16), number) if name.startswith("j") and target else number
        if first < number:
            found.append((first, number))
    innermost = [(a, b) for a, b in found if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in found)]
    return [[line[1:] for line in lines[a : b + 1]] for a, b in innermost]


def is_multiply_add(name):
    return name.startswith("vfmadd") or name in ("mulps", "mulpd")


def is_spill(name, operands):
    """Whether an instruction stores a vector register on the stack."""
    return "mov" in name and bool(re.search(r"^%[xyz]mm\d+,.*\(%rsp", operands))


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
    body = max(loops(tmp_path / "program.so"), key=lambda body: sum(is_multiply_add(name) for name, _ in body))
    assert sum(is_multiply_add(name) for name, _ in body) >= 8
    assert [line for line in body if is_spill(*line)] == []
