"""Samples of `dialect/ops/embedding_tables.py`. Samples share no table, since tables outlive a run."""

import json

from oneflow.dialect.dtypes import float16, float32, int64, uint8
from oneflow.testing.sample import Bad, Sample, t, v


def constant(value):
    return {"initializer": {"type": "constant", "value": value}}


#: Two tables of embeddings of two columns, 2 and 1 wide.
TABLES = json.dumps(
    {
        "column_dims": [2, 1],
        "tables": [{"columns": [constant(1), constant(2)]}, {"columns": [constant(3), constant(4)]}],
    }
)
STATES = json.dumps([constant(0.5)["initializer"]])
SIZES = {"line_size": 6, "embedding_size": 3, "embedding_name": "read"}
UNIQUE = [v([2], int64), v([7, -3, 0], int64)]
LOOKUP = {**SIZES, "embedding_tables": TABLES, "state_initializer": STATES}
TYPES = {"dtype": float32, "embeddings_dtype": float16}
FUSED = {"dtype": float32, **SIZES, "embedding_tables": TABLES}
ROWS = {"line_size": 4, "embedding_name": "written"}
STEP = {"line_size": 4, "embedding_size": 4, "embedding_name": "stepped"}
TABLE_IDS = v([1, 0, 0], uint8)

SAMPLES = [
    Sample("embedding_lookup", [*UNIQUE, TABLE_IDS, None], LOOKUP | TYPES),
    Sample("embedding_lookup", [*UNIQUE, TABLE_IDS, v([2], int64)], LOOKUP | TYPES),
    Sample("embedding_prefetch", [*UNIQUE, TABLE_IDS], LOOKUP),
    Sample("embedding_put", [*UNIQUE, t(3, 4, dtype=float32)], ROWS),
    Sample(
        "one_embedding_fused_sgd_update_put",
        [*UNIQUE, t(3, 4, dtype=float32), t(3, 4, dtype=float32), v([0.5], float32)],
        STEP,
    ),
    Sample("one_embedding_fused_lookup", [t(1), v([[1, 5], [5, 9], [2, 2]], int64)], FUSED | {"num_tables": 2}),
    Sample(
        "one_embedding_fused_lookup",
        [t(1), v([1, 5, 9], int64), TABLE_IDS],
        FUSED | {"has_padding_idx": True, "padding_idx": 5},
    ),
]
BAD = [
    Bad("embedding_lookup", [*UNIQUE, v([1, 0], uint8), None], LOOKUP | TYPES, match="expected table_ids of type"),
    Bad("embedding_lookup", [*UNIQUE, TABLE_IDS], LOOKUP | TYPES | {"line_size": 5}, match="of 2 embeddings"),
    Bad("embedding_lookup", [*UNIQUE, TABLE_IDS], LOOKUP | TYPES | {"embedding_tables": "{}"}, match="tables as"),
    Bad("embedding_lookup", [*UNIQUE, TABLE_IDS], LOOKUP | TYPES | {"dtype": int64}, match="a floating-point type"),
    Bad(
        "embedding_prefetch", [*UNIQUE, TABLE_IDS], LOOKUP | {"state_initializer": '[{"type": "even"}]'},
        match="expected an initializer of one of uniform with low, high",
    ),
    Bad("embedding_put", [*UNIQUE, t(2, 4)], ROWS, match="the rows of unique_embeddings to be 3, got 2"),
    Bad("embedding_put", [*UNIQUE, t(3, 5)], ROWS, match="expected rows of line_size, 4"),
    Bad("embedding_put", [v([1, 2], int64), UNIQUE[1], t(3, 4)], ROWS, match="num_unique_ids of one element"),
    Bad(
        "one_embedding_fused_sgd_update_put", [*UNIQUE, t(3, 4), t(3, 4), t(1)], STEP | {"embedding_size": 2},
        match="expected rows without states",
    ),
    Bad("one_embedding_fused_lookup", [t(1), v([1, 5, 9], int64)], FUSED | {"num_tables": 2}, match="a column"),
    Bad("one_embedding_fused_lookup", [t(1), t(3)], FUSED, match="expected ids of type"),
]  # fmt: skip
