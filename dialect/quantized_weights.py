"""Weights of few bits: what operators and kernels know of the numbers."""

from __future__ import annotations


def zero_point(is_unsigned: bool, bits: int, symmetric: bool) -> int:
    """The zero point that all groups share: the middle of unsigned numbers in a symmetric quantization, or else 0."""
    return 2 ** (bits - 1) - 1 if symmetric and is_unsigned else 0
