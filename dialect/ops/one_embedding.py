"""Rows of embedding tables: distinct ids, rows for each id, gradients by row, and updates of rows.

The tables are outside of the program. A program receives the rows of distinct ids and returns new rows. A row has
`line_size` numbers: `embedding_size` of the embedding, then the states of the optimizer. Ids are not exchanged
between ranks: every rank has the rows of all ids. Updates do not change the padding after the rows of distinct ids.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.ops.interpolation import static_shape
from oneflow.dialect.ops.row_normalization import expect_type, letters
from oneflow.dialect.ops.softmax import narrow
from oneflow.dialect.ops.update import NO_GRAD
from oneflow.dialect.record import REGISTRY, Call, Rule, no_grad, no_sbp
from oneflow.dialect.sbp import B, Factors, P, SbpSignature, all_broadcast, with_partial_shape_operands
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

INT64, UINT8 = dtypes.int64, dtypes.uint8
COUNTS = (dtypes.uint32, dtypes.int32, dtypes.int64)
NAME = "embedding_name: string"


def _iota(ops: Builder, size: int) -> Value:
    """The integers from 0 to `size` - 1 (i64)."""
    numbers: Value = ops.arange(dtype=INT64, integer_delta=1, integer_limit=size)
    return numbers


# Distinct ids


def _check_ids(op: Call) -> None:
    name, tables = ("keys", "values") if "keys" in op.inputs else ("ids", "table_ids")
    ids = op[name]
    expect_dtype(op, name, ids, dtypes.INTEGERS)
    shape = static_shape(op, name)
    if op[tables] is not None:
        expect_type(op, tables, TensorDesc(shape, op[tables].dtype))
    elif op.num_tables > 1 and (len(shape) != 2 or shape[1] != op.num_tables):
        raise op.error(f"expected {name} with a column for each of {op.num_tables} tables, got {ids}")
    if op.num_tables < 1:
        raise op.error(f"expected num_tables of at least 1, got {op.num_tables}")


def _distinct(ops: Builder, op: Call, ids: Value, tables: Value | None) -> tuple[Value, Value, Value, Value]:
    """Distinct ids without the padding, followed by zeros; the table of each distinct id; the index of each id among
    the distinct ids; the number of distinct ids.
    """
    size = math.prod(n or 0 for n in ids.shape)
    flat, numbers = ops.reshape(ids, shape=[size]), _iota(ops, size)
    if tables is None:
        tables = ops.cast(ops.scalar_fmod(numbers, has_int_operand=True, int_operand=op.num_tables), dtype=UINT8)
    flat_tables = ops.reshape(tables, shape=[size])
    found, inverse, total = ops.unique(flat, out_idx=INT64)
    at = ops.reshape(inverse, shape=[size, 1])
    places = ops.tensor_scatter_nd_update(ops.zero_like(numbers), numbers, at)
    if op.has_padding_idx:
        padding = ops.scalar_logical_equal(flat, has_int_operand=True, int_operand=op.padding_idx)
        # The position of the padding among the distinct ids; after the ids if it does not occur.
        hole = ops.reduce_min(ops.where(padding, inverse, ops.zero_like(inverse) + size), axis=[0], keepdims=True)
        step = ops.cast(ops.broadcast_greater_equal(numbers, hole), dtype=INT64)
        source = ops.clip_by_scalar_max(numbers + step, integral_max=size - 1)
        found, places = (ops.gather(v, source, axis=0) for v in (found, places))
        behind = ops.cast(ops.broadcast_greater(inverse, hole), dtype=INT64)
        inverse = ops.where(padding, ops.zero_like(inverse) - 1, inverse - behind)
        total = total - ops.cast(ops.scalar_logical_less(hole, has_int_operand=True, int_operand=size), dtype=INT64)
    held = ops.broadcast_less(numbers, total)
    found, tables = (ops.where(held, v, ops.zero_like(v)) for v in (found, ops.gather(flat_tables, places, axis=0)))
    return found, tables, ops.reshape(inverse, shape=list(ids.shape)), total


def _numpy_distinct(ids: Any, tables: Any, attrs: Any) -> tuple[Any, Any, Any, int]:
    flat = ids.reshape(-1)
    rows = (np.arange(flat.size) % attrs["num_tables"]).astype(np.uint8) if tables is None else tables.reshape(-1)
    keys = [k for k in np.unique(flat) if not (attrs["has_padding_idx"] and k == attrs["padding_idx"])]
    order = {key: index for index, key in enumerate(keys)}
    inverse = np.asarray([order.get(key, -1) for key in flat], np.int64).reshape(ids.shape)
    found, chosen = np.zeros_like(flat), np.zeros_like(rows)
    found[: len(keys)] = keys
    for key, row in zip(flat, rows, strict=True):
        if key in order:
            chosen[order[key]] = row
    return found, chosen, inverse, len(keys)


def _write_unique(ops: Builder, op: Call) -> tuple[Value, ...]:
    found, tables, inverse, total = _distinct(ops, op, op.keys, op.values)
    return narrow(ops, total, dtypes.int32), found, tables, narrow(ops, inverse, dtypes.int32)


def _numpy_pairs(keys: Any, values: Any, **attrs: Any) -> tuple[Any, ...]:
    found, tables, inverse, count = _numpy_distinct(keys, values, attrs)
    return np.asarray([count], np.int32), found, tables, inverse.astype(np.int32)


def _write_shuffle(ops: Builder, op: Call) -> tuple[Value, ...]:
    found, tables, inverse, total = _distinct(ops, op, op.ids, op.table_ids)
    size = found.shape[0] or 0
    numbers = _iota(ops, size)
    own = ops.where(ops.broadcast_less(numbers, total), numbers, ops.zero_like(numbers))
    count, at, own = (narrow(ops, v, dtypes.uint32) for v in (total, inverse, own))
    return count, at, count, found, tables, own


def _numpy_shuffle(ids: Any, table_ids: Any, **attrs: Any) -> tuple[Any, ...]:
    found, tables, inverse, count = _numpy_distinct(ids, table_ids, attrs)
    total, numbers = np.asarray([count], np.uint32), np.arange(ids.size, dtype=np.uint32)
    return total, inverse.astype(np.uint32), total, found, tables, np.where(numbers < count, numbers, np.uint32(0))


def _id_signatures(op: Call) -> list[SbpSignature]:
    """Compares each id with all other ids; the tables of distinct ids are gathered from the tables of all ids."""
    tables = op.inputs.get("values", op.inputs.get("table_ids"))
    named = op.record.signature.outputs
    outs = tuple(P if arg.name in ("unique_values", "cur_rank_unique_table_ids") else B for arg in named)
    return [] if tables is None else [SbpSignature((B, P), outs)]


IDS = f"num_tables: int32 = 1, padding_idx: int64 = -1, has_padding_idx: bool = False, {NAME}"
SHUFFLED = (
    "num_unique_matrix", "inverse_unique_partition_indices", "cur_rank_num_unique", "cur_rank_unique_ids",
    "cur_rank_unique_table_ids", "cur_rank_inverse_indices",
)  # fmt: skip
composite(
    f"unique_key_value_pair(keys, values?, {IDS}) -> num_unique, unique_keys, unique_values, inverse_indices",
    "The number of distinct keys; the distinct keys in ascending order, followed by zeros; a value of each distinct"
    " key; the index of each key.\n\nThe default of `values` is the columns of the keys. With `has_padding_idx`"
    " `padding_idx` is not a key and has the index -1.",
    write=_write_unique, reference=_numpy_pairs, check=_check_ids, sbp=_id_signatures,
    grad=no_grad("the results are integers"),
)  # fmt: skip
composite(
    f"id_shuffle(ids, table_ids?, {IDS}) -> {', '.join(SHUFFLED)}",
    "`unique_key_value_pair` of ids and tables. All ids belong to this rank, in the order of both inverses.\n\n"
    "The position of padding is the largest number of u32.",
    write=_write_shuffle, reference=_numpy_shuffle, check=_check_ids, sbp=_id_signatures,
    grad=no_grad("the results are integers"),
)  # fmt: skip
composite(
    f"id_shuffle_copy_out({', '.join(SHUFFLED)}, {NAME}) -> {', '.join(f'out_{n}' for n in SHUFFLED)}",
    "The results of `id_shuffle`.",
    write=lambda ops, op: tuple(op[n] for n in SHUFFLED), reference=lambda *results: results,
    sbp=no_sbp("results of `id_shuffle` stay together"), grad=no_grad("the operands are integers"),
    unoffered="every combination of layouts, since results of `id_shuffle` stay together",
)  # fmt: skip


# Rows of ids


def _check_rows(op: Call) -> None:
    name = next(n for n in ("in", "cur_rank_embeddings", "embedding_grad") if n in op.inputs)
    expect_dtype(op, name, op[name], dtypes.FLOATS)
    static_shape(op, name)
    for index in ("indices", "num_unique_matrix", "cur_rank_inverse_indices", "inverse_unique_partition_indices"):
        if index in op.inputs:
            expect_dtype(op, index, op[index], COUNTS)
            static_shape(op, index)
    if name != "embedding_grad":
        expect_rank(op, name, op[name], 2)
        expect_dim(op, f"the columns of {name}", op[name].shape[1], op.embedding_size)
    if "num_unique_matrix" in op.inputs and op.num_unique_matrix.element_count not in (1, None):
        raise op.error(f"expected num_unique_matrix of one rank, got {op.num_unique_matrix}")


def _read(ops: Builder, table: Value, indices: Value) -> Value:
    """Rows of a table; zeros for padding, whose position is not in the table."""
    size, at = table.shape[0] or 0, narrow(ops, indices, INT64)
    inside = _inside(ops, at, size)
    rows = ops.gather(table, ops.where(inside, at, ops.zero_like(at)), axis=0)
    mask = ops.call("expand_dims", inside, axis=indices.rank)[0]
    read: Value = ops.where(mask, rows, ops.zero_like(rows))
    return read


def _inside(ops: Builder, at: Value, size: int) -> Value:
    """A mask of the positions that are positions of rows."""
    first, behind = {"has_int_operand": True, "int_operand": 0}, {"has_int_operand": True, "int_operand": size}
    inside: Value = ops.broadcast_logical_and(
        ops.scalar_logical_greater_equal(at, **first), ops.scalar_logical_less(at, **behind)
    )
    return inside


def _numpy_read(table: Any, indices: Any) -> Any:
    at = indices.astype(np.int64)
    inside = (at >= 0) & (at < len(table))
    return np.where(inside[..., None], table[np.where(inside, at, 0)], np.zeros((), table.dtype))


def _sum_rows(ops: Builder, rows: Value, indices: Value, size: int) -> Value:
    """The sums of rows of equal positions; rows of padding are left out."""
    at = narrow(ops, indices, INT64)
    inside = _inside(ops, at, size)
    counted = ops.where(ops.call("expand_dims", inside, axis=1)[0], rows, ops.zero_like(rows))
    at = ops.where(inside, at, ops.zero_like(at))
    sums: Value = ops.unsorted_segment_sum(counted, at, num_segments=size)
    return sums


def _numpy_sum_rows(rows: Any, indices: Any, size: int) -> Any:
    at, sums = indices.astype(np.int64), np.zeros((size, rows.shape[1]))
    inside = (at >= 0) & (at < size)
    np.add.at(sums, at[inside], rows[inside].astype(np.float64))
    return sums


def _gather_factors(op: Call) -> Factors:
    names = letters(op.indices.rank, op.indices.rank)
    return Factors(f"_ _, {names} -> {names} _").linear_in(op, "in")


composite(
    f"one_embedding_gather(in, indices, embedding_size: int64 = 0, {NAME}) -> out",
    "The rows of `in` at `indices`; zeros for padding, whose index is out of range.",
    write=lambda ops, op: _read(ops, op.in_, op.indices), check=_check_rows, sbp=_gather_factors,
    reference=lambda x, indices, **_: _numpy_read(x, indices),
)  # fmt: skip


def _write_embeddings(ops: Builder, op: Call) -> Value:
    rows = _read(ops, op.cur_rank_embeddings, op.cur_rank_inverse_indices)
    if not op.skip_last_gather:
        return _read(ops, rows, op.inverse_unique_partition_indices)
    shape = [*op.inverse_unique_partition_indices.shape, op.embedding_size]
    embeddings: Value = ops.reshape(rows, shape=shape)
    return embeddings


def _numpy_embeddings(table: Any, matrix: Any, own: Any, at: Any, *, skip_last_gather: Any) -> Any:
    rows = _numpy_read(table, own)
    return rows.reshape(*at.shape, table.shape[1]) if skip_last_gather else _numpy_read(rows, at)


def _unread_last(op: Call, factors: Factors, unread: bool) -> list[SbpSignature]:
    """The signatures of factors; if the last operand is `unread`, the last operand may be partial sums."""
    found = [*factors.signatures([x.shape for x in op.operands]), all_broadcast(4, 1)]
    return [*found, *with_partial_shape_operands(found, [3])] if unread else found


def _embedding_signatures(op: Call) -> list[SbpSignature]:
    rank = op.inverse_unique_partition_indices.rank
    names = " ".join("_" * rank) if op.skip_last_gather else letters(rank, rank)
    ranks = (op.num_unique_matrix.rank, op.cur_rank_inverse_indices.rank)
    wholes = ", ".join(" ".join("_" * r) for r in ranks)
    factors = Factors(f"_ _, {wholes}, {names} -> {names} _").linear_in(op, "cur_rank_embeddings")
    return _unread_last(op, factors, op.skip_last_gather)


def _gradient_signatures(op: Call) -> list[SbpSignature]:
    ids, grad = op.inverse_unique_partition_indices, op.embedding_grad
    is_row = grad.rank == ids.rank + 1 and grad.shape[:-1] == ids.shape
    rows = " ".join(["_"] * (grad.rank - 1) + ["d" if is_row else "_"])
    wholes = ", ".join(" ".join("_" * x.rank) for x in op.operands[1:])
    factors = Factors(f"{rows}, {wholes} -> _ {'d' if is_row else '_'}").linear_in(op, "embedding_grad")
    return _unread_last(op, factors, op.skip_first_scatter)


def _write_gradients(ops: Builder, op: Call) -> Value:
    own, at = op.cur_rank_inverse_indices, op.inverse_unique_partition_indices
    size = math.prod(n or 0 for n in at.shape)
    width = math.prod(n or 0 for n in op.embedding_grad.shape) // max(size, 1)
    rows = ops.reshape(op.embedding_grad, shape=[size, width])
    if not op.skip_first_scatter:
        rows = _sum_rows(ops, rows, ops.reshape(at, shape=[size]), size)
    count = ops.reshape(narrow(ops, op.num_unique_matrix, INT64), shape=[1])
    numbers = _iota(ops, size)
    places = ops.where(ops.broadcast_less(numbers, count), narrow(ops, own, INT64), ops.zero_like(numbers) - 1)
    return _sum_rows(ops, rows, places, own.shape[0] or 0)


def _numpy_gradients(grad: Any, matrix: Any, own: Any, at: Any, *, skip_first_scatter: Any) -> Any:
    rows = grad.reshape(at.size, -1)
    if not skip_first_scatter:
        rows = _numpy_sum_rows(rows, at.reshape(-1), at.size)
    places = np.where(np.arange(at.size) < int(matrix.reshape(())), own.astype(np.int64), -1)
    return _numpy_sum_rows(rows, places, own.size).astype(grad.dtype)


def _check_gradients(op: Call) -> None:
    _check_rows(op)
    ids, own = op.inverse_unique_partition_indices, op.cur_rank_inverse_indices
    expect_rank(op, "cur_rank_inverse_indices", own, 1)
    expect_dim(op, "the size of cur_rank_inverse_indices", own.shape[0], ids.element_count)
    count, size = op.embedding_grad.element_count or 0, ids.element_count or 0
    if not size or count % size:
        raise op.error(f"expected a row of embedding_grad for each of {ids}, at least one, got {op.embedding_grad}")


composite(
    "embedding_shuffle(cur_rank_embeddings, num_unique_matrix, cur_rank_inverse_indices,"
    " inverse_unique_partition_indices, embedding_size: int64 = 0, skip_last_gather: bool = False,"
    f" is_train: bool = False, {NAME}) -> embeddings",
    "The rows of the operand `ids` of `id_shuffle`, from the rows of distinct ids; zeros for padding.\n\n"
    "With `skip_last_gather` the rows of distinct ids.",
    write=_write_embeddings, reference=_numpy_embeddings, check=_check_rows, sbp=_embedding_signatures,
    shapes_of=("num_unique_matrix",),
)  # fmt: skip
composite(
    "embedding_gradient_shuffle(embedding_grad, num_unique_matrix, cur_rank_inverse_indices,"
    " inverse_unique_partition_indices, embedding_size: int64 = 0, only_zero_valid_grad: bool = False,"
    f" skip_first_scatter: bool = False, {NAME}) -> cur_rank_unique_embedding_grad",
    "The sums of the gradients of equal ids, a row for each distinct id, followed by zeros.\n\n"
    "With `skip_first_scatter` the operand has the gradients of distinct ids.",
    write=_write_gradients, reference=_numpy_gradients, check=_check_gradients,
    sbp=_gradient_signatures,
)  # fmt: skip


# Updates of rows

NUMBERS = "learning_rate?, scale_by_tensor?, down_scale_by_tensor?, skip_if?"
REGULAR = "scale: double = 1.0, l1: float = 0.0, l2: float = 0.0, weight_decay: float = 0.0"
SIZES = f"line_size: int64 = 0, embedding_size: int64 = 0, {NAME}"
MOMENTS = (
    "bias_correction1_val: float = 1.0, bias_correction2_val: float = 1.0, beta1: float = 0.9, beta2: float = 0.999,"
    " epsilon: float = 0.0, do_bias_correction: bool = True"
)
#: Updates of whole parameters, operands before and after `NUMBERS`, attributes, and the states in a row.
UPDATES: tuple[tuple[str, str, str, str, tuple[str, ...]], ...] = (
    ("sgd_update", "", "", "", ()),
    ("momentum_update", "", "", ", beta: float = 0.9", ("momentum",)),
    ("adam_update", "", ", bias_correction1?, bias_correction2?", f", {MOMENTS}", ("m", "v")),
    (
        "adagrad_update", "train_step?, ", "",
        ", train_step_val: int64 = 0, lr_decay: float = 0.0, epsilon: float = 0.0", ("sum",),
    ),
    (
        "ftrl_update", "", "",
        ", lr_power: float = 0.0, lambda1: float = 0.0, lambda2: float = 0.0, beta: float = 0.0", ("accumulate", "z"),
    ),
)  # fmt: skip


def _check_update(states: tuple[str, ...]) -> Rule:
    def check(op: Call) -> None:
        rows, grad = op.unique_embeddings, op.embedding_grad
        for name in ("unique_embeddings", "embedding_grad"):
            expect_dtype(op, name, op[name], dtypes.FLOATS)
            expect_rank(op, name, op[name], 2)
            static_shape(op, name)
        expect_dtype(op, "num_unique_ids", op.num_unique_ids, COUNTS)
        if op.num_unique_ids.element_count not in (1, None):
            raise op.error(f"expected num_unique_ids of one element, got {op.num_unique_ids}")
        wanted = op.embedding_size * (1 + len(states))
        if op.embedding_size < 1 or op.line_size != wanted:
            raise op.error(
                f"expected a line_size of {1 + len(states)} times embedding_size, got {op.line_size} and"
                f" {op.embedding_size}"
            )
        expect_dim(op, "the columns of unique_embeddings", rows.shape[1], op.line_size)
        expect_dim(op, "the columns of embedding_grad", grad.shape[1], op.embedding_size)
        expect_dim(op, "the rows of embedding_grad", grad.shape[0], rows.shape[0])
        for name in ("scale_by_tensor", "down_scale_by_tensor"):
            scalar = op[name]
            if scalar is not None and (scalar.dtype != rows.dtype or scalar.element_count not in (1, None)):
                raise op.error(f"expected {name} of one element of {rows.dtype.mlir}, got {scalar}")

    return check


def _arguments(update: str, op: Call, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The operands and attributes of the update of a whole parameter; `given` replaces values of the call."""
    signature = REGISTRY[update].signature
    available = {n: x for n, x in op.inputs.items() if n != "scale_by_tensor"} | given
    return [available.get(a.name) for a in signature.inputs], {
        n: value for n, value in op.attrs.items() if n in signature.attr_by_name
    }


