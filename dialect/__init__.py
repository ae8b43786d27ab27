"""What an operator is: the record, its slots, and the operators themselves, one family per file in `ops/`.

`passes`, `lowering`, `runtime` and `frontend` read the records.
"""
