"""From operators to linalg on tensors: one rule per primitive of the compute algebra.

`convert_oneflow_to_linalg` is the pass, `legality` refuses other operations. `rules` has the rules, which build the
stages of a call with `stages`. `operand_maps` decides which element reads are operands of a `linalg.generic`,
`bodies` writes bodies in arith and math through `scalars`, `hoist_checks` moves checks out of loops, `reassociation`
collapses and expands dimensions. `sizes` computes extents outside of loops, `checks` writes run-time checks,
`foreign_checks` checks of operations of other dialects, `emit` single operations. `external` and `control` emit calls
of functions that are declared alone (`declared_calls`); `control_declarations` reads declarations of control flow.

`shape_guards` and `shape_assertions` check what types require of dynamic sizes, `dynamic_sizes` before operators are
converted: `assert_sizes` is the pass that does so for composite operators.
"""
