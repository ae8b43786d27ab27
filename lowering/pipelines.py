"""The stages of a program and the passes between them, in one table.

    STAGES["linalg"]   the pipeline from the stage before; `pipeline_to("llvm")` all of them

Importing this registers every pass of `lowering`. Imports the passes.
"""

from __future__ import annotations

from oneflow.lowering.kernels import form
from oneflow.lowering.linalg import convert
from oneflow.lowering.llvm import emit, launch, polynomials
from oneflow.passes import all as all_passes  # noqa: F401
from oneflow.passes.registry import register_pipeline

#: Stages in order, each with the passes that lead to it from the one before.
STAGES: dict[str, tuple[str, ...]] = {
    "oneflow": ("oneflow-infer-types", "oneflow-canonicalize", "cse"),
    "linalg": ("oneflow-decompose", convert.ConvertOneflowToLinalg.name, "canonicalize", "cse"),
    "kernels": (form.FormKernels.name,),
    "llvm": (
        emit.EmitKernels.name,
        polynomials.ExpandMath.name,
        "canonicalize",
        "cse",
        "convert-scf-to-cf",
        "expand-strided-metadata",
        "lower-affine",
        "arith-expand{include-bf16=true}",
        "convert-math-to-llvm",
        "convert-math-to-libm",
        "convert-vector-to-llvm",
        "finalize-memref-to-llvm",
        "convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}",
        "convert-cf-to-llvm",
        "convert-arith-to-llvm",
        "convert-index-to-llvm",
        "convert-ub-to-llvm",
        "reconcile-unrealized-casts",
        launch.DefineLaunches.name,
    ),
}


def pipeline_between(after: str | None, last: str) -> str:
    """The pipeline from stage `after` (None: from the program as written) to stage `last`, as text."""
    names = list(STAGES)
    first = 0 if after is None else names.index(after) + 1
    passes = [p for name in names[first : names.index(last) + 1] for p in STAGES[name]]
    return f"builtin.module({','.join(passes)})"


def _all() -> str:
    return ",".join(p for passes in STAGES.values() for p in passes)


register_pipeline("oneflow-to-llvm", _all(), "From operators to the LLVM dialect: every stage for the CPU.")
