"""The one module that imports Triton: compiles kernels to PTX and machine code; no device is needed.

Triton is imported at the first use.
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

from oneflow.lowering.targets.gpu import GpuTarget
from oneflow.lowering.targets.instructions import VECTOR_BYTES, WARP
from oneflow.lowering.targets.selection import DEFAULT_GPU, gpu_target, gpu_target_named
from oneflow.lowering.triton.codegen.prelude import preamble
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import GLUON, Parameter, Source
from oneflow.lowering.triton.symbolic_sizes import TileCount
from oneflow.runtime.cuda.ptx import split_packed_halves
from oneflow.runtime.cuda.tensor_maps import TensorMap, lift_descriptors, tensor_maps_of

#: A small kernel whose compilation loads all of Triton.
FIRST = Source(
    "first", (Parameter("p0", "*fp32"),), TileCount.of(1), ("tl.store(p0, 1.0)",), warps=1, preamble=preamble(())
)
#: Held while Python parses: before Python 3.13 the recursion depth of the parser is shared between threads.
_parser_lock = threading.Lock()
#: The text of the error for a missing Triton.
HINT = "expected the package triton (pip install 'oneflow-mlir[gpu]')"


class CompileError(RuntimeError):
    """A kernel that could not be compiled."""


@dataclass(frozen=True)
class Binary:
    """A compiled kernel.

    Attributes:
        shared: the bytes of shared memory of a block.
        warps: the warps of a block.
        scratch: the bytes of global scratch memory of a block.
        maps: the tensor maps, which follow the parameters of the source.
    """

    name: str
    cubin: bytes
    ptx: str
    shared: int
    warps: int
    scratch: int
    maps: tuple[TensorMap, ...] = ()


@functools.cache
def triton(module: str = "") -> Any:
    """The package Triton, or a module of it.

    Raises:
        CompileError: Triton is not installed.
    """
    # The default of Triton; newer versions warn if it is not set.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    try:
        return importlib.import_module(f"triton.{module}" if module else "triton")
    except ImportError as error:
        raise CompileError(f"{HINT}: {error}") from error


def parse_arch(text: str) -> int:
    """The compute capability of an architecture: 90 for `sm_90`.

    Raises:
        CompileError: the text has another form.
    """
    capability = text.removeprefix("sm_").removesuffix("a")
    if not text.startswith("sm_") or not capability.isdigit():
        raise CompileError(f"expected an architecture like sm_90, got {text!r}")
    return int(capability)


def load_function(source: Source) -> Any:
    """The kernel as a Triton function (`JITFunction`), which reads the text of the function from `linecache`."""
    digest = hashlib.sha256(source.text.encode()).hexdigest()[:8]
    name = f"<triton {source.name} {digest}>"
    namespace: dict[str, Any] = {"__name__": f"oneflow_kernel_{source.name}"}
    triton()
    with _parser_lock:
        linecache.cache[name] = (len(source.text), None, source.text.splitlines(keepends=True), name)
        try:
            exec(compile(source.text, name, "exec"), namespace)
        finally:
            del linecache.cache[name]
    return namespace[identifier(source.name)]


def compile_source(source: Source, arch: str = DEFAULT_GPU) -> Binary:
    """Compiles a kernel for an architecture, with fewer pipeline stages if the kernel exceeds shared memory.

    Raises:
        CompileError: Triton is missing or refuses the kernel, or the kernel exceeds shared memory.
    """
    capability = parse_arch(arch)
    triton()
    try:
        return _compile(source, capability)
    except CompileError:
        raise
    except Exception as error:
        message = "\n".join(str(e) for e in dict.fromkeys((error, _root(error))))
        raise CompileError(f"kernel {source.name} does not compile for {arch}: {message}") from error


def _root(error: BaseException) -> BaseException:
    """The first cause of an error. Errors of Triton state the position of the fault; their causes state the fault."""
    return error if error.__cause__ is None else _root(error.__cause__)


def _compile(source: Source, capability: int) -> Binary:
    gpu = _target_of(f"sm_{capability}")
    source, lifted = lift_descriptors(source, gpu.has_tma)
    signature = dict(source.parameters)
    pointers = [i for i, p in enumerate(source.parameters) if p.is_pointer]
    hints = {(i,): [["tt.divisibility", VECTOR_BYTES]] for i in pointers}
    ast = _language(source)(load_function(source), signature, {}, hints)
    target, limit = triton("backends.compiler").GPUTarget("cuda", capability, WARP), gpu.block_shared_bytes
    for stages in range(source.stages, 0, -1):
        options = {"num_warps": source.warps, "num_stages": stages, "maxnreg": source.registers or None}
        stage_results, metadata = _stages(ast, target, options, limit)
        if metadata["shared"] <= limit:
            break
    else:
        got = f"of shared memory on sm_{capability}, got {metadata['shared']}"
        raise CompileError(f"kernel {source.name}: expected at most {limit} bytes {got}")
    sizes = metadata["shared"], metadata["num_warps"], metadata["global_scratch_size"]
    return Binary(
        metadata["name"],
        stage_results["cubin"],
        stage_results["ptx"],
        *sizes,
        tensor_maps_of(lifted, metadata["tensordesc_meta"]),
    )


def _target_of(arch: str) -> GpuTarget:
    """The chosen target if it has this architecture, or else the target of the table."""
    chosen = gpu_target()
    return chosen if chosen.arch == arch else gpu_target_named(arch)


def _language(source: Source) -> Any:
    """The class of Triton for the source of a kernel: Gluon or Triton."""
    if source.language == GLUON:
        return triton("experimental.gluon._runtime").GluonASTSource
    return triton("compiler").ASTSource


def _stages(
    ast: Any, target: Any, options: dict[str, int | None], limit: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A kernel at each of Triton's stages, and the metadata that the stages collect.

    If a kernel needs more than `limit` bytes of shared memory, the stages after the stage that finds this do not run.

    `triton.compile` is not used: it writes every stage to files, while binaries are in the cache of this package.
    """
    ir, backend = triton("_C.libtriton").ir, triton("compiler").make_backend(target)
    chosen, context, stages = backend.parse_options(options), ir.context(), dict[str, Any]()
    backend.add_stages(stages, chosen, ast.language)
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions, modules = backend.get_codegen_implementation(chosen), backend.get_module_map()
    with _parser_lock:
        module = ast.make_ir(target, chosen, functions, modules, context)
    metadata = {"target": target, **vars(chosen)}
    stage_results: dict[str, Any] = {}
    for name, stage in stages.items():
        module = stage(module, metadata)
        stage_results[name] = module = split_packed_halves(module) if name == "ptx" else module
        if metadata.get("shared", 0) > limit:
            break
    return stage_results, metadata
