"""One step of recurrent networks: the cells of LSTM and GRU, whose gates stand next to each other in rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, Rule
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank


def _check(state: str, gates: int) -> Rule:
    """The check of a cell of so many gates whose state is the operand `state`."""

    def check(op: Call) -> None:
        expect_dtype(op, state, op[state], dtypes.FLOATS)
        expect_rank(op, state, op[state], 2)
        batch, size = op[state].shape
        if size is None:
            raise op.error(f"expected a static last axis of {state}, got {op[state]}")
        for name in ("input_gates", "hidden_gates", "input_bias", "hidden_bias"):
            if op[name] is None:
                continue
            expect_dtype(op, name, op[name], (op[state].dtype,))
            expect_rank(op, name, op[name], 2 if "gates" in name else 1)
            expect_dim(op, f"the last axis of {name}", op[name].shape[-1], gates * size)
            if "gates" in name:
                expect_dim(op, f"the rows of {name}", op[name].shape[0], batch)
        if (op.input_bias is None) != (op.hidden_bias is None):
            raise op.error("expected both biases or none, got one")

    return check


def _rows(op: Call) -> Factors:
    biases = ", _, _" if op.input_bias is not None else ""
    return Factors(f"n _, n _, n _{biases} -> {', '.join(['n _'] * len(op.results))}")


def _gate(ops: Builder, x: Value, number: int, size: int) -> Value:
    return ops.call("narrow", x, dim=x.rank - 1, start=number * size, length=size)[0]


def _biased(ops: Builder, gates: Value, bias: Value | None) -> Value:
    wide = widen(ops, gates)
    total: Value = wide if bias is None else wide + widen(ops, bias)
    return total


def _write_lstm(ops: Builder, op: Call) -> tuple[Value, ...]:
    size, dtype = op.cx.shape[1], op.cx.dtype
    gates = _biased(ops, op.input_gates, op.input_bias) + _biased(ops, op.hidden_gates, op.hidden_bias)
    i, f, g, o = (_gate(ops, gates, k, size) for k in range(4))
    i, f, g, o = ops.sigmoid(i), ops.sigmoid(f), ops.tanh(g), ops.sigmoid(o)
    cy = f * widen(ops, op.cx) + i * g
    results = (o * ops.tanh(cy), cy, ops.cat([i, f, g, o], axis=1))
    return tuple(narrow(ops, x, dtype) for x in results)


def _write_gru(ops: Builder, op: Call) -> tuple[Value, ...]:
    size, dtype = op.hx.shape[1], op.hx.dtype
    given, hidden = _biased(ops, op.input_gates, op.input_bias), _biased(ops, op.hidden_gates, op.hidden_bias)
    reset, update = (ops.sigmoid(_gate(ops, given, k, size) + _gate(ops, hidden, k, size)) for k in range(2))
    last, hx = _gate(ops, hidden, 2, size), widen(ops, op.hx)
    new = ops.tanh(_gate(ops, given, 2, size) + reset * last)
    results = (new + update * (hx - new), ops.cat([reset, update, new, hx, last], axis=1))
    return tuple(narrow(ops, x, dtype) for x in results)


def _numpy_parts(gates: Any, bias: Any, count: int) -> list[Any]:
    return np.split(gates.astype(np.float64) + (0 if bias is None else bias), count, 1)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _numpy_lstm(a: Any, b: Any, cx: Any, bias_a: Any, bias_b: Any) -> Any:
    pairs = zip(_numpy_parts(a, bias_a, 4), _numpy_parts(b, bias_b, 4), strict=True)
    i, f, g, o = (x + y for x, y in pairs)
    i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
    cy = f * cx + i * g
    return [x.astype(cx.dtype) for x in (o * np.tanh(cy), cy, np.concatenate([i, f, g, o], 1))]


def _numpy_gru(a: Any, b: Any, hx: Any, bias_a: Any, bias_b: Any) -> Any:
    (r, z, n), (hr, hz, hn) = _numpy_parts(a, bias_a, 3), _numpy_parts(b, bias_b, 3)
    r, z = _sigmoid(r + hr), _sigmoid(z + hz)
    n = np.tanh(n + r * hn)
    return [x.astype(hx.dtype) for x in ((1 - z) * n + z * hx, np.concatenate([r, z, n, hx, hn], 1))]


composite(
    "fused_lstm_cell(input_gates, hidden_gates, cx, input_bias?, hidden_bias?) -> hy, cy, workspace",
    "A step of LSTM: the hidden state, the cell state, and the gates input, forget, cell and output.",
    write=_write_lstm, reference=_numpy_lstm, check=_check("cx", 4), sbp=_rows,
)  # fmt: skip
composite(
    "fused_gru_cell(input_gates, hidden_gates, hx, input_bias?, hidden_bias?) -> hy, workspace",
    "A step of GRU: the hidden state, and the gates reset, update and new with hx and the hidden part of new.",
    write=_write_gru, reference=_numpy_gru, check=_check("hx", 3), sbp=_rows,
)  # fmt: skip
