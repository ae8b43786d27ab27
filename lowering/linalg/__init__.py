"""From operators to linalg on tensors: one rule per primitive of the compute algebra.

`convert` is the pass; `stages` holds the rules of primitives, `generic` builds loops and decides which element
reads are operands, `reshape` regroups dimensions, `sizes` computes extents outside of loops, `scalars` writes
expressions in arith and math, `checks` the checks made at run time, `emit` single operations.
"""
