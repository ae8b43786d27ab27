"""The stages of a program and the passes between them, in one table.

    STAGES["linalg"]   the pipeline from the stage before; `pipeline_to("llvm")` all of them

Importing this registers every pass of `lowering`. Imports the passes.
"""

from __future__ import annotations

from oneflow.lowering.kernels import form, layouts, recompute, share
from oneflow.lowering.linalg import convert
from oneflow.lowering.llvm import emit, expand_floats, floats_to_bits, launch, polynomials, set_target, widen_floats
from oneflow.lowering.llvm.split import SplitForThreads
from oneflow.lowering.triton import attention  # noqa: F401
from oneflow.lowering.triton.channels import PreferChannelsLast
from oneflow.lowering.triton.claims import ClaimPositions
from oneflow.lowering.triton.emit import EmitTriton
from oneflow.lowering.triton.insertions import JoinInsertions
from oneflow.lowering.triton.norm import JoinNormGradients
from oneflow.lowering.triton.padded import ComputePadded
from oneflow.lowering.triton.products import JoinProducts
from oneflow.lowering.triton.recognise import RecogniseAttention
from oneflow.lowering.triton.split import MOST_BESIDE, SplitReductions
from oneflow.lowering.triton.templates import OutlineTemplates
from oneflow.lowering.triton.tuning import PROCESSORS
from oneflow.passes import all as all_passes  # noqa: F401
from oneflow.passes.registry import register_pipeline

#: For what programs have beside operators: `arith` and `math` on tensors, and what has no code of its own.
ELEMENTWISE = ("convert-elementwise-to-linalg", "math-expand-ops{ops=clampf,fpowi}")
#: Stages, each with the passes that lead to it from the one before (see `BEFORE`).
STAGES: dict[str, tuple[str, ...]] = {
    "oneflow": ("oneflow-infer-types", "oneflow-canonicalize", "cse"),
    "linalg": ("oneflow-decompose", *ELEMENTWISE, convert.ConvertOneflowToLinalg.name, "canonicalize", "cse"),
    "kernels": (SplitForThreads.name, form.FormKernels.name, share.ShareKernels.name),
    "llvm": (
        emit.EmitKernels.name,
        widen_floats.WidenFloats.name,
        polynomials.ExpandMath.name,
        expand_floats.ExpandFloats.name,
        # Before canonicalization, which joins conversions that are written with instructions of every target.
        "arith-expand{include-bf16=true}",
        "canonicalize",
        "cse",
        "convert-scf-to-cf",
        "expand-strided-metadata",
        "lower-affine",
        "convert-math-to-llvm",
        "convert-math-to-libm",
        "convert-vector-to-llvm",
        "finalize-memref-to-llvm{use-generic-functions=true}",
        "convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}",
        "convert-cf-to-llvm",
        "convert-arith-to-llvm",
        "convert-index-to-llvm",
        "convert-ub-to-llvm",
        "reconcile-unrealized-casts",
        floats_to_bits.FloatsToBits.name,
        launch.DefineLaunches.name,
        set_target.SetTarget.name,
    ),
    "gpu-linalg": (
        RecogniseAttention.name,
        JoinNormGradients.name,
        OutlineTemplates.name,
        PreferChannelsLast.name,
        "oneflow-decompose",
        *ELEMENTWISE,
        convert.ConvertOneflowToLinalg.name,
        "canonicalize",
        "cse",
        JoinInsertions.name,
    ),
    "gpu-kernels": (
        layouts.ChooseLayouts.name,
        JoinProducts.name,
        SplitReductions.name,
        recompute.RecomputeRows.name,
        ComputePadded.name,
        ClaimPositions.name,
        f"{form.FormKernels.name}{{fuse=false siblings=true beside={MOST_BESIDE} processors={PROCESSORS}}}",
    ),
    "triton": (EmitTriton.name,),
}
#: The stage that each follows.
BEFORE = {
    "linalg": "oneflow", "kernels": "linalg", "llvm": "kernels", "gpu-linalg": "oneflow",
    "gpu-kernels": "gpu-linalg", "triton": "gpu-kernels",
}  # fmt: skip


def pipeline_between(after: str | None, last: str) -> str:
    """The pipeline from stage `after` (None: from the program as written) to stage `last`, as text."""
    passes: list[str] = []
    stage: str | None = last
    while stage is not None and stage != after:
        passes, stage = [*STAGES[stage], *passes], BEFORE.get(stage)
    return f"builtin.module({','.join(passes)})"


def _all(stage: str) -> str:
    return pipeline_between(None, stage).removeprefix("builtin.module(").removesuffix(")")


register_pipeline("oneflow-to-llvm", _all("llvm"), "From operators to the LLVM dialect: every stage for the CPU.")
register_pipeline("oneflow-to-triton", _all("triton"), "From operators to Triton kernels and a plan of launches.")
