"""Recurrent layers and cells: RNN, LSTM, GRU. Parameters have PyTorch's names, shapes and initial distributions. The
input products of all steps are one product. In a compiled function the steps of a sequence are one `scan`, in eager
mode a Python loop, as are loops over packed sequences and over a batch of dynamic size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.errors import fail
from oneflow.frontend.nn import init
from oneflow.frontend.nn.layers import new_parameter
from oneflow.frontend.nn.module import Module, takes_device
from oneflow.frontend.nn.rnn_packing import PackedSequence
from oneflow.frontend.tracing.control_flow import run_steps

__all__ = [
    "GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell",
]  # fmt: skip

States = tuple[Any, ...]
#: Computes the new states from the gate values of the input and of the previous state, and the previous states.
Step = Callable[[Any, Any, States], States]


def _plain(activation: Callable[[Any], Any]) -> Step:
    return lambda gates, recurrent, states: (activation(F.add(gates, recurrent)),)


def _lstm(gates: Any, recurrent: Any, states: States) -> States:
    enter, keep, new, leave = F.chunk(F.add(gates, recurrent), 4, -1)
    cell = F.add(F.mul(F.sigmoid(keep), states[1]), F.mul(F.sigmoid(enter), F.tanh(new)))
    return F.mul(F.sigmoid(leave), F.tanh(cell)), cell


def _gru(gates: Any, recurrent: Any, states: States) -> States:
    (reset, keep, new), (reset_before, keep_before, before) = (F.chunk(v, 3, -1) for v in (gates, recurrent))
    new = F.tanh(F.add(new, F.mul(F.sigmoid(F.add(reset, reset_before)), before)))
    return (F.add(new, F.mul(F.sigmoid(F.add(keep, keep_before)), F.sub(states[0], new))),)


#: The steps of plain layers, by their nonlinearity.
_PLAIN = {"tanh": _plain(F.tanh), "relu": _plain(F.relu)}


def _plain_step(nonlinearity: str) -> Step:
    if nonlinearity not in _PLAIN:
        raise ValueError(f'expected nonlinearity "tanh" or "relu", got {nonlinearity!r}')
    return _PLAIN[nonlinearity]


class _Recurrent(Module):
    """The base of recurrent layers and cells: the number of `gates`, the number of states, and a step."""

    gates: int
    states: int = 1
    step: Step

    def __init__(self, input_size: int, hidden_size: int, bias: bool) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias

    def make(self, suffix: str, inputs: int, outputs: int, dtype: DType | None) -> None:
        """Makes the parameters of one direction of a layer: of the inputs and of the state before."""
        rows = self.gates * self.hidden_size
        for name, shape in (("ih", (rows, inputs)), ("hh", (rows, outputs))):
            self.register_parameter(f"weight_{name}{suffix}", new_parameter(*shape, dtype=dtype))
        for name in ("ih", "hh"):
            self.register_parameter(f"bias_{name}{suffix}", new_parameter(rows, dtype=dtype) if self.bias else None)

    def reset_parameters(self) -> None:
        """Draws the parameters again, uniform in [-1 / sqrt(hidden_size), 1 / sqrt(hidden_size))."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def input_gates(self, suffix: str, x: Any) -> Any:
        """The inputs' part of the gates."""
        return F.linear(x, getattr(self, f"weight_ih{suffix}"), getattr(self, f"bias_ih{suffix}"))

    def stepper(self, suffix: str) -> Callable[[Any, States], States]:
        """The function from the inputs' part of the gates, and the states before, to the states after one step."""
        names = ("weight_hh", "bias_hh", "weight_hr")
        weight, bias, projection = (getattr(self, f"{name}{suffix}", None) for name in names)

        def next_states(gates: Any, states: States) -> States:
            states = self.step(gates, F.linear(states[0], weight, bias), states)
            return states if projection is None else (F.linear(states[0], projection), *states[1:])

        return next_states

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.input_size}, {self.hidden_size}"


def _zero_state(x: Any, *sizes: int) -> Any:
    """Zeros of the batch and element type of `x`, `(batch, features)`."""
    return F.expand(F.zeros_like(F.narrow(x, -1, 0, 1)), *sizes)


