"""From operators to linalg on tensors: one rule per primitive of the compute algebra.

`convert` is the pass, `legal` what no program may have. `rules` holds the rules, `stages` what they are written
with: `generic` decides which element reads are operands, `bodies` writes the insides of loops in arith and math
through `scalars`, `hoist` makes checks once, `regroup` splits and merges dimensions. `sizes` computes extents outside
of loops, `checks` makes the checks of the run, `emit` single operations.
"""
