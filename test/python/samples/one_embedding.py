"""Samples of rows of tables of embeddings."""

from oneflow.dialect.dtypes import float16, float32, int32, int64, uint8, uint32
from oneflow.testing.sample import Bad, Sample, t, v

NAME = {"embedding_name": "table"}
IDS = v([[7, 2], [7, 9], [3, 2]], int64)
TABLES = v([[1, 0], [1, 2], [3, 0]], uint8)
PADDED = {**NAME, "has_padding_idx": True, "padding_idx": 7}
ABSENT = {**NAME, "has_padding_idx": True, "padding_idx": 4}
#: Results of `id_shuffle` for `IDS` with padding: 2, 3 and 9 are distinct.
COUNT, AT, OWN = v([3], uint32), v([[-1, 0], [-1, 2], [1, 0]], uint32), v([0, 1, 2, 0, 0, 0], uint32)
ROW = {"line_size": 2, "embedding_size": 2, **NAME, "learning_rate_val": 0.5}
#: Gradients of two equal ids, and the results of `id_shuffle` for the ids.
PAIRS = [t(2, 2), v([1], uint32), v([0, 0], uint32), v([0, 0], uint32)]
TWO, THREE = {**ROW, "line_size": 4}, {**ROW, "line_size": 6}
USED = v([2], uint32)
RATE, SCALE, GO = v([0.25], float32), v([2.0]), v([0], int64)
HALF = (float32, float16)
SKIP = v([1], int64)

SAMPLES = [
    Sample("unique_key_value_pair", [IDS, TABLES], NAME),
    Sample("unique_key_value_pair", [IDS], {**PADDED, "num_tables": 2}),
    Sample("unique_key_value_pair", [v([4, 1, 4], int32), v([2, 1, 2], int64)], {**ABSENT, "padding_idx": 5}),
    Sample("unique_key_value_pair", [v([4, 4], int32)], ABSENT),
    Sample("id_shuffle", [IDS, TABLES], NAME),
    Sample("id_shuffle", [IDS], PADDED),
    Sample("id_shuffle_copy_out", [COUNT, AT, COUNT, t(6, dtype=int64), t(6, dtype=uint8), OWN], NAME),
    Sample(
        "one_embedding_gather",
        [t(6, 2), v([[0, 5], [3, -1], [1, 1]], int32)],
        {"embedding_size": 2, **NAME},
        dtypes=HALF,
    ),
    Sample("embedding_shuffle", [t(6, 2), COUNT, OWN, AT], {"embedding_size": 2, **NAME}, dtypes=HALF),
    Sample("embedding_shuffle", [t(6, 2), COUNT, OWN, AT], {"embedding_size": 2, **NAME, "skip_last_gather": True}),
    Sample("embedding_gradient_shuffle", PAIRS, {"embedding_size": 2, **NAME}, dtypes=HALF),
    Sample("embedding_gradient_shuffle", PAIRS, {**NAME, "skip_first_scatter": True}),
    Sample("embedding_gradient_shuffle", [t(1, 2, 2), v([1], uint32), v([0, 0], uint32), v([[0, -1]], uint32)], NAME),
    Sample("one_embedding_sgd_update", [USED, t(3, 2), t(3, 2)], {**ROW, "l1": 0.1}, dtypes=HALF),
    Sample("one_embedding_sgd_update", [USED, t(2, 2), t(2, 2), RATE, SCALE, v([4.0]), GO], {**ROW, "l1": 0.1}),
    Sample("one_embedding_momentum_update", [USED, t(3, 4), t(3, 2)], {**TWO, "l1": 0.1}, dtypes=HALF),
    Sample(
        "one_embedding_momentum_update",
        [USED, t(2, 2), t(2, 1), None, None, None, SKIP],
        {**ROW, "embedding_size": 1},
    ),
    Sample("one_embedding_adam_update", [USED, t(3, 6, low=0.1), t(3, 2)], {**THREE, "epsilon": 0.5}, dtypes=HALF),
    Sample(
        "one_embedding_adagrad_update", [USED, t(3, 4, low=0.1), t(3, 2)], {**TWO, "epsilon": 0.5, "lr_decay": 0.5}
    ),
    Sample("one_embedding_ftrl_update", [USED, t(3, 6, low=0.1), t(3, 2)], {**THREE, "lr_power": 0.5, "beta": 1.0}),
]
BAD = [
    Bad(
        "unique_key_value_pair",
        [t(3, dtype=int64)],
        {**NAME, "num_tables": 2},
        match="with a column for each of 2 tables",
    ),
    Bad("id_shuffle", [IDS, t(3, dtype=uint8)], NAME, match="expected table_ids of type tensor<3x2xui8>"),
    Bad(
        "one_embedding_gather",
        [t(6, 2), IDS],
        {"embedding_size": 3, **NAME},
        match="expected the columns of in to be 3",
    ),
    Bad(
        "embedding_shuffle",
        [t(6, 2), t(4, dtype=uint32), OWN, AT],
        {"embedding_size": 2, **NAME},
        match="of one rank",
    ),
    Bad(
        "embedding_gradient_shuffle", [t(5), COUNT, OWN, AT], NAME, match="expected a row of embedding_grad for each"
    ),
    Bad(
        "one_embedding_sgd_update",
        [USED, t(3, 2), t(3, 2)],
        {**ROW, "line_size": 4},
        match="expected a line_size of 1 times",
    ),
    Bad(
        "one_embedding_adam_update",
        [USED, t(3, 6), t(2, 2)],
        THREE,
        match="expected the rows of embedding_grad to be 3",
    ),
]
