"""The stages of a program, and the passes between them.

    STAGES["linalg"]                     the passes from the stage before
    pipeline_between("linalg", "llvm")   the pipeline between two stages

Importing this module declares the passes of `lowering`; a pass is imported when a pipeline names it.
"""

from __future__ import annotations

from oneflow.passes import all as all_passes  # noqa: F401  declares the passes of operators
from oneflow.passes.registry import PASSES, register_pipeline

for _package, _modules in {
    "kernels": "choose_layouts form_kernels recompute_rows share_kernels",
    "linalg": "assert_sizes convert_oneflow_to_linalg",
    "llvm": "define_launches emit_kernels expand_floats expand_math floats_to_bits set_target split_for_threads "
    "widen_floats widen_scans",
    "triton.fusion": "deterministic_scatter fuse_padding join_insertions join_norm_gradients join_products "
    "prefer_channels_last recognize_attention split_reductions transpose_operands",
    "triton.launch": "emit_triton",
    "triton.templates": "outline_templates",
}.items():
    PASSES.declare(f"oneflow.lowering.{_package}", _modules.split())

#: Passes for operations of other dialects: `arith` and `math` on tensors, and operations that kernels do not have.
ELEMENTWISE_PASSES = ("convert-elementwise-to-linalg", "math-expand-ops{ops=clampf,fpowi}")
#: The passes from operators to linalg, on every backend.
_LINALG_PASSES = (
    "oneflow-assert-sizes",
    "oneflow-decompose",
    "oneflow-expand-complex",
    *ELEMENTWISE_PASSES,
    "convert-oneflow-to-linalg",
    "canonicalize",
    "cse",
)
#: The passes to each stage from the stage before, which `PREVIOUS_STAGE` names.
STAGES: dict[str, tuple[str, ...]] = {
    "oneflow": ("oneflow-infer-types", "oneflow-canonicalize", "cse"),
    "linalg": _LINALG_PASSES,
    "kernels": (
        "oneflow-widen-scans",
        "oneflow-choose-layouts",
        "oneflow-split-for-threads",
        "oneflow-form-kernels",
        "oneflow-share-kernels",
    ),
    "llvm": (
        "oneflow-emit-kernels",
        "oneflow-widen-floats",
        "oneflow-expand-math",
        "oneflow-expand-floats",
        # Before canonicalization, which would merge conversions of all targets into conversions that some targets
        # lack.
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
        "oneflow-floats-to-bits",
        "oneflow-define-launches",
        "oneflow-set-target",
    ),
    "gpu-linalg": (
        "oneflow-recognize-attention",
        "oneflow-join-norm-gradients",
        "oneflow-outline-templates",
        "oneflow-prefer-channels-last",
        *_LINALG_PASSES,
        "oneflow-join-insertions",
    ),
    "gpu-kernels": (
        "oneflow-choose-layouts{gpu=true}",
        "oneflow-transpose-operands",
        "oneflow-join-products",
        "oneflow-split-reductions",
        "oneflow-recompute-rows",
        "oneflow-fuse-padding",
        "oneflow-deterministic-scatter",
        "oneflow-form-kernels{fuse=false siblings=true gpu=true}",
    ),
    "triton": ("oneflow-emit-triton",),
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
