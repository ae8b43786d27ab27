"""Imports every pass of this package, so that it is registered."""

from oneflow.passes import (
    autodiff,
    canonicalize,
    check_collectives,
    decompose,
    infer_sbp,
    infer_types,
    insert_boxing,
    join_boxing,
    to_physical,
)

PASSES = (
    autodiff, canonicalize, decompose, infer_types, infer_sbp, insert_boxing, join_boxing, to_physical,
    check_collectives,
)  # fmt: skip

__all__ = ["PASSES"]
