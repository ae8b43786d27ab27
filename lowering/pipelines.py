"""The stages of a program, and the passes between them.

    STAGES["linalg"]                     the passes from the stage before
    pipeline_between("linalg", "llvm")   the pipeline between two stages

Importing this module registers the passes of `lowering`.
"""

from __future__ import annotations

from oneflow.lowering.kernels import choose_layouts, form_kernels, recompute_rows, share_kernels
from oneflow.lowering.linalg import convert_oneflow_to_linalg
from oneflow.lowering.llvm import (
    define_launches,
    emit_kernels,
    expand_floats,
    expand_math,
    floats_to_bits,
    set_target,
    widen_floats,
    widen_scans,
)
from oneflow.lowering.llvm.split_for_threads import SplitForThreads
from oneflow.lowering.triton.fusion.deterministic_scatter import DeterministicScatter
from oneflow.lowering.triton.fusion.fuse_padding import FusePadding
from oneflow.lowering.triton.fusion.join_insertions import JoinInsertions
from oneflow.lowering.triton.fusion.join_norm_gradients import JoinNormGradients
from oneflow.lowering.triton.fusion.join_products import JoinProducts
from oneflow.lowering.triton.fusion.prefer_channels_last import PreferChannelsLast
from oneflow.lowering.triton.fusion.recognise_attention import RecogniseAttention
from oneflow.lowering.triton.fusion.split_reductions import EPILOGUE, SplitReductions
from oneflow.lowering.triton.launch.emit_triton import EmitTriton
from oneflow.lowering.triton.templates import attention  # noqa: F401
from oneflow.lowering.triton.templates.outline_templates import OutlineTemplates
from oneflow.passes import all as all_passes  # noqa: F401
from oneflow.passes.registry import register_pipeline

#: Passes for operations of other dialects: `arith` and `math` on tensors, and operations that kernels do not have.
ELEMENTWISE_PASSES = ("convert-elementwise-to-linalg", "math-expand-ops{ops=clampf,fpowi}")
#: The passes to each stage from the stage before, which `PREVIOUS_STAGE` names.
STAGES: dict[str, tuple[str, ...]] = {
    "oneflow": ("oneflow-infer-types", "oneflow-canonicalize", "cse"),
    "linalg": (
        "oneflow-decompose",
        *ELEMENTWISE_PASSES,
        convert_oneflow_to_linalg.ConvertOneflowToLinalg.name,
        "canonicalize",
        "cse",
    ),
    "kernels": (
        widen_scans.WidenScans.name,
        SplitForThreads.name,
        form_kernels.FormKernels.name,
        share_kernels.ShareKernels.name,
    ),
    "llvm": (
        emit_kernels.EmitKernels.name,
        widen_floats.WidenFloats.name,
        expand_math.ExpandMath.name,
        expand_floats.ExpandFloats.name,
        # Before canonicalization, which would merge conversions that all targets have into ones that some lack.
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
        define_launches.DefineLaunches.name,
        set_target.SetTarget.name,
    ),
    "gpu-linalg": (
        RecogniseAttention.name,
        JoinNormGradients.name,
        OutlineTemplates.name,
        PreferChannelsLast.name,
        "oneflow-decompose",
        *ELEMENTWISE_PASSES,
        convert_oneflow_to_linalg.ConvertOneflowToLinalg.name,
        "canonicalize",
        "cse",
        JoinInsertions.name,
    ),
    "gpu-kernels": (
        choose_layouts.ChooseLayouts.name,
        JoinProducts.name,
        SplitReductions.name,
        recompute_rows.RecomputeRows.name,
        FusePadding.name,
        DeterministicScatter.name,
        f"{form_kernels.FormKernels.name}{{fuse=false siblings=true epilogue={EPILOGUE} gpu=true}}",
    ),
    "triton": (EmitTriton.name,),
}
#: The stage before each stage.
PREVIOUS_STAGE = {
    "linalg": "oneflow", "kernels": "linalg", "llvm": "kernels", "gpu-linalg": "oneflow",
    "gpu-kernels": "gpu-linalg", "triton": "gpu-kernels",
}  # fmt: skip


def pipeline_between(after: str | None, last: str) -> str:
    """The text of the pipeline from stage `after` (None: from the program as written) to stage `last`."""
    passes: list[str] = []
    stage: str | None = last
    while stage is not None and stage != after:
        passes, stage = [*STAGES[stage], *passes], PREVIOUS_STAGE.get(stage)
    return f"builtin.module({','.join(passes)})"


def _passes_to(stage: str) -> str:
    return pipeline_between(None, stage).removeprefix("builtin.module(").removesuffix(")")


register_pipeline(
    "oneflow-to-llvm", _passes_to("llvm"), "From operators to the LLVM dialect: every stage for the CPU."
)
register_pipeline(
    "oneflow-to-triton", _passes_to("triton"), "From operators to Triton kernels and a plan of launches."
)
