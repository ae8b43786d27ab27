"""Recurrent layers, one step after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.importers.torch.table import aten
from oneflow.frontend.tracing.control_flow import run_steps


def _lstm(gates: Any, hidden: Any, state: list[Any]) -> list[Any]:
    i, f, g, o = F.chunk(F.add(gates, hidden), 4, 1)
    cell = F.add(F.mul(F.sigmoid(f), state[1]), F.mul(F.sigmoid(i), F.tanh(g)))
    return [F.mul(F.sigmoid(o), F.tanh(cell)), cell]


def _gru(gates: Any, hidden: Any, state: list[Any]) -> list[Any]:
    (r, z, n), (hr, hz, hn) = F.chunk(gates, 3, 1), F.chunk(hidden, 3, 1)
    reset, update = F.sigmoid(F.add(r, hr)), F.sigmoid(F.add(z, hz))
    new = F.tanh(F.add(n, F.mul(reset, hn)))
    return [F.add(F.mul(F.sub(1, update), new), F.mul(update, state[0]))]


def _simple(activation: Callable[[Any], Any]) -> Callable[..., list[Any]]:
    return lambda gates, hidden, state: [activation(F.add(gates, hidden))]


def _direction(step: Any, x: Any, state: list[Any], weights: list[Any], reverse: bool) -> Any:
    """The results of the steps of one direction in one layer, and the last state."""
    bias = weights[2:4] if len(weights) > 2 else [None, None]
    is_projected = len(weights) not in (2, 4)

    def next_state(state: Any, gates: Any) -> list[Any]:
        after = step(gates, F.linear(state[0], weights[1], bias[1]), state)
        return [F.linear(after[0], weights[-1]), *after[1:]] if is_projected else after

    return run_steps(next_state, state, F.linear(x, weights[0], bias[0]), reverse)


def _layers(step: Any) -> Callable[..., Any]:
    def build(
        x: Any, hx: Any, params: Any, has_biases: bool, layers: int, dropout: float, train: bool,
        bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        states = list(hx) if isinstance(hx, list) else [hx]
        x = F.transpose(x, 0, 1) if batch_first else x
        directions = 2 if bidirectional else 1
        each = len(params) // (layers * directions)
        last: list[list[Any]] = []
        for layer in range(layers):
            parts = []
            for number in range(layer * directions, (layer + 1) * directions):
                weights = params[number * each : (number + 1) * each]
                state = [F.select(s, 0, number) for s in states]
                outputs, state = _direction(step, x, state, weights, number % directions == 1)
                parts.append(outputs)
                last.append(state)
            x = F.cat(parts, -1) if directions == 2 else parts[0]
            if train and dropout and layer < layers - 1:
                x = F.dropout(x, dropout)
        return [F.transpose(x, 0, 1) if batch_first else x, *[F.stack(list(s)) for s in zip(*last, strict=True)]]

    return build


aten("lstm.input")(_layers(_lstm))
aten("gru.input")(_layers(_gru))
aten("rnn_tanh.input")(_layers(_simple(F.tanh)))
aten("rnn_relu.input")(_layers(_simple(F.relu)))
