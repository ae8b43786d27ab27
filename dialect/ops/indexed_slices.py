"""Sparse gradients of tables: rows of values and their indices.

Values of equal indices are added up. An update changes the rows that are named alone: weight decay and the states of
the other rows wait until these have a gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.ops.indexing import expect_index, numpy_checked_indices
from oneflow.dialect.ops.interpolation import static_shape
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.update import NO_GRAD
from oneflow.dialect.record import REGISTRY, Call, Rule
from oneflow.dialect.sbp import B, Factors, P, S, SbpSignature
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank

INT64 = dtypes.int64
#: Operands of the shape and type of the table.
STATES = ("momentum", "m", "v", "max_v")


def _expect_slices(op: Call, indices: str, values: str) -> None:
    """Checks that `values` has a slice for each of `indices`."""
    expect_index(op, indices)
    rank = op[indices].rank
    expect_rank(op, values, op[values], rank, -1)
    pairs = zip(static_shape(op, indices), static_shape(op, values), strict=False)
    for axis, (size, own) in enumerate(pairs):
        expect_dim(op, f"dimension {axis} of {values}", own, size)


def _rows(ops: Builder, indices: Value, values: Value) -> tuple[Value, Value]:
    """The indices as a row, and the values of each of them as a row."""
    sizes = [n or 0 for n in values.shape]
    count = math.prod(sizes[: indices.rank])
    flat = ops.call("reshape", indices, shape=[count])[0]
    return flat, ops.call("reshape", values, shape=[count, *sizes[indices.rank :]])[0]


def _check_sum(op: Call) -> None:
    expect_dtype(op, "x_values", op.x_values, dtypes.NUMERIC)
    expect_rank(op, "x_values", op.x_values, op.x_indices.rank + 1, -1)
    _expect_slices(op, "x_indices", "x_values")


def _write_sum(ops: Builder, op: Call) -> tuple[Value, ...]:
    indices, rows = _rows(ops, op.x_indices, op.x_values)
    count, width = indices.shape[0], math.prod(n or 0 for n in rows.shape[1:])
    distinct, inverse, total = ops.unique(indices, out_idx=INT64)
    flat = ops.reshape(rows, shape=[count, width])
    return distinct, ops.unsorted_segment_sum(flat, inverse, num_segments=count), total


def _numpy_sum(indices: Any, values: Any) -> tuple[Any, ...]:
    distinct, inverse = np.unique(indices, return_inverse=True)
    rows = values.reshape(indices.size, math.prod(values.shape[indices.ndim :]))
    wide = np.float64 if rows.dtype.kind == "f" or rows.dtype.itemsize == 2 else rows.dtype
    sums = np.zeros(rows.shape, wide)
    np.add.at(sums, inverse.reshape(-1), rows)
    padded = np.pad(distinct, (0, indices.size - distinct.size))
    return padded, sums.astype(values.dtype), np.asarray([distinct.size], np.int64)


def _sum_factors(op: Call) -> Factors:
    """An axis of values stays one; several are joined, and cannot be split."""
    lead = " ".join("_" * op.x_indices.rank)
    rest = op.x_values.rank - op.x_indices.rank
    inner, joined = ("d", "d") if rest == 1 else (" ".join("_" * rest), "_")
    return Factors(f"{lead}, {lead} {inner} -> _, _ {joined}, _").linear_in(op, "x_values", results=(1,))


composite(
    "indexed_slices_reduce_sum(x_indices, x_values) -> y_indices, y_values, num_unique",
    "The sums of the slices of equal indices: distinct indices in ascending order, then zeros; a row for each; how"
    " many.",
    write=_write_sum, reference=_numpy_sum, check=_check_sum, sbp=_sum_factors,
)  # fmt: skip


def _check_update(op: Call) -> None:
    for name in STATES:
        if name in op.inputs:
            expect_type(op, name, op.model)
    expect_dtype(op, "model", op.model, dtypes.FLOATS)
    expect_dtype(op, "model_diff_values", op.model_diff_values, (op.model.dtype,))
    _expect_slices(op, "model_diff_indices", "model_diff_values")
    lead = op.model_diff_indices.rank
    expect_rank(op, "model", op.model, op.model_diff_values.rank - lead + 1)
    for axis, size in enumerate(op.model_diff_values.shape[lead:], 1):
        expect_dim(op, f"dimension {axis} of model", op.model.shape[axis], size)


def _arguments(update: str, op: Call, attributes: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The operands and attributes of the dense `update` that a call has; `attributes` replace its own."""
    signature = REGISTRY[update].signature
    operands = [attributes[a.name] if a.name in attributes else op.inputs.get(a.name) for a in signature.inputs]
    return operands, {n: value for n, value in op.attrs.items() if n in signature.attr_by_name}