def _write_update(update: str, states: tuple[str, ...]) -> Rule:
    def write(ops: Builder, op: Call) -> Value:
        rows, width = op.unique_embeddings, op.embedding_size
        count = rows.shape[0] or 0
        grad = narrow(ops, op.embedding_grad, rows.dtype)
        if op.scale_by_tensor is not None:
            grad = grad * ops.reshape(op.scale_by_tensor, shape=[])
        if op.down_scale_by_tensor is not None:
            grad = grad / ops.reshape(op.down_scale_by_tensor, shape=[])
        parts = {
            name: ops.slice(rows, start=[0, i * width], stop=[count, (i + 1) * width], step=[1, 1])
            for i, name in enumerate(("model", *states))
        }
        operands, attrs = _arguments(update, op, {**parts, "model_diff": grad})
        news = ops.call(update, *operands, **attrs)
        new = ops.call("cat", list(news), axis=1)[0] if len(news) > 1 else news[0]
        used = ops.reshape(narrow(ops, op.num_unique_ids, INT64), shape=[1])
        named = ops.reshape(ops.broadcast_less(_iota(ops, count), used), shape=[count, 1])
        updated: Value = ops.where(named, new, rows)
        return updated

    return write


def _numpy_update(update: str, states: tuple[str, ...], names: list[str]) -> Rule:
    def reference(*operands: Any, **attrs: Any) -> Any:
        op = Call(REGISTRY[update], dict(zip(names, operands, strict=True)), attrs)
        count, rows = int(op.num_unique_ids.reshape(())), op.unique_embeddings
        up, down = (1.0 if x is None else float(x.reshape(())) for x in (op.scale_by_tensor, op.down_scale_by_tensor))
        grad = (op.embedding_grad[:count].astype(np.float64) * up / down).astype(rows.dtype)
        columns = np.split(rows[:count], 1 + len(states), axis=1)
        parts = dict(zip(("model", *states), columns, strict=True))
        arguments, given = _arguments(update, op, {**parts, "model_diff": grad})
        signature = REGISTRY[update].signature
        dense = Call(
            REGISTRY[update],
            dict(zip([a.name for a in signature.inputs], arguments, strict=True)),
            {a.name: a.default for a in signature.attrs} | given,
        )
        updated = rows.copy()
        updated[:count] = np.concatenate(run_reference(dense), 1)
        return updated

    return reference


def _register(update: str, before: str, behind: str, attrs: str, states: tuple[str, ...]) -> None:
    operands = f"num_unique_ids, unique_embeddings, embedding_grad, {before}{NUMBERS}{behind}"
    names = [part.rstrip("?") for part in operands.split(", ")]
    composite(
        f"one_embedding_{update}({operands}, learning_rate_val: float = 0.0, {REGULAR}{attrs}, {SIZES})"
        " -> updated_unique_embeddings",
        f"`{update}` of the first `num_unique_ids` rows. The gradient is multiplied with `scale_by_tensor`, and"
        " divided by `down_scale_by_tensor`.",
        write=_write_update(update, states), reference=_numpy_update(update, states, names),
        check=_check_update(states), sbp=no_sbp("the rows of a rank are the first rows"), grad=NO_GRAD, depth=2,
    )  # fmt: skip


for _row in UPDATES:
    _register(*_row)
