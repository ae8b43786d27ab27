"""From kernels to LLVM: loop emission, the plan of the entry, polynomials, launches."""