def _write_update(update: str, states: tuple[str, ...]) -> Rule:
    def write(ops: Builder, op: Call) -> tuple[Value, ...]:
        indices, rows = _rows(ops, op.model_diff_indices, op.model_diff_values)
        _, inverse, _ = ops.unique(indices, out_idx=INT64)
        sums = ops.unsorted_segment_sum(rows, inverse, num_segments=indices.shape[0])
        tables = {name: op[name] for name in ("model", *states) if op[name] is not None}
        olds = {name: ops.gather(table, indices, axis=0) for name, table in tables.items()}
        operands, attrs = _arguments(update, op, {**olds, "model_diff": ops.gather(sums, inverse, axis=0)})
        at = ops.reshape(indices, shape=[indices.shape[0], 1])
        news = zip(tables.values(), ops.call(update, *operands, **attrs), strict=True)
        # Equal indices have equal rows, so that their order is free.
        return tuple(ops.tensor_scatter_nd_update(old, new, at, any_order=True) for old, new in news)

    return write


def _numpy_update(update: str, states: tuple[str, ...], names: list[str]) -> Rule:
    def reference(*operands: Any, **attrs: Any) -> tuple[Any, ...]:
        op = Call(REGISTRY[update], dict(zip(names, operands, strict=True)), attrs)
        indices = numpy_checked_indices(f"indexed_slices_{update}", op.model_diff_indices, op.model.shape[0])
        touched, inverse = np.unique(indices, return_inverse=True)
        sums = np.zeros((touched.size, *op.model.shape[1:]))
        np.add.at(sums, inverse.reshape(-1), op.model_diff_values.reshape(inverse.size, *op.model.shape[1:]))
        tables = {name: op[name] for name in ("model", *states) if op[name] is not None}
        olds = {name: table[touched] for name, table in tables.items()}
        arguments, attrs = _arguments(update, op, {**olds, "model_diff": sums.astype(op.model.dtype)})
        signature = REGISTRY[update].signature
        values = {a.name: a.default for a in signature.attrs} | attrs
        names_of = [a.name for a in signature.inputs]
        dense = Call(REGISTRY[update], dict(zip(names_of, arguments, strict=True)), values)
        results = []
        for table, new in zip(tables.values(), run_reference(dense), strict=True):
            results.append(table.copy())
            results[-1][touched] = new
        return tuple(results)

    return reference


def _update_factors(states: tuple[str, ...], linear: bool) -> Rule:
    """The axes of one row can be split; a step that is linear passes partial sums on."""

    def sbp(op: Call) -> Factors | list[SbpSignature]:
        row = [f"d{i}" for i in range(1, op.model.rank)]
        lead = ["_"] * op.model_diff_indices.rank
        sides = {"model_diff_indices": lead, "model_diff_values": [*lead, *row]}
        tables = [name for name in ("model", *states) if op[name] is not None]
        sides |= {name: ["_", *row] for name in tables}
        ins = [sides.get(n, ["_"] * x.rank) for n, x in op.inputs.items() if x is not None]
        outs = [["_", *row]] * len(tables)
        factors = Factors(" -> ".join(", ".join(map(" ".join, side)) for side in (ins, outs)))
        summed = ("model_diff_values", *tables) if linear else ()
        factors = factors.linear_in(op, *summed, results=range(len(outs)))
        if not linear or states or op.weight_decay:
            return factors
        # Nothing but the sums changes the rows: every device may add the sums of its own slices to a partial table.
        slices = [SbpSignature((P, S(i), S(i), B), (P,)) for i in range(op.model_diff_indices.rank)]
        return [*factors.signatures([x.shape for x in op.operands]), *slices]

    return sbp


TABLE = "model, model_diff_indices, model_diff_values, learning_rate"
#: The dense update of each kind, its operands and attributes here, its states, and whether the step is linear.
UPDATES: tuple[tuple[str, str, tuple[str, ...], bool], ...] = (
    ("sgd_update", "learning_rate_scale: float = 1.0, weight_decay: float = 0.0", (), True),
    (
        "momentum_update",
        "momentum, learning_rate_scale: float = 1.0, beta: float = 0.9, dampening: float = 0.0,"
        " nesterov: bool = False, maximize: bool = False, weight_decay: float = 0.0",
        ("momentum",),
        True,
    ),
    (
        "adam_update",
        "bias_correction1?, bias_correction2?, m, v, max_v?, learning_rate_val: float = 0.0,"
        " learning_rate_scale: float = 1.0, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 0.0,"
        " weight_decay: float = 0.0, amsgrad: bool = False, do_bias_correction: bool = True",
        ("m", "v", "max_v"),
        False,
    ),
)


def _update(name: str, attrs: str, states: tuple[str, ...], linear: bool) -> None:
    operands = [*TABLE.split(", "), *(part.rstrip("?") for part in attrs.split(", ") if ":" not in part)]
    outs = [f"{state}_out{'?' * (state == 'max_v')}" for state in ("model", *states)]
    composite(
        f"indexed_slices_{name}({TABLE}, {attrs}) -> {', '.join(outs)}",
        f"`{name}` of the rows that `model_diff_indices` name, by the sums of the gradients of each.",
        write=_write_update(name, states), reference=_numpy_update(name, states, operands), check=_check_update,
        sbp=_update_factors(states, linear), grad=NO_GRAD, depth=2,
    )  # fmt: skip


for _row in UPDATES:
    _update(*_row)
