"""Lowering: operators to linalg on tensors, linalg to kernels, kernels to LLVM or Triton.

No module here names an operator.
"""
