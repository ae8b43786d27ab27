"""Lowering: operators to linalg on tensors, linalg to kernels, kernels to LLVM or Triton.

Mechanisms name no operator: they read the properties of an operator from its record. Two folders may name operators.
`triton/fusion` rewrites patterns of operators before kernels are formed, and `triton/templates` has hand-written
kernels.
"""
