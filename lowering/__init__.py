"""Lowering: operators to linalg on tensors, linalg to kernels, kernels to LLVM or Triton.

Mechanisms name no operator: what they need of one is in its record. Two folders may name operators. `triton/fusion`
rewrites patterns of operators before kernels are formed, and `triton/templates` has kernels written by hand.
"""
