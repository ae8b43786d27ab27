"""Steps of recurrent networks: the cells of LSTM and GRU, whose gates are adjacent in rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite, gradient_operator
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, Rule
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc


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
            if op[name].shape[-1] is None:
                raise op.error(f"expected a static last axis of {name}, got {op[name]}")
            expect_dim(op, f"the last axis of {name}", op[name].shape[-1], gates * size)
            if "gates" in name:
                expect_dim(op, f"the rows of {name}", op[name].shape[0], batch)
        if (op.input_bias is None) != (op.hidden_bias is None):
            raise op.error("expected both biases or none, got one")

    return check


def _rows(op: Call) -> Factors:
    biases = ", _, _" if op.input_bias is not None else ""
    return Factors(f"n _, n _, n _{biases} -> {', '.join(['n _'] * len(op.results))}")


def _gate(ops: Builder, x: Value, index: int, size: int) -> Value:
    return ops.call("narrow", x, dim=x.rank - 1, start=index * size, length=size)[0]


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
    inputs, hidden = _biased(ops, op.input_gates, op.input_bias), _biased(ops, op.hidden_gates, op.hidden_bias)
    reset, update = (ops.sigmoid(_gate(ops, inputs, k, size) + _gate(ops, hidden, k, size)) for k in range(2))
    last, hx = _gate(ops, hidden, 2, size), widen(ops, op.hx)
    new = ops.tanh(_gate(ops, inputs, 2, size) + reset * last)
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


_lstm_gradient = gradient_operator("fused_lstm_cell_grad", "input_gates", "cx", "input_bias")
_gru_gradient = gradient_operator(
    "fused_gru_cell_grad", "input_gates", "hidden_gates", "hx", "input_bias", "hidden_bias"
)


def _shared_gradient(ops: Builder, op: Call, *cotangents: Value | None) -> dict[str, Any]:
    """The gradient of `fused_lstm_cell`: the gradients of the hidden gates and bias equal the gradients of the input
    gates and bias.
    """
    gradients = _lstm_gradient(ops, op, *cotangents)
    both = {"hidden_gates": "input_gates", "hidden_bias": "input_bias"}
    return {**{name: gradients[other] for name, other in both.items() if other in gradients}, **gradients}


composite(
    "fused_lstm_cell(input_gates, hidden_gates, cx, input_bias?, hidden_bias?) -> hy, cy, workspace",
    "A step of LSTM: the hidden state, the cell state, and the gates input, forget, cell and output.",
    write=_write_lstm, reference=_numpy_lstm, check=_check("cx", 4), sbp=_rows, grad=_shared_gradient,
)  # fmt: skip
composite(
    "fused_gru_cell(input_gates, hidden_gates, hx, input_bias?, hidden_bias?) -> hy, workspace",
    "A step of GRU: the hidden state, and the gates reset, update and new with hx and the hidden part of new.",
    write=_write_gru, reference=_numpy_gru, check=_check("hx", 3), sbp=_rows, grad=_gru_gradient,
)  # fmt: skip


# The gradients, from the gates in `workspace`


def _check_gradient(state: str, parts: int) -> Rule:
    """The check of the gradient of a cell whose workspace has so many parts of the size of the operand `state`."""

    def check(op: Call) -> None:
        expect_dtype(op, state, op[state], dtypes.FLOATS)
        for name in op.inputs:
            expect_rank(op, name, op[name], 2)
            if op[name].shape[1] is None:
                raise op.error(f"expected a static last axis of {name}, got {op[name]}")
        batch, size = op[state].shape
        for name in op.inputs:
            width = parts * size if name == "workspace" else size
            expect_type(op, name, TensorDesc((batch, width), op[state].dtype))

    return check


def _gradient_factors(op: Call) -> Factors:
    """Rows can be split, of which the gradients with respect to biases are sums; cotangents can be partial sums."""
    biases = [index for index, result in enumerate(op.results) if result.rank == 1]
    results = ", ".join("_" if index in biases else "n _" for index in range(len(op.results)))
    factors = Factors(f"{', '.join(['n _'] * len(op.operands))} -> {results}").summing(*biases)
    cotangents = [name for name in op.inputs if name.startswith("grad")]
    return factors.linear_in(op, *cotangents, results=range(len(op.results)))


def _lstm_gate_grads(gates: Any, hy: Any, cy: Any, cx: Any, tanh: Any) -> tuple[list[Any], Any]:
    """The gradients with respect to the sums of gates, and cx; `tanh` is tanh of the cell state, hy and cy are
    cotangents.
    """
    i, f, g, o = gates
    c = hy * o * (1 - tanh * tanh) + cy
    return [c * g * i * (1 - i), c * cx * f * (1 - f), c * i * (1 - g * g), hy * tanh * o * (1 - o)], c * f


def _gru_gate_grads(parts: Any, hy: Any) -> tuple[list[Any], list[Any], Any]:
    """The gradients with respect to the given and the hidden sums of gates, and hx; hy is a cotangent."""
    r, z, n, hx, last = parts
    new = hy * (1 - z) * (1 - n * n)
    both = [new * last * r * (1 - r), hy * (hx - n) * z * (1 - z)]
    return [*both, new], [*both, new * r], hy * z


def _write_lstm_grad(ops: Builder, op: Call) -> tuple[Value, ...]:
    size, dtype = op.cx.shape[1], op.cx.dtype
    gates = [_gate(ops, widen(ops, op.workspace), k, size) for k in range(4)]
    hy, cy, cx = (widen(ops, x) for x in (op.grad_hy, op.grad_cy, op.cx))
    gate_grads, by_cx = _lstm_gate_grads(gates, hy, cy, cx, ops.tanh(widen(ops, op.cy)))
    by_gates = ops.cat(gate_grads, axis=1)
    return tuple(narrow(ops, x, dtype) for x in (by_gates, by_cx, ops.reduce_sum(by_gates, axis=[0])))


def _write_gru_grad(ops: Builder, op: Call) -> tuple[Value, ...]:
    size, dtype = op.grad_hy.shape[1], op.grad_hy.dtype
    parts = [_gate(ops, widen(ops, op.workspace), k, size) for k in range(5)]
    *sides, by_hx = _gru_gate_grads(parts, widen(ops, op.grad_hy))
    by_gates = [ops.cat(side, axis=1) for side in sides]
    sums = [ops.reduce_sum(x, axis=[0]) for x in by_gates]
    return tuple(narrow(ops, x, dtype) for x in (*by_gates, by_hx, *sums))


def _numpy_lstm_grad(hy: Any, cy: Any, cx: Any, state: Any, workspace: Any) -> Any:
    gates = _numpy_parts(workspace, None, 4)
    hy, cy, wide, state = (x.astype(np.float64) for x in (hy, cy, cx, state))
    gate_grads, by_cx = _lstm_gate_grads(gates, hy, cy, wide, np.tanh(state))
    by_gates = np.concatenate(gate_grads, 1)
    return [x.astype(cx.dtype) for x in (by_gates, by_cx, by_gates.sum(0))]


def _numpy_gru_grad(hy: Any, workspace: Any) -> Any:
    *sides, by_hx = _gru_gate_grads(_numpy_parts(workspace, None, 5), hy.astype(np.float64))
    by_gates = [np.concatenate(side, 1) for side in sides]
    return [x.astype(hy.dtype) for x in (*by_gates, by_hx, *(g.sum(0) for g in by_gates))]


composite(
    "fused_lstm_cell_grad(grad_hy, grad_cy, cx, cy, workspace) -> grad_gates, grad_cx, grad_bias",
    "The gradients of `fused_lstm_cell` with respect to either operand of gates, cx and either bias.",
    write=_write_lstm_grad, reference=_numpy_lstm_grad, check=_check_gradient("cx", 4), sbp=_gradient_factors,
)  # fmt: skip
composite(
    "fused_gru_cell_grad(grad_hy, workspace)"
    " -> grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias, grad_hidden_bias",
    "The gradients of `fused_gru_cell`.",
    write=_write_gru_grad, reference=_numpy_gru_grad, check=_check_gradient("grad_hy", 5), sbp=_gradient_factors,
)  # fmt: skip
