"""Tables of embeddings: initial rows, and ordered reads and writes of rows."""

import json

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect import embedding_tables
from oneflow.dialect.embedding_tables import Table, initial_rows, read_initializers, table
from oneflow.dialect.philox import numpy_philox

IDS = np.asarray([3, -1, 2**40, 7])


def rows_of(initializer, ids=IDS, seed=5, states="", line_size=6):
    tables = json.dumps({"column_dims": [6], "tables": [{"columns": [{"initializer": initializer}]}]})
    initializers = read_initializers(tables, states, 6, line_size)
    return initial_rows(ids, np.zeros(len(ids), int), initializers, line_size, seed)


def word(number, offset, seed):
    """Word `offset` of the sequence of an id, as cuRAND counts."""
    counter = [offset // 4, 0, number % 2**32, number % 2**64 // 2**32]
    return int(numpy_philox([np.uint64(c) for c in counter], seed)[offset % 4])


def test_uniform_rows_are_the_words_of_the_generator():
    rows = rows_of({"type": "uniform", "low": -1.0, "high": 3.0})
    want = [[word(int(i), column, 5) / 2**32 * 4 - 1 for column in range(6)] for i in IDS]
    np.testing.assert_allclose(rows, want, atol=1e-6)


def test_normal_rows_are_pairs_of_words():
    rows = rows_of({"type": "normal", "mean": 2.0, "std": 0.5})
    words = np.asarray([[[word(int(i), column + k, 5) / 2**32 for k in (0, 1)] for column in range(6)] for i in IDS])
    want = np.sqrt(-2 * np.log(words[..., 0])) * np.sin(2 * np.pi * words[..., 1]) * 0.5 + 2
    np.testing.assert_allclose(rows, want, atol=1e-4)


def test_rows_have_the_stated_distributions():
    ids = np.arange(2000)
    normal = rows_of({"type": "normal", "mean": 1.0, "std": 0.1}, ids)
    assert abs(normal.mean() - 1) < 0.005 and abs(normal.std() - 0.1) < 0.005
    cut = rows_of({"type": "trunc_normal", "mean": 0.0, "std": 1.0, "a": -0.5, "b": 0.25}, ids)
    assert -0.5 <= cut.min() < -0.49 and 0.24 < cut.max() <= 0.25
    half = rows_of({"type": "trunc_normal", "mean": 0.0, "std": 1.0, "a": 0.0, "b": 9.0}, ids)
    assert abs(half.mean() - np.sqrt(2 / np.pi)) < 0.03


def test_rows_follow_from_id_and_seed_alone():
    one = rows_of({"type": "uniform", "low": 0, "high": 1}, np.asarray([7, 3]))
    other = rows_of({"type": "uniform", "low": 0, "high": 1}, np.asarray([3]))
    np.testing.assert_array_equal(one[1:], other)
    assert (rows_of({"type": "uniform", "low": 0, "high": 1}, np.asarray([3]), seed=6) != other).all()


def test_empty_bounds_of_truncated_normal_are_refused():
    with pytest.raises(ValueError, match="expected bounds that a normal number falls between"):
        rows_of({"type": "trunc_normal", "mean": 0, "std": 1e-9, "a": 1, "b": 2})


def test_states_lie_behind_the_embedding():
    rows = rows_of({"type": "constant", "value": 2}, states='[{"type": "constant", "value": 7}]', line_size=13)
    np.testing.assert_array_equal(rows[0], [2] * 6 + [7] * 6 + [0])


@pytest.mark.parametrize(
    ("tables", "states"),
    [
        ("[]", ""), ("3", ""), ('{"column_dims": [6], "tables": [{"columns": [{}]}]}', ""), ("{", ""),
        ('{"column_dims": [], "tables": []}', ""), ('{"column_dims": [6], "tables": 4}', ""),
        ('{"column_dims": [6], "tables": [{"columns": [{"initializer": 4}]}]}', ""),
        ('{"column_dims": [6], "tables": []}', "4"),
    ],
)  # fmt: skip
def test_invalid_tables_are_refused(tables, states):
    with pytest.raises(ValueError, match=r"^expected"):
        read_initializers(tables, states, 6, 6)


def test_rows_survive_growth_and_snapshots(tmp_path):
    kept = Table("kept", 2, np.dtype(np.float32))
    for start in range(0, 50, 5):
        ids = np.arange(start, start + 5)
        kept.write(ids, np.stack([ids, -ids], 1).astype(np.float32))
    kept.save(tmp_path / "one")
    kept.write(np.asarray([3, 3]), np.asarray([[1, 1], [2, 2]], np.float32))
    initial = np.full((3, 2), 9, np.float32)
    np.testing.assert_array_equal(kept.read(np.asarray([3, 49, 50]), initial), [[2, 2], [49, -49], [9, 9]])
    kept.load(tmp_path / "one")
    np.testing.assert_array_equal(kept.read(np.asarray([3, 49, 50]), initial), [[3, -3], [49, -49], [9, 9]])
    with pytest.raises(ValueError, match="expected rows of 3 float32"):
        Table("other", 3, np.dtype(np.float32)).load(tmp_path / "one")


def test_unsigned_ids_of_64_bits(tmp_path):
    kept, ids = Table("unsigned", 1, np.dtype(np.float32)), np.asarray([2**64 - 1, 3], np.uint64)
    kept.write(ids, np.asarray([[5], [6]], np.float32))
    kept.save(tmp_path)
    kept.load(tmp_path)
    np.testing.assert_array_equal(kept.read(ids, np.zeros((2, 1))), [[5], [6]])


def test_tables_of_one_name_have_one_row_size():
    table("sized", 4, np.float32)
    with pytest.raises(ValueError, match="expected rows of 4 float32, as in the table 'sized', got 5 float32"):
        table("sized", 5, np.float32)


ONES = json.dumps({"column_dims": [2], "tables": [{"columns": [{"initializer": {"type": "constant", "value": 1}}]}]})
LOOKUP = {"dtype": flow.float32, "line_size": 2, "embedding_size": 2, "embedding_tables": ONES}


@pytest.mark.parametrize("device", ["eager", "cpu"])
def test_programs_read_and_write_in_order(device):
    """Reads before and behind a write without users: equal reads are not merged, the write stays."""
    name = f"ordered {device}"
    embedding_tables.drop(name)

    def step(count, ids, rows, shadow):
        def read():
            return flow.ops.one_embedding_fused_lookup(shadow, ids, None, embedding_name=name, **LOOKUP)

        before = read()
        flow.ops.embedding_put(count, ids, rows, line_size=2, embedding_name=name)
        return before, read()

    run = step if device == "eager" else flow.compile(step, device=device)
    ids, count, shadow = np.asarray([4, 9]), np.asarray([2]), np.zeros(1, np.float32)
    last = np.ones((2, 2), np.float32)
    for number in range(3):
        rows = np.full((2, 2), number, np.float32)
        before, after = (np.asarray(x) for x in run(*map(flow.tensor, (count, ids, rows, shadow))))
        np.testing.assert_array_equal(before, last)
        np.testing.assert_array_equal(after, rows)
        last = rows
    assert len(table(name, 2, np.float32)) == 2
