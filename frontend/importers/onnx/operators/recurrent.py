"""Recurrent layers, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.operators.products import shifted
from oneflow.frontend.importers.onnx.operators.quantization import dynamic_quantized
from oneflow.frontend.importers.onnx.table import builder
from oneflow.frontend.tracing.control_flow import run_steps

Activation = Callable[[Tensor], Tensor]

#: Activations by lower-case name, with the defaults of the parameters that each takes: none, `activation_alpha`, or
#: `activation_alpha` and `activation_beta`.
_ACTIVATIONS: dict[str, tuple[Callable[..., Tensor], tuple[float, ...]]] = {
    "relu": (F.relu, ()),
    "tanh": (F.tanh, ()),
    "sigmoid": (F.sigmoid, ()),
    "affine": (lambda x, a, b: F.add(F.mul(x, a), b), (1.0, 0.0)),
    "leakyrelu": (F.leaky_relu, (0.01,)),
    "thresholdedrelu": (lambda x, a: F.threshold(x, a, 0.0), (1.0,)),
    "scaledtanh": (lambda x, a, b: F.mul(F.tanh(F.mul(x, b)), a), (1.0, 1.0)),
    "hardsigmoid": (lambda x, a, b: F.clamp(F.add(F.mul(x, a), b), 0.0, 1.0), (0.2, 0.5)),
    "elu": (F.elu, (1.0,)),
    "softsign": (F.softsign, ()),
    "softplus": (F.softplus, ()),
}


def _activations(
    defaults: str, directions: int, names: Sequence[str] | None, alphas: Any, betas: Any, clip: float | None
) -> list[Activation]:
    """The activations of all directions: the named activations, or the defaults for each."""
    names = names or defaults.split() * directions
    unknown = [n for n in names if n.lower() not in _ACTIVATIONS]
    if unknown:
        raise OnnxError(f"expected activations among {', '.join(_ACTIVATIONS)}, got {unknown[0]!r}")
    values: tuple[Iterator[float], Iterator[float]] = iter(alphas or ()), iter(betas or ())
    activations = []
    for name in names:
        function, numbers = _ACTIVATIONS[name.lower()]
        parameters = [next(given, default) for given, default in zip(values, numbers, strict=False)]
        activations.append(_clipped(function, parameters, clip))
    return activations


def _clipped(function: Callable[..., Tensor], parameters: Sequence[float], clip: float | None) -> Activation:
    return lambda x: function(x if clip is None else F.clamp(x, -clip, clip), *parameters)


def _run(
    step: Callable[[int, Sequence[Tensor], Tensor], list[Tensor]],
    inputs: Sequence[Tensor],
    states: Sequence[Tensor],
    lengths: Tensor | None,
    direction: str,
    layout: int,
) -> tuple[Tensor, ...]:
    """Runs `step(direction, states, slice)` over the slices of the inputs of each direction; `(y, last states..)`,
    each with the directions.

    The first state is the result of a step. A sequence keeps its state after its end.
    """
    alive = [] if lengths is None else [_alive(inputs[0], lengths)]

    def masked(number: int) -> Callable[..., list[Tensor]]:
        def run(states: Sequence[Tensor], elements: Sequence[Tensor]) -> list[Tensor]:
            after = step(number, states, elements[0])
            return [F.where(elements[1], a, b) for a, b in zip(after, states, strict=True)] if alive else after

        return run

    results, ends = [], []
    for number, backwards in enumerate(_DIRECTIONS[direction]):
        first = [F.select(s, 1 if layout else 0, number) for s in states]
        outputs, last = run_steps(masked(number), first, [inputs[number], *alive], backwards)
        results.append(F.where(alive[0], outputs, 0.0) if alive else outputs)
        ends.append(last)
    y = F.stack(results, 1)
    stacked = [F.stack(list(column), 1 if layout else 0) for column in zip(*ends, strict=True)]
    return (F.permute(y, 2, 0, 1, 3) if layout else y, *stacked)


def _alive(inputs: Tensor, lengths: Tensor) -> Tensor:
    """Whether each sequence has each step, (steps, batch, 1)."""
    times = F.unsqueeze(F.arange(inputs.size(0)), 1)
    return F.unsqueeze(F.gt(F.unsqueeze(F.cast(lengths, dtypes.int64), 0), times), 2)


def _of_inputs(x: Tensor, w: Tensor, directions: int, layout: int, product: Any = None) -> list[Tensor]:
    """The products of all slices with the weights of each direction, slices first."""
    x = F.transpose(x, 0, 1) if layout else x
    multiply = product or _by_transposed
    return [multiply(x, w, number) for number in range(directions)]


def _by_transposed(x: Tensor, w: Tensor, number: int) -> Tensor:
    return F.matmul(x, F.t(F.select(w, 0, number)))


_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def _state(initial: Tensor | None, x: Tensor, directions: int, hidden: int, layout: int) -> Tensor:
    """The initial state: the operand, or zeros."""
    batch = x.size(0 if layout else 1)
    sizes = (batch, directions, hidden) if layout else (directions, batch, hidden)
    if initial is None:
        return F.zeros(*sizes, dtype=x.dtype)
    fits = initial.rank == 3 and all(
        d is None or not isinstance(n, int) or d == n for d, n in zip(initial.shape, sizes, strict=True)
    )
    if not fits:
        raise OnnxError(f"expected a state of sizes {list(sizes)} for {x.desc}, got {initial.desc}")
    return initial


def _halves(b: Tensor | None, number: int, like: Tensor) -> tuple[Tensor | float, Tensor | float]:
    """The biases of inputs and of states."""
    if b is None:
        return 0.0, 0.0
    own = F.select(b, 0, number)
    first, second = F.split(own, int(like.shape[1] or 0), 0)
    return first, second


@builder("LSTM")
def _lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 1,
) -> tuple[Tensor, ...]:
    directions = len(_DIRECTIONS[direction])
    functions = _activations("Sigmoid Tanh Tanh", directions, activations, activation_alpha, activation_beta, clip)
    options: dict[str, Any] = {
        "input_forget": input_forget,
        "layout": layout,
        "direction": direction,
        "hidden_size": hidden_size,
    }
    inputs = _of_inputs(x, w, directions, layout)
    return _lstm_of(x, inputs, functions, lambda v, n: _by_transposed(v, r, n), b, lengths, h, c, p, **options)


def _lstm_of(
    x: Tensor,
    inputs: list[Tensor],
    functions: list[Activation],
    of_state: Callable[[Tensor, int], Tensor],
    b: Tensor | None,
    lengths: Tensor | None,
    h: Tensor | None,
    c: Tensor | None,
    p: Tensor | None,
    *,
    direction: str,
    hidden_size: int,
    input_forget: int,
    layout: int,
) -> tuple[Tensor, ...]:
    """The layer, with the products of inputs, and of states by a function."""

    def step(number: int, states: Sequence[Tensor], part: Tensor) -> list[Tensor]:
        before, cell = states
        gate, squash, out = functions[3 * number : 3 * number + 3]
        gates = F.add(part, of_state(before, number))
        if b is not None:
            gates = F.add(gates, F.sum(F.reshape(F.select(b, 0, number), (2, -1)), 0))
        i, o, f, g = F.split(gates, hidden_size, 1)
        if p is not None:
            of_i, of_o, of_f = F.split(F.select(p, 0, number), hidden_size, 0)
            i, f = F.add(i, F.mul(of_i, cell)), F.add(f, F.mul(of_f, cell))
        i = gate(i)
        f = F.sub(1.0, i) if input_forget else gate(f)
        cell = F.add(F.mul(f, cell), F.mul(i, squash(g)))
        o = gate(o if p is None else F.add(o, F.mul(of_o, cell)))
        return [F.mul(o, out(cell)), cell]

    states = [_state(v, x, len(inputs), hidden_size, layout) for v in (h, c)]
    return _run(step, inputs, states, lengths, direction, layout)


@builder("DynamicQuantizeLSTM", domain="com.microsoft")
def _dynamic_quantize_lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    lengths: Tensor | None,
    h: Tensor | None,
    c: Tensor | None,
    p: Tensor | None,
    w_scale: Tensor,
    w_zero: Tensor,
    r_scale: Tensor,
    r_zero: Tensor,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    input_forget: int = 0,
) -> tuple[Tensor, ...]:
    """ONNX Runtime's layer with weights of bytes: inputs and states are quantized for each product."""
    directions = len(_DIRECTIONS[direction])
    functions = _activations("Sigmoid Tanh Tanh", directions, activations, activation_alpha, activation_beta, clip)
    options: dict[str, Any] = {
        "input_forget": input_forget,
        "layout": 0,
        "direction": direction,
        "hidden_size": hidden_size,
    }

    def by(weight: Tensor, scale: Tensor, zero: Tensor) -> Callable[[Tensor, int], Tensor]:
        def multiply(v: Tensor, number: int) -> Tensor:
            codes, of_codes, shift = dynamic_quantized(v)
            product = F.matmul(shifted(codes, shift), shifted(F.select(weight, 0, number), F.select(zero, 0, number)))
            return F.mul(F.cast(product, v.dtype), F.mul(of_codes, F.select(scale, 0, number)))

        return multiply

    of_inputs = by(w, w_scale, w_zero)
    inputs = _of_inputs(x, w, directions, 0, lambda v, _, number: of_inputs(v, number))
    return _lstm_of(x, inputs, functions, by(r, r_scale, r_zero), b, lengths, h, c, p, **options)


