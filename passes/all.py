"""Imports every pass of this package, so that it is registered."""

from oneflow.passes import canonicalize, decompose, infer_types

PASSES = (canonicalize, decompose, infer_types)

__all__ = ["PASSES"]
