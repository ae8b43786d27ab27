"""Declares every pass of this package, so that pipelines find each pass by name."""

from oneflow.passes.registry import PASSES

PASSES.declare(
    "oneflow.passes",
    """autodiff canonicalize decompose expand_complex infer_types infer_sbp insert_boxing join_boxing to_physical
    check_collectives""".split(),
)