@builder("GRU")
def _gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 1,
) -> tuple[Tensor, ...]:
    directions = len(_DIRECTIONS[direction])
    functions = _activations("Sigmoid Tanh", directions, activations, activation_alpha, activation_beta, clip)

    def step(number: int, states: Sequence[Tensor], part: Tensor) -> list[Tensor]:
        before = states[0]
        gate, squash = functions[2 * number : 2 * number + 2]
        first, second = _halves(b, number, w)
        of_part = F.add(part, first)
        weights = F.select(r, 0, number)
        of_gates, of_new = F.split(weights, [2 * hidden_size, hidden_size], 0)
        bias_gates, bias_new = (
            F.split(second, [2 * hidden_size, hidden_size], 0) if isinstance(second, Tensor) else (0.0, 0.0)
        )
        z_and_r, new = F.split(of_part, [2 * hidden_size, hidden_size], 1)
        z_and_r = gate(F.add(F.add(z_and_r, F.matmul(before, F.t(of_gates))), bias_gates))
        z, reset = F.split(z_and_r, hidden_size, 1)
        if linear_before_reset:
            candidate = F.mul(reset, F.add(F.matmul(before, F.t(of_new)), bias_new))
        else:
            candidate = F.add(F.matmul(F.mul(reset, before), F.t(of_new)), bias_new)
        candidate = squash(F.add(new, candidate))
        return [F.add(F.mul(F.sub(1.0, z), candidate), F.mul(z, before))]

    states = [_state(h, x, directions, hidden_size, layout)]
    return _run(step, _of_inputs(x, w, directions, layout), states, lengths, direction, layout)


@builder("RNN")
def _rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    layout: int = 0,
    output_sequence: int = 1,
) -> tuple[Tensor, ...]:
    directions = len(_DIRECTIONS[direction])
    functions = _activations("Tanh", directions, activations, activation_alpha, activation_beta, clip)

    def step(number: int, states: Sequence[Tensor], part: Tensor) -> list[Tensor]:
        first, second = _halves(b, number, w)
        of_part = F.add(part, first)
        of_state = F.add(F.matmul(states[0], F.t(F.select(r, 0, number))), second)
        return [functions[number](F.add(of_part, of_state))]

    states = [_state(h, x, directions, hidden_size, layout)]
    return _run(step, _of_inputs(x, w, directions, layout), states, lengths, direction, layout)
