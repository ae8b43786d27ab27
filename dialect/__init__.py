"""The definition of operators: the record, its slots, and the operators, one family per file in `ops/`.

`passes`, `lowering`, `runtime` and `frontend` read the records.
"""
