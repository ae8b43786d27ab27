"""Imports every pass of this package, so that it is registered."""

from oneflow.passes import autodiff, canonicalize, decompose, infer_types

PASSES = (autodiff, canonicalize, decompose, infer_types)

__all__ = ["PASSES"]
