"""The one module that imports Triton: kernels compiled to PTX and machine code, for a device that need not be here.

Triton is imported when it is first needed.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import linecache
import os
import threading
from dataclasses import dataclass
from typing import Any

from oneflow.lowering.targets.choice import gpu_target, gpu_target_named
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import GLUON, Source
from oneflow.runtime.cuda.ptx import halves_apart
from oneflow.runtime.cuda.tensor_maps import TensorMap, lift, settled

#: A kernel that compiles fast: after it Triton is loaded.
FIRST = Source(
    "first",
    "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef first(p0):\n    tl.store(p0, 1.0)\n",
    (("p0", "*fp32"),),
    "1",
    1,
)
#: Held while Python's parser makes trees: threads that do so at once count their depth together before Python 3.13.
_parsing = threading.Lock()
#: How Triton was found, and what the package that has it is called here.
HINT = "expected the package triton (pip install 'oneflow-mlir[gpu]')"


class CompileError(RuntimeError):
    """A kernel that could not be compiled."""


@dataclass(frozen=True)
class Binary:
    """A compiled kernel: machine code, PTX, and how it is launched; `maps` follow the parameters of its source."""

    name: str
    cubin: bytes
    ptx: str
    shared: int
    warps: int
    scratch: int
    maps: tuple[TensorMap, ...] = ()


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
    """The kernel as a function of Triton, which looks for its text in `linecache`."""
    digest = hashlib.sha256(source.text.encode()).hexdigest()[:8]
    name = f"<triton {source.name} {digest}>"
    namespace: dict[str, Any] = {"__name__": f"oneflow_kernel_{source.name}"}
    triton()
    with _parsing:
        linecache.cache[name] = (len(source.text), None, source.text.splitlines(keepends=True), name)
        try:
            exec(compile(source.text, name, "exec"), namespace)
        finally:
            del linecache.cache[name]
    return namespace[identifier(source.name)]


def compile_source(source: Source, arch: str = "sm_90") -> Binary:
    """Compiles a kernel for an architecture, with fewer stages of blocks underway where those take too much memory.

    Raises:
        CompileError: Triton is missing or refuses the kernel, or it takes more shared memory than there is.
    """
    number = parse_arch(arch)
    triton()
    try:
        return _compile(source, number)
    except CompileError:
        raise
    except Exception as error:
        told = "\n".join(str(e) for e in dict.fromkeys((error, _root(error))))
        raise CompileError(f"kernel {source.name} does not compile for {arch}: {told}") from error


def _root(error: BaseException) -> BaseException:
    """What an error came of in the first place: Triton's say where, those that they came of what is wrong there."""
    return error if error.__cause__ is None else _root(error.__cause__)


def _compile(source: Source, number: int) -> Binary:
    source, lifted = lift(source, number)
    signature = dict(source.parameters)
    pointers = [i for i, (_, kind) in enumerate(source.parameters) if kind.startswith("*")]
    hints = {(i,): [["tt.divisibility", 16]] for i in pointers}
    ast = _language(source)(load_function(source), signature, {}, hints)
    target, most = triton("backends.compiler").GPUTarget("cuda", number, 32), _most_shared(number)
    for stages in range(source.stages, 0, -1):
        options = {"num_warps": source.warps, "num_stages": stages, "maxnreg": source.registers or None}
        made, facts = _stages(ast, target, options)
        if facts["shared"] <= most:
            break
    else:
        got = f"of shared memory on sm_{number}, got {facts['shared']}"
        raise CompileError(f"kernel {source.name}: expected at most {most} bytes {got}")
    sizes = facts["shared"], facts["num_warps"], facts["global_scratch_size"]
    return Binary(facts["name"], made["cubin"], made["ptx"], *sizes, settled(lifted, facts["tensordesc_meta"]))


def _most_shared(number: int) -> int:
    """The bytes of shared memory that a program can have: of the chosen target where it is of this architecture."""
    arch, chosen = f"sm_{number}", gpu_target()
    return (chosen if chosen.arch == arch else gpu_target_named(arch)).block_shared_bytes


def _language(source: Source) -> Any:
    """What makes Triton's first stage of a kernel: special forms are in Gluon."""
    if source.language == GLUON:
        return triton("experimental.gluon._runtime").GluonASTSource
    return triton("compiler").ASTSource


def _stages(ast: Any, target: Any, options: dict[str, int | None]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A kernel at each of Triton's stages, and what they found out about it.

    `triton.compile` keeps every stage in files under a key of all of Triton's own; binaries have a cache here.
    """
    ir, backend = triton("_C.libtriton").ir, triton("compiler").make_backend(target)
    chosen, context, stages = backend.parse_options(options), ir.context(), dict[str, Any]()
    backend.add_stages(stages, chosen, ast.language)
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions, modules = backend.get_codegen_implementation(chosen), backend.get_module_map()
    with _parsing:
        module = ast.make_ir(target, chosen, functions, modules, context)
    facts = {"target": target, **vars(chosen)}
    made: dict[str, Any] = {}
    for name, stage in stages.items():
        module = stage(module, facts)
        made[name] = module = halves_apart(module) if name == "ptx" else module
    return made, facts