class _Cell(_Recurrent):
    """The cell of a layer: an input `(batch, input_size)`, or one without a batch, and states before, or zeros."""

    @takes_device
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, *, dtype: DType | None = None, device: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias)
        self.make("", input_size, hidden_size, dtype)
        self.reset_parameters()

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The states after the input: one tensor, or a pair of tensors for an LSTM."""
        if hx is None:
            sizes = [-1] * (input.dim() - 1)
            hx = (_zero_state(input, *sizes, self.hidden_size),) * self.states
        before = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        states = self.stepper("")(self.input_gates("", input), before)
        return states if self.states > 1 else states[0]


class RNNCell(_Cell):
    """The cell of an `RNN`: act(W_ih x + b_ih + W_hh h + b_hh)."""

    gates = 1

    @takes_device
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, dtype=dtype)
        self.nonlinearity, self.step = nonlinearity, _plain_step(nonlinearity)


class LSTMCell(_Cell):
    """The cell of an `LSTM`."""

    gates, states, step = 4, 2, staticmethod(_lstm)


class GRUCell(_Cell):
    """The cell of a `GRU`."""

    gates, step = 3, staticmethod(_gru)


def _with_rows(states: States, rows: int, first: States, ended: list[States]) -> States:
    """The states of the sequences that a step has: sequences that end before the step are added to `ended`, sequences
    that begin with the step, in reverse direction, have their first states.
    """
    current = states[0].shape[0]
    if rows < current:
        ended.append(tuple(F.narrow(s, 0, rows, current - rows) for s in states))
        return tuple(F.narrow(s, 0, 0, rows) for s in states)
    if rows > current:
        return tuple(F.cat([s, F.narrow(f, 0, current, rows - current)]) for s, f in zip(states, first, strict=True))
    return states


class _Layers(_Recurrent):
    """Layers over sequences `(length, batch, features)`, in both directions with `bidirectional`.

    `batch_first` has the batch before the length; a sequence may have no batch. Results are the states of the last
    layer at every step, and the states of every layer and direction after the last step. In training mode `dropout`
    is the probability with which elements between layers are dropped.
    """

    @takes_device
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias)
        if num_layers < 1 or not 0 <= dropout <= 1:
            raise ValueError(
                f"expected num_layers of at least 1 and dropout of 0 to 1, got {num_layers} and {dropout}"
            )
        if proj_size and (self.states == 1 or not 0 < proj_size < hidden_size):
            raise ValueError(f"expected proj_size for an LSTM alone, below {hidden_size}, got {proj_size}")
        self.num_layers, self.batch_first, self.dropout = num_layers, batch_first, dropout
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._directions = ("", "_reverse") if bidirectional else ("",)
        outputs = proj_size or hidden_size
        for layer in range(num_layers):
            for direction in self._directions:
                inputs = outputs * len(self._directions) if layer else input_size
                self.make(f"_l{layer}{direction}", inputs, outputs, dtype)
                if proj_size:
                    weight = new_parameter(proj_size, hidden_size, dtype=dtype)
                    self.register_parameter(f"weight_hr_l{layer}{direction}", weight)
        self.reset_parameters()

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The states at every step, and the final states: one tensor, or a pair of tensors for an LSTM.

        For a `PackedSequence` the result is a packed sequence, and for each sequence the states after its last step.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        unbatched = input.dim() == 2
        if input.dim() not in (2, 3):
            raise fail(f"expected input of 2 or 3 dimensions, got {input.desc}")
        at = 1 if unbatched or not self.batch_first else 0
        x = F.unsqueeze(input, 1) if unbatched else F.transpose(input, 0, 1) if self.batch_first else input
        first = self._initial_states(F.select(x, 0, 0), hx, unbatched)
        x, ends = self._run_layers(x, first, None)
        last = [F.stack(states) for states in zip(*ends, strict=True)]
        last = [F.squeeze(state, 1) for state in last] if unbatched else last
        x = F.squeeze(x, 1) if unbatched else x if at else F.transpose(x, 0, 1)
        return x, (tuple(last) if self.states > 1 else last[0])

    def _forward_packed(self, input: PackedSequence, hx: Any) -> Any:
        """`forward` of packed sequences."""
        sizes = [int(n) for n in np.asarray(input.batch_sizes)]
        order, back = input.sorted_indices, input.unsorted_indices
        if hx is not None and order is not None:
            initial = hx if isinstance(hx, (tuple, list)) else (hx,)
            hx = tuple(F.index_select(h, 1, order) for h in initial)
        first = self._initial_states(F.narrow(input.data, 0, 0, sizes[0]), hx, False)
        x, ends = self._run_layers(input.data, first, sizes)
        last = [F.stack(states) for states in zip(*ends, strict=True)]
        last = last if back is None else [F.index_select(state, 1, back) for state in last]
        return input._replace(data=x), (tuple(last) if self.states > 1 else last[0])

    def _initial_states(self, step: Any, hx: Any, unbatched: bool) -> list[States]:
        """The states of every layer and direction before the first step."""
        count = self.num_layers * len(self._directions)
        if hx is None:
            sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: self.states]
            return [tuple(_zero_state(step, -1, size) for size in sizes)] * count
        initial = hx if isinstance(hx, (tuple, list)) else (hx,)
        wanted = 2 if unbatched else 3
        if len(initial) != self.states or any(h.dim() != wanted or h.shape[0] != count for h in initial):
            texts = [str(h.desc) for h in initial]
            raise fail(f"expected {self.states} states of {wanted} dimensions, the first of {count}, got {texts}")
        initial = [F.unsqueeze(h, 1) if unbatched else h for h in initial]
        return [tuple(F.select(h, 0, number) for h in initial) for number in range(count)]

    def _run_layers(
        self, x: Any, first: Sequence[States], sizes: Sequence[int] | None
    ) -> tuple[Any, list[Sequence[Any]]]:
        """The last layer's states at every step, and the states of all after the last. `sizes` are the numbers of
        sequences at each step of packed sequences.
        """
        ends: list[Sequence[Any]] = []
        for layer in range(self.num_layers):
            both = []
            for direction in self._directions:
                steps, end = self._run_direction(x, f"_l{layer}{direction}", first[len(ends)], sizes)
                both.append(steps)
                ends.append(end)
            x = F.cat(both, -1) if len(both) > 1 else both[0]
            if layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        return x, ends

    def _run_direction(
        self, x: Any, suffix: str, first: States, sizes: Sequence[int] | None
    ) -> tuple[Any, Sequence[Any]]:
        """The states of one direction of a layer at every step, and those after the last."""
        gates, back, next_states = self.input_gates(suffix, x), suffix.endswith("_reverse"), self.stepper(suffix)
        if sizes is None:
            return run_steps(lambda states, given: next_states(given, states), first, gates, back)
        given = F.split(gates, sizes)
        outputs: list[Any] = []
        ended: list[States] = []
        states = tuple(F.narrow(s, 0, 0, sizes[-1 if back else 0]) for s in first)
        for at in reversed(given) if back else given:
            states = next_states(at, _with_rows(states, at.shape[0], first, ended))
            outputs.append(states[0])
        if ended:
            states = tuple(F.cat(parts) for parts in zip(states, *reversed(ended), strict=True))
        return F.cat(outputs[::-1] if back else outputs), states

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{super().extra_repr()}, num_layers={self.num_layers}, bidirectional={self.bidirectional}"


class RNN(_Layers):
    """Layers of h = act(W_ih x + b_ih + W_hh h + b_hh), where act is `nonlinearity`, "tanh" or "relu"."""

    gates = 1

    @takes_device
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype=dtype)
        self.nonlinearity, self.step = nonlinearity, _plain_step(nonlinearity)


class LSTM(_Layers):
    """Layers with a cell that gates write, keep and read; `proj_size` is the size of its output if that is less."""

    gates, states, step = 4, 2, staticmethod(_lstm)


class GRU(_Layers):
    """Layers whose gates keep the previous state or replace it."""

    gates, step = 3, staticmethod(_gru)
