"""What an operator is: the record, its slots, and the operators themselves, one family per file in `ops/`.

Imports no other folder. `passes`, `lowering`, `runtime` and `frontend` read the records.
"""
