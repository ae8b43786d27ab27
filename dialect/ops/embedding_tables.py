"""Operators on embedding tables in host memory: rows of ids are read, and written back.

The tables outlive a run (`dialect.embedding_tables`), so calls are never removed, merged or reordered. An operator
that writes has the result `count`, the number of written rows. `ops/one_embedding.py` has the other operators of a
step: distinct ids, sums of gradients, updates of rows. A program of several ranks has no operators on tables, since a
table belongs to one process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes, embedding_tables
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.numpy_kernel import numpy_kernel
from oneflow.dialect.ops.interpolation import static_shape
from oneflow.dialect.ops.one_embedding import COUNTS
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.record import Call, Rule, define, no_grad, no_sbp
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

SIZES = "line_size: int64 = 0, embedding_size: int64 = 0, embedding_name: string"
TABLES = "embedding_tables: string"
STATES = f"{TABLES}, state_initializer: string, seed: int64 = 0"
UNIQUE = "num_unique_ids, unique_ids"
ONE_PROCESS = "a table belongs to one process"


def _define(signature: str, doc: str, types: Rule, run: Rule, **slots: Any) -> None:
    """Registers an operator whose kernel and reference are `run`."""
    slots = {"grad": no_grad("what a table holds is no function of operands")} | slots
    define(
        signature, depth=2, doc=doc, types=types, sbp=no_sbp(ONE_PROCESS), reference=run, kernel=numpy_kernel(run),
        unoffered=f"all: {ONE_PROCESS}", traits=frozenset({"one-process"}), pure=False, **slots,
    )  # fmt: skip


def _expect_ids(op: Call, name: str) -> tuple[int, ...]:
    expect_dtype(op, name, op[name], dtypes.INTEGERS)
    shape = static_shape(op, name)
    tables = op.inputs.get("table_ids")
    if tables is not None:
        expect_dtype(op, "table_ids", tables, dtypes.INTEGERS)
        expect_type(op, "table_ids", TensorDesc(shape, tables.dtype))
    return shape


def _expect_sizes(op: Call) -> None:
    if not 1 <= op.embedding_size <= op.line_size:
        raise op.error(f"expected an embedding_size from 1 to line_size, got {op.embedding_size} and {op.line_size}")


def _expect_initializers(op: Call, states: str) -> None:
    try:
        embedding_tables.read_initializers(op.embedding_tables, states, op.embedding_size, op.line_size)
    except ValueError as error:
        raise op.error(str(error)) from None


def _expect_unique(op: Call) -> int:
    """The number of distinct ids, zero padding included."""
    expect_dtype(op, "num_unique_ids", op.num_unique_ids, COUNTS)
    static_shape(op, "num_unique_ids")
    if op.num_unique_ids.element_count != 1:
        raise op.error(f"expected num_unique_ids of one element, got {op.num_unique_ids}")
    expect_rank(op, "unique_ids", op.unique_ids, 1)
    return _expect_ids(op, "unique_ids")[0]


def _used(num_unique_ids: Any, unique_ids: Any) -> int:
    """The number of distinct ids before the padding: all ids if `num_unique_ids` is larger, as in updates."""
    return min(max(int(num_unique_ids.reshape(())), 0), len(unique_ids))


def _looked_up(op: Call) -> list[TensorDesc]:
    size = _expect_unique(op)
    _expect_sizes(op)
    _expect_initializers(op, op.state_initializer)
    for name in ("dtype", "embeddings_dtype"):
        if op[name] not in dtypes.FLOATS:
            raise op.error(f"expected {name} to be a floating-point type, got {op[name]}")
    rows = TensorDesc((size, op.line_size), op.dtype)
    return [rows, TensorDesc((size, op.embedding_size), op.embeddings_dtype)]


def _read(ids: Any, table_ids: Any, dtype: Any, states: str, attrs: Any) -> np.ndarray:
    """The rows of ids of a flat array."""
    initializers = embedding_tables.read_initializers(
        attrs["embedding_tables"], states, attrs["embedding_size"], attrs["line_size"]
    )
    initial = embedding_tables.initial_rows(ids, table_ids, initializers, attrs["line_size"], attrs["seed"])
    return embedding_tables.table(attrs["embedding_name"], attrs["line_size"], dtype.numpy).read(ids, initial)


def _lookup(num_unique_ids: Any, unique_ids: Any, table_ids: Any, context: Any, **attrs: Any) -> tuple[Any, Any]:
    count = _used(num_unique_ids, unique_ids)
    rows = np.zeros((len(unique_ids), attrs["line_size"]), attrs["dtype"].numpy)
    read = _read(unique_ids[:count], table_ids[:count], attrs["dtype"], attrs["state_initializer"], attrs)
    rows[:count] = read
    return rows, rows[:, : attrs["embedding_size"]].astype(attrs["embeddings_dtype"].numpy)


_define(
    f"embedding_lookup({UNIQUE}, table_ids, context?, dtype: data_type, embeddings_dtype: data_type, {SIZES},"
    f" {STATES}) -> unique_values, embeddings",
    "The rows of distinct ids, and the embeddings, which rows begin with; zeros after `num_unique_ids` rows.\n\n"
    "An id without a row has the initial row: by `embedding_tables`, a table for each number in `table_ids`, and\n"
    "optimizer states by `state_initializer`. `context` is the result of `embedding_prefetch`.",
    _looked_up,
    _lookup,
)


def _prefetched(op: Call) -> TensorDesc:
    _expect_unique(op)
    _expect_sizes(op)
    _expect_initializers(op, op.state_initializer)
    desc: TensorDesc = op.num_unique_ids
    return desc


def _prefetch(num_unique_ids: Any, unique_ids: Any, table_ids: Any) -> Any:
    return num_unique_ids


_define(
    f"embedding_prefetch({UNIQUE}, table_ids, {SIZES}, {STATES}) -> context",
    "`num_unique_ids`. OneFlow brings the rows of the ids to a cache of the device; here they are in memory already.",
    _prefetched,
    _prefetch,
)


def _expect_put(op: Call) -> TensorDesc:
    expect_rank(op, "unique_embeddings", op.unique_embeddings, 2)
    expect_dim(op, "the rows of unique_embeddings", op.unique_embeddings.shape[0], _expect_unique(op))
    expect_dtype(op, "unique_embeddings", op.unique_embeddings, dtypes.FLOATS)
    if static_shape(op, "unique_embeddings")[1:] != (op.line_size,):
        raise op.error(
            f"expected rows of line_size, {op.line_size}, in unique_embeddings, got {op.unique_embeddings}"
        )
    desc: TensorDesc = op.num_unique_ids
    return desc


def _put(num_unique_ids: Any, unique_ids: Any, rows: Any, *, line_size: Any, embedding_name: Any) -> Any:
    count = _used(num_unique_ids, unique_ids)
    embedding_tables.table(embedding_name, line_size, rows.dtype).write(unique_ids[:count], rows[:count])
    return num_unique_ids


_define(
    f"embedding_put({UNIQUE}, unique_embeddings, line_size: int64 = 0, embedding_name: string) -> count",
    "Stores `unique_embeddings` as the rows of the first `num_unique_ids` ids; the result is the number of rows.",
    _expect_put,
    _put,
)


def _expect_step(op: Call) -> TensorDesc:
    _expect_sizes(op)
    expect_type(op, "learning_rate", TensorDesc((1,), dtypes.float32))
    if op.line_size != op.embedding_size:
        raise op.error(f"expected rows without states, of embedding_size {op.embedding_size}, got {op.line_size}")
    expect_dtype(op, "embedding_grad", op.embedding_grad, dtypes.FLOATS)
    expect_type(op, "embedding_grad", TensorDesc(static_shape(op, "unique_embeddings"), op.embedding_grad.dtype))
    return _expect_put(op)


def _write_step(ops: Builder, op: Call) -> Value:
    sizes = {name: op[name] for name in ("line_size", "embedding_size", "embedding_name")}
    rows = ops.one_embedding_sgd_update(
        op.num_unique_ids, op.unique_embeddings, op.embedding_grad, op.learning_rate, scale=op.scale, **sizes
    )
    put = {name: op[name] for name in ("line_size", "embedding_name")}
    count: Value = ops.embedding_put(op.num_unique_ids, op.unique_ids, rows, **put)
    return count


define(
    f"one_embedding_fused_sgd_update_put({UNIQUE}, unique_embeddings, embedding_grad, learning_rate,"
    f" scale: double = 1.0, {SIZES}) -> count",
    doc="`one_embedding_sgd_update`, followed by `embedding_put` of the rows.",
    types=_expect_step, sbp=no_sbp(ONE_PROCESS), decompose=_write_step, unoffered=f"all: {ONE_PROCESS}",
    grad=no_grad("what a table holds is no function of operands"), reference=lambda count, *operands: count,
    traits=frozenset({"one-process", "external"}), pure=False,
)  # fmt: skip


def _embedded(op: Call) -> TensorDesc:
    shape = _expect_ids(op, "ids")
    _expect_sizes(op)
    _expect_initializers(op, "")
    expect_dtype(op, "shadow", op.shadow, dtypes.FLOATS)
    if op.table_ids is None and (op.num_tables < 1 or (op.num_tables > 1 and shape[1:] != (op.num_tables,))):
        raise op.error(f"expected ids with a column for each of {op.num_tables} tables, got {op.ids}")
    return TensorDesc((*shape, op.embedding_size), op.shadow.dtype)


def _fused_lookup(shadow: Any, ids: Any, table_ids: Any, **attrs: Any) -> Any:
    flat = ids.reshape(-1)
    tables = np.arange(flat.size) % attrs["num_tables"] if table_ids is None else table_ids.reshape(-1)
    rows = _read(flat, tables, attrs["dtype"], "", attrs)[:, : attrs["embedding_size"]].astype(shadow.dtype)
    if attrs["has_padding_idx"]:
        rows[flat == attrs["padding_idx"]] = 0
    return rows.reshape(*ids.shape, attrs["embedding_size"])


_define(
    f"one_embedding_fused_lookup(shadow, ids, table_ids?, dtype: data_type, {SIZES}, is_full_cache: bool = False,"
    f" num_tables: int32 = 1, padding_idx: int64 = -1, has_padding_idx: bool = False, {TABLES}, seed: int64 = 0)"
    " -> embeddings",
    "The embedding of each id in the element type of `shadow`; zeros for `padding_idx` if `has_padding_idx`.\n\n"
    "Without `table_ids` the last axis of `ids` has a column for each table. `shadow` stands for the table among\n"
    "the parameters of a model. The gradient of `shadow` is 0, and marks that embeddings have a gradient.",
    _embedded,
    _fused_lookup,
    grad=lambda ops, op, dy: {"shadow": ops.zero_like(op.shadow)},
)
