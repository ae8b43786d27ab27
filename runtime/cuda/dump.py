"""Writes the kernels of a program to a folder: source, PTX, machine code, and the plan."""

from __future__ import annotations

from pathlib import Path

from oneflow.lowering.targets.selection import DEFAULT_GPU
from oneflow.lowering.triton.launch.program import Program
from oneflow.runtime.cuda.kernel_cache import compile_for_arch


def dump_kernels(program: Program, folder: Path, arch: str = DEFAULT_GPU) -> None:
    """Writes `<entry>.plan.py`, and `<kernel>.py`, `.ptx` and `.cubin` of each kernel.

    Raises:
        CompileError: Triton is missing or refuses a kernel.
    """
    program, binaries = compile_for_arch(program, arch, cached=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{program.name}.plan.py").write_text(program.plan, encoding="utf-8")
    for source in program.sources.values():
        (folder / f"{source.name}.py").write_text(source.text, encoding="utf-8")
    for name, binary in binaries.items():
        (folder / f"{name}.ptx").write_text(binary.ptx, encoding="utf-8")
        (folder / f"{name}.cubin").write_bytes(binary.cubin)
