"""Positions as rotations of the vectors of heads (arXiv 2104.09864)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.attention_layouts import (
    SINGLE,
    expect_layout,
    layout_factors,
    numpy_packed,
    numpy_sizes,
    numpy_unpacked,
    packed,
    sizes_of,
    unpacked,
)
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc


def _check_rotary(op: Call) -> None:
    expect_dtype(op, "x", op.x, dtypes.FLOATS)
    layout = expect_layout(op, "x_layout")
    expect_layout(op, "output_layout", SINGLE)
    if op.mode not in ("plane", "interval"):
        raise op.error(f"expected mode plane or interval, got {op.mode!r}")
    least = 1 if "2" in layout else 0
    if not least <= op.tensor_index <= 2:
        raise op.error(f"expected tensor_index of {least} to 2, got {op.tensor_index}")
    if op.k_size < 1:
        raise op.error(f"expected k_size, the size of a head, of at least 1, got {op.k_size}")
    batch, length, _, size = sizes_of(op, "x", layout, head_size=op.k_size)
    _expect_positions(op, batch, length)
    blocks = _blocks(op)
    if not 0 <= op.rotary_size <= size or op.rotary_size % (2 * blocks):
        raise op.error(f"expected rotary_size of 0 to {size}, a multiple of {2 * blocks}, got {op.rotary_size}")
    _expect_angles(op, length, op.rotary_size // blocks)


def _expect_positions(op: Call, batch: int, length: int) -> None:
    if op.position_ids is None:
        return
    expect_dtype(op, "position_ids", op.position_ids, dtypes.INTEGERS)
    expect_rank(op, "position_ids", op.position_ids, 3)
    blocks = op.position_ids.shape[1]
    if None in op.position_ids.shape or blocks not in (1, 2):
        raise op.error(f"expected static sizes of position_ids, and 1 or 2 of axis 1, got {op.position_ids}")
    expect_type(op, "position_ids", TensorDesc((batch, blocks, length), op.position_ids.dtype))


def _expect_angles(op: Call, length: int, columns: int) -> None:
    if (op.cos is None) != (op.sin is None):
        raise op.error("expected both of cos and sin or none, got one")
    if op.cos is None:
        return
    expect_type(op, "cos", TensorDesc((None, columns), op.x.dtype))
    expect_type(op, "sin", op.cos)
    rows = op.cos.shape[0]
    if rows is None or (op.position_ids is None and rows < length):
        raise op.error(f"expected a static number of rows of cos, of at least {length}, got {op.cos}")


def _blocks(op: Call) -> int:
    """The number of positions that rotate a vector, each a part of the vector."""
    return 1 if op.position_ids is None else op.position_ids.shape[1]


def _frequencies(ops: Builder, op: Call, columns: int) -> Value:
    """The angle of each column at position 1, in f32 at least: (columns,)."""
    dtype, half = op.x.dtype.accumulator, columns // 2
    numbers = ops.cast(ops.arange(dtype=dtypes.int64, integer_delta=1, integer_limit=half), dtype=dtype)
    rates = ops.exp(numbers * (-2.0 * math.log(op.base) / columns))
    if op.mode == "plane":
        value: Value = ops.cat([rates, rates], axis=0)
        return value
    both: Value = ops.reshape(ops.stack([rates, rates], axis=1), shape=[columns])
    return both


def _angles(ops: Builder, op: Call, length: int, columns: int) -> list[Value]:
    """cos and sin for every position, (batch or 1, length, 1, rotary size), in f32 at least."""
    batch, blocks = (1, 1) if op.position_ids is None else op.position_ids.shape[:2]
    if op.cos is None:
        ids = op.position_ids
        ids = ops.arange(dtype=dtypes.int64, integer_delta=1, integer_limit=length) if ids is None else ids
        at = ops.reshape(ops.cast(ids, dtype=op.x.dtype.accumulator), shape=[batch, blocks, length, 1])
        angle = at * _frequencies(ops, op, columns)
        tables = [ops.cos(angle), ops.sin(angle)]
    elif op.position_ids is None:
        rows = (ops.narrow(widen(ops, x), dim=0, start=0, length=length) for x in (op.cos, op.sin))
        tables = [ops.reshape(x, shape=[1, 1, length, columns]) for x in rows]
    else:
        tables = [ops.gather(widen(ops, x), op.position_ids, axis=0) for x in (op.cos, op.sin)]
    moved = (ops.transpose(x, perm=[0, 2, 1, 3]) for x in tables)
    return [ops.reshape(x, shape=[batch, length, 1, blocks * columns]) for x in moved]


def _turned(ops: Builder, op: Call, x: Value, columns: int) -> Value:
    """Vectors at a right angle to the vectors of `x`: within each `columns`, halves or neighbours are swapped."""
    *lead, size = (d or 0 for d in x.shape)
    pair = [2, columns // 2] if op.mode == "plane" else [columns // 2, 2]
    cut = ops.reshape(x, shape=[*lead, size // columns, *pair])
    axis = 4 if op.mode == "plane" else 5
    first, second = (ops.narrow(cut, dim=axis, start=i, length=1) for i in range(2))
    turned: Value = ops.reshape(ops.cat([-second, first], axis=axis), shape=[*lead, size])
    return turned


def _write_rotary(ops: Builder, op: Call) -> Value:
    sizes = sizes_of(op, "x", op.x_layout, head_size=op.k_size)
    x = unpacked(ops, op.x, op.x_layout, sizes, op.tensor_index)
    rotated = op.rotary_size
    if rotated:
        columns = rotated // _blocks(op)
        cos, sin = _angles(ops, op, sizes[1], columns)
        part = widen(ops, x if rotated == sizes[3] else ops.narrow(x, dim=3, start=0, length=rotated))
        turned = narrow(ops, part * cos + _turned(ops, op, part, columns) * sin, op.x.dtype)
        rest = sizes[3] - rotated
        x = ops.cat([turned, ops.narrow(x, dim=3, start=rotated, length=rest)], axis=3) if rest else turned
    return packed(ops, x, op.output_layout)


def _numpy_rotary(
    x: Any, cos: Any, sin: Any, ids: Any, *, x_layout: Any, output_layout: Any, mode: Any, tensor_index: Any,
    base: Any, k_size: Any, rotary_size: Any,
) -> Any:  # fmt: skip
    vectors = numpy_unpacked(x, x_layout, numpy_sizes(x, x_layout, head_size=k_size), tensor_index).astype(np.float64)
    out, blocks = vectors.copy(), 1 if ids is None else ids.shape[1]
    columns = rotary_size // blocks
    for block in range(blocks):
        at = np.arange(vectors.shape[1])[None] if ids is None else ids[:, block]
        part = vectors[..., block * columns : (block + 1) * columns]
        for k in range(columns):
            pair = k // 2 if mode == "interval" else k % (columns // 2)
            angle = at * np.float32(base) ** (-2.0 * pair / columns)
            c, s = (np.cos(angle), np.sin(angle)) if cos is None else (cos[at, k], sin[at, k])
            first = k % 2 == 0 if mode == "interval" else k < columns // 2
            other = k + (1 if mode == "interval" else columns // 2) * (1 if first else -1)
            turned = part[..., other] * (-1 if first else 1)
            out[..., block * columns + k] = part[..., k] * c[..., None] + turned * s[..., None]
    return numpy_packed(out, output_layout).astype(x.dtype)


def _rotary_factors(op: Call) -> Factors:
    """The batch and whole heads can be split, and positions with their ids or angles."""
    _, length, heads, size = sizes_of(op, "x", op.x_layout, head_size=op.k_size)
    own = op.position_ids is None and op.cos is not None and op.cos.shape[0] == length
    positions = "m" if own or op.position_ids is not None else "_"
    angles = "m _" if own else "_ _"
    sides = [layout_factors(op.x_layout, heads, positions), *[angles] * (0 if op.cos is None else 2)]
    sides += [] if op.position_ids is None else ["b _ m"]
    factors = Factors(f"{', '.join(sides)} -> {layout_factors(op.output_layout, heads, positions)}")
    factors = factors.linear_in(op, "x")
    return factors.linear_in(op, "cos", "sin") if op.rotary_size == size else factors


composite(
    "fused_apply_rotary_emb(x, cos?, sin?, position_ids?, x_layout: string = 'BHMK', output_layout: string = 'BHMK',"
    " mode: string = 'plane', tensor_index: int64 = 0, base: float = 10000.0, k_size: int64 = 0,"
    " rotary_size: int64 = 0) -> out",
    "x * cos + turned(x) * sin in the first `rotary_size` elements of each head, other elements unchanged. `turned`"
    " exchanges halves (plane) or neighbours (interval), the new first ones negated. Without cos and sin the angle of"
    " pair i is position * base ** (-2 * i / size). Two rows of position_ids rotate two halves.",
    write=_write_rotary, reference=_numpy_rotary, check=_check_rotary, sbp=_rotary_factors,
)  # fmt: skip
