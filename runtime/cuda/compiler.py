"""The one module that imports Triton: kernels compiled to PTX and machine code, for a device that need not be here.

Triton is imported when it is first needed. Imports `lowering.triton.source`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import linecache
import os
from dataclasses import dataclass
from typing import Any

from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import Source

#: How Triton was found, and what the package that has it is called here.
HINT = "expected the package triton (pip install oneflow-mlir[gpu])"


class CompileError(RuntimeError):
    """A kernel that could not be compiled."""


@dataclass(frozen=True)
class Binary:
    """A compiled kernel: machine code, PTX, and how it is launched."""

    name: str
    cubin: bytes
    ptx: str
    shared: int
    warps: int
    scratch: int


@functools.cache
def triton(module: str = "") -> Any:
    """Triton, or a module of it.

    Raises:
        CompileError: it is not installed.
    """
    # Triton's default today; newer ones warn where nobody says.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    try:
        return importlib.import_module(f"triton.{module}" if module else "triton")
    except ImportError as error:
        raise CompileError(f"{HINT}: {error}") from error


def parse_arch(text: str) -> int:
    """The compute capability that `sm_90` names, as 90.

    Raises:
        CompileError: it has another form.
    """
    number = text.removeprefix("sm_").removesuffix("a")
    if not text.startswith("sm_") or not number.isdigit():
        raise CompileError(f"expected an architecture like sm_90, got {text!r}")
    return int(number)


def load_function(source: Source) -> Any:
    """The kernel as a function of Triton. Its text stays in `linecache`, where Triton looks for it."""
    digest = hashlib.sha256(source.text.encode()).hexdigest()[:8]
    name = f"<triton {source.name} {digest}>"
    linecache.cache[name] = (len(source.text), None, source.text.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"__name__": f"oneflow_kernel_{source.name}"}
    triton()
    exec(compile(source.text, name, "exec"), namespace)
    return namespace[identifier(source.name)]


def compile_source(source: Source, arch: str = "sm_90") -> Binary:
    """Compiles a kernel for an architecture.

    Raises:
        CompileError: Triton is missing or refuses the kernel.
    """
    api, compiler = triton(), triton("compiler")
    signature = dict(source.parameters)
    pointers = [i for i, (_, kind) in enumerate(source.parameters) if kind.startswith("*")]
    hints = {(i,): [["tt.divisibility", 16]] for i in pointers}
    ast = compiler.ASTSource(load_function(source), signature, {}, hints)
    target = triton("backends.compiler").GPUTarget("cuda", parse_arch(arch), 32)
    options = {"num_warps": source.warps, "num_stages": source.stages}
    try:
        made = api.compile(ast, target=target, options=options)
    except Exception as error:
        raise CompileError(f"kernel {source.name} does not compile for {arch}: {error}") from error
    meta = made.metadata
    return Binary(
        meta.name, made.asm["cubin"], made.asm["ptx"], meta.shared, meta.num_warps, meta.global_scratch_size
    )
