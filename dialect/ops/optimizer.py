"""Updates of parameters: one step of each optimizer, as a function.

OneFlow's operators write into their operands. Tensors of the dialect are values, so the results of an update are the
new parameter and the new states, named after the operands: `model` becomes `model_out`. A program in which they take
the memory of the old tensors states that at its arguments (`oneflow.donated`), not at the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import Stage
from oneflow.dialect.elementwise import elementwise
from oneflow.dialect.ops.update import (
    COPY,
    NO_GRAD,
    RATE,
    Change,
    Reference,
    Step,
    changed,
    number,
    regularized,
    stored,
    to_f64,
    update,
    weighed,
)
from oneflow.dialect.record import Call, no_sbp
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc

CORRECTIONS = "bias_correction1?, bias_correction2?"
MOMENTS = (
    "bias_correction1_val: float = 1.0, bias_correction2_val: float = 1.0, beta1: float = 0.9, beta2: float = 0.999,"
    " epsilon: float = 0.0, do_bias_correction: bool = True"
)


def _sgd_reference(model: Any, diff: Any, lr: Any, scale_by: Any, skip: Any, **attrs: Any) -> Any:
    step = Reference(model, diff, lr, scale_by, skip, attrs)
    return step.results(step.rate * step.g)


update(
    f"sgd_update(model, model_diff, {COPY}?, {RATE}", "", "Gradient descent: model - learning_rate * gradient.",
    {"model": lambda step, op: step.decayed(step.rate * step.g)}, _sgd_reference,
)  # fmt: skip


def _momentum(step: Step, op: Call) -> Expr:
    element: Expr = op.momentum[step.at] * op.beta + step.g * (1.0 - op.dampening)
    return element


def _momentum_model(step: Step, op: Call, momentum: Expr) -> Expr:
    direction = step.g + momentum * op.beta if op.nesterov else momentum
    return step.decayed(-step.rate * direction if op.maximize else step.rate * direction)


def _momentum_reference(model: Any, diff: Any, old: Any, lr: Any, scale_by: Any, skip: Any, **attrs: Any) -> Any:
    step = Reference(model, diff, lr, scale_by, skip, attrs)
    new = attrs["beta"] * to_f64(old) + (1 - attrs["dampening"]) * step.g
    direction = step.g + attrs["beta"] * new if attrs["nesterov"] else new
    return step.results(step.rate * direction * (-1 if attrs["maximize"] else 1), (old, new))


update(
    f"momentum_update(model, model_diff, momentum, {RATE}",
    ", beta: float = 0.9, dampening: float = 0.0, nesterov: bool = False, maximize: bool = False",
    "Descent along momentum = beta * momentum + (1 - dampening) * gradient.",
    {"momentum": _momentum, "model": _momentum_model}, _momentum_reference,
)  # fmt: skip


def _mean(state: str, beta: str, square: bool = False) -> Change:
    """The running mean of the gradient or of its square, weighted before the square is taken to avoid overflow."""

    def change(step: Step, op: Call, **_: Expr) -> Expr:
        share = step.g * (1.0 - op[beta])
        element: Expr = op[state][step.at] * op[beta] + (share * step.g if square else share)
        return element

    return change


def _adam_model(step: Step, op: Call, m: Expr, v: Expr, max_v: Expr | None = None) -> Expr:
    size = s.sqrt(v if max_v is None else max_v) / s.sqrt(step.correction(2)) + op.epsilon
    return step.decayed(step.rate / step.correction(1) * (m / size))


def _moments(step: Reference, m: Any, v: Any, attrs: dict[str, Any]) -> tuple[Any, Any]:
    new_m = attrs["beta1"] * to_f64(m) + (1 - attrs["beta1"]) * step.g
    return new_m, attrs["beta2"] * to_f64(v) + (1 - attrs["beta2"]) * step.g**2


def _corrections(first: Any, second: Any, attrs: dict[str, Any]) -> tuple[float, float]:
    pair = [number(a, attrs[f"bias_correction{i}_val"]) for i, a in ((1, first), (2, second))]
    return (pair[0], pair[1]) if attrs["do_bias_correction"] else (1.0, 1.0)


def _adam_reference(
    model: Any, diff: Any, lr: Any, scale_by: Any, skip: Any, first: Any, second: Any, m: Any, v: Any, max_v: Any,
    **attrs: Any,
) -> Any:  # fmt: skip
    step = Reference(model, diff, lr, scale_by, skip, attrs)
    by_m, by_v = _corrections(first, second, attrs)
    new_m, new_v = _moments(step, m, v, attrs)
    largest = new_v if max_v is None else np.maximum(to_f64(max_v), new_v)
    change = step.rate * (new_m / by_m) / (np.sqrt(largest) / np.sqrt(by_v) + attrs["epsilon"])
    return step.results(change, (m, new_m), (v, new_v), *([] if max_v is None else [(max_v, largest)]))


update(
    f"adam_update(model, model_diff, {COPY}?, {RATE}, {CORRECTIONS}, m, v, max_v?",
    f", {MOMENTS}, amsgrad: bool = False",
    "Adam: m / bias_correction1 / (sqrt(v / bias_correction2) + epsilon); `weight_decay` makes it AdamW.\n\n"
    "With `amsgrad` the largest v so far, `max_v`, replaces v.",
    {
        "m": _mean("m", "beta1"),
        "v": _mean("v", "beta2", square=True),
        "max_v": lambda step, op, v, **_: s.maximum(op.max_v[step.at], v),
        "model": _adam_model,
    },
    _adam_reference,
)  # fmt: skip


def _lengths(*stages: Stage) -> Callable[[], list[Expr]]:
    """The norms of whole tensors, readable at any element; squares of f32 are summed in f64, without overflow."""

    def square(x: Stage, at: Sequence[Expr]) -> Expr:
        value = s.cast(x[tuple(at)], dtypes.float64)
        return value * value

    squares = [(x, c.sum_((), x.shape, lambda *at, x=x: square(x, at))) for x in stages]
    return lambda: [s.cast(s.sqrt(square_sum[()]), x.dtype.accumulator) for x, square_sum in squares]


def _lamb(op: Call) -> list[Stage]:
    dtype = op.model.dtype.accumulator
    m, v = (changed(op, n, _mean(n, b, n == "v"), {}, dtype) for n, b in (("m", "beta1"), ("v", "beta2")))
    shape = op.model.shape

    def direction(*at: Any) -> Expr:
        step = Step(op, at)
        element: Expr = m[at] / step.correction(1) / (s.sqrt(v[at]) / s.sqrt(step.correction(2)) + op.epsilon)
        return element

    change = c.element_wise(shape, direction, op.model.dtype.accumulator)
    lengths = _lengths(op.model, change)

    def element(*at: Any) -> Expr:
        step = Step(op, at)
        of_model, of_change = lengths()
        ratio = s.where((of_model > 0) & (of_change > 0), of_model / of_change, 1.0)
        step.rate = step.rate * ratio
        return step.unless_skipped("model", step.decayed(step.rate * change[at]))

    return [c.element_wise(shape, element, op.model.dtype), stored(op, m), stored(op, v)]


def _lamb_reference(
    model: Any, diff: Any, lr: Any, scale_by: Any, skip: Any, first: Any, second: Any, m: Any, v: Any, **attrs: Any
) -> Any:
    step = Reference(model, diff, lr, scale_by, skip, attrs)
    by_m, by_v = _corrections(first, second, attrs)
    new_m, new_v = _moments(step, m, v, attrs)
    direction = (new_m / by_m) / (np.sqrt(new_v) / np.sqrt(by_v) + attrs["epsilon"])
    lengths = [np.sqrt(np.sum(a**2)) for a in (step.p, direction)]
    step.rate *= lengths[0] / lengths[1] if all(n > 0 for n in lengths) else 1.0
    return step.results(step.rate * direction, (m, new_m), (v, new_v))


update(
    f"lamb_update(model, model_diff, {RATE}, {CORRECTIONS}, m, v", f", {MOMENTS}",
    "Lamb: a step of Adam, its length in proportion to the length of the parameter.",
    {"m": _mean("m", "beta1"), "v": _mean("v", "beta2", square=True)}, _lamb_reference, compute=_lamb,
    sbp=no_sbp("needs the length of the whole parameter"),
)  # fmt: skip


def _adagrad_model(step: Step, op: Call, sum: Expr) -> Expr:
    rate = step.rate / (step.steps_before() * op.lr_decay + 1.0) if op.lr_decay else step.rate
    step.rate = rate
    return step.decayed(rate / (s.sqrt(sum) + op.epsilon) * step.g)


def _adagrad_reference(
    model: Any, diff: Any, lr: Any, scale_by: Any, skip: Any, train_step: Any, old: Any, **attrs: Any
) -> Any:
    step = Reference(model, diff, lr, scale_by, skip, attrs)
    step.rate /= 1 + number(train_step, attrs["train_step_val"] - 1) * attrs["lr_decay"]
    new = step.held(to_f64(old) + step.g**2)
    return step.results(step.rate * step.g / (np.sqrt(new) + attrs["epsilon"]), (old, new))


update(
    f"adagrad_update(model, model_diff, {RATE}, train_step?, sum",
    ", train_step_val: int32 = 0, lr_decay: float = 0.0, epsilon: float = 0.0",
    "Adagrad: gradient / (sqrt(sum of squared gradients) + epsilon).\n\n"
    "The rate is divided by 1 + lr_decay * the number of steps before, `train_step` or `train_step_val` - 1.",
    {"sum": lambda step, op: op["sum"][step.at] + step.g * step.g, "model": _adagrad_model}, _adagrad_reference,
)  # fmt: skip


def _squared(x: Expr) -> Expr:
    """A square in f64, which holds the squares of all f32."""
    wide = s.cast(x, dtypes.float64)
    return wide * wide


def _direction(step: Step, op: Call, mean_square: Expr, mean_gradient: Expr | None = None) -> Expr:
    size = mean_square
    if mean_gradient is not None:
        size = s.cast(s.cast(mean_square, dtypes.float64) - _squared(mean_gradient), mean_square.dtype)
    return step.g / (s.sqrt(size) + op.epsilon if op.epsilon_apart else s.sqrt(size + op.epsilon))


def _rmsprop_momentum(step: Step, op: Call, **means: Expr) -> Expr:
    element: Expr = op.momentum[step.at] * op.beta + _direction(step, op, **means)
    return element


def _rmsprop_model(step: Step, op: Call, momentum: Expr | None = None, **means: Expr) -> Expr:
    return step.decayed(step.rate * (_direction(step, op, **means) if momentum is None else momentum))


def _rmsprop_reference(
    model: Any, diff: Any, lr: Any, scale_by: Any, skip: Any, square: Any, mean: Any, momentum: Any, **attrs: Any
) -> Any:
    step, rate = Reference(model, diff, lr, scale_by, skip, attrs), attrs["decay_rate"]
    new = rate * to_f64(square) + (1 - rate) * step.g**2
    new_mean = 0.0 if mean is None else rate * to_f64(mean) + (1 - rate) * step.g
    inside, outside = (0.0, attrs["epsilon"]) if attrs["epsilon_apart"] else (attrs["epsilon"], 0.0)
    direction = step.g / (np.sqrt(new - new_mean**2 + inside) + outside)
    states = [(square, new)] if mean is None else [(square, new), (mean, new_mean)]
    if momentum is not None:
        direction = attrs["beta"] * to_f64(momentum) + direction
        states.append((momentum, direction))
    return step.results(step.rate * direction, *states)


update(
    f"rmsprop_update(model, model_diff, {RATE}, mean_square, mean_gradient?, momentum?",
    ", centered: bool = False, epsilon: float = 0.0, decay_rate: float = 0.99, epsilon_apart: bool = False,"
    " beta: float = 0.0",
    "RMSprop: gradient / sqrt(mean of squared gradients + epsilon), `centered` less the squared mean gradient.\n\n"
    "Additions to OneFlow: with `epsilon_apart` epsilon is added to the root, as PyTorch does; with `momentum` the"
    " step is along beta * momentum + that quotient.",
    {
        "mean_square": _mean("mean_square", "decay_rate", square=True),
        "mean_gradient": _mean("mean_gradient", "decay_rate"),
        "momentum": _rmsprop_momentum,
        "model": _rmsprop_model,
    },
    _rmsprop_reference,
)  # fmt: skip


def _lars(op: Call) -> list[Stage]:
    shape = op.model.shape
    gradient = c.element_wise(shape, lambda *at: Step(op, at).g, op.model.dtype.accumulator)
    lengths = _lengths(op.model, gradient)

    def rate(step: Step) -> Expr:
        of_model, of_gradient = lengths()
        trust = of_model * op.lars_coefficient / (of_gradient + of_model * op.weight_decay + op.epsilon)
        element: Expr = step.rate * s.where((of_model > 0) & (of_gradient > 0), trust, 1.0)
        return element

    def momentum(step: Step) -> Expr:
        element: Expr = op.momentum[step.at] * op.momentum_beta - rate(step) * step.g
        return element

    def model(step: Step) -> Expr:
        change = -momentum(step)
        step.rate = rate(step)
        return step.decayed(change)

    def new(name: str, change: Callable[[Step], Expr]) -> Stage:
        return c.element_wise(
            shape, lambda *at: (step := Step(op, at)).unless_skipped(name, change(step)), op.model.dtype
        )

    return [new("model", model), new("momentum", momentum)]


def _lars_reference(model: Any, diff: Any, lr: Any, old: Any, scale_by: Any, skip: Any, **attrs: Any) -> Any:
    step = Reference(model, diff, lr, scale_by, skip, attrs)
    lengths = [np.sqrt(np.sum(a**2)) for a in (step.p, step.g)]
    denominator = attrs["epsilon"] + lengths[1] + attrs["weight_decay"] * lengths[0]
    step.rate *= attrs["lars_coefficient"] * lengths[0] / denominator if all(n > 0 for n in lengths) else 1.0
    new = attrs["momentum_beta"] * to_f64(old) - step.rate * step.g
    return step.results(-new, (old, new))


update(
    "lars_update(model, model_diff, learning_rate?, momentum, scale_by_tensor?, skip_if?",
    ", momentum_beta: float = 0.9, epsilon: float = 0.0, lars_coefficient: float = 0.0001",
    "LARS: descent along momentum, momentum = momentum_beta * momentum - rate * gradient.\n\n"
    "The rate is learning_rate * lars_coefficient * |model| / (epsilon + |gradient| + weight_decay * |model|), of the"
    " lengths of whole tensors; where one of these is 0, learning_rate.",
    {"momentum": _momentum}, _lars_reference, compute=_lars,
    sbp=no_sbp("needs the length of the whole parameter"),
)  # fmt: skip


def _ftrl(step: Step, op: Call) -> tuple[Expr, Expr, Expr]:
    """The new sum of squares, a power of it, and the new z."""
    old = s.cast(op.accumulate[step.at], dtypes.float64)
    new = old + _squared(step.g)
    power, before = (s.cast(s.power(x, op.lr_power), step.p.dtype) for x in (new, old))
    return new, power, op.z[step.at] + step.g - (power - before) / step.rate * step.p


def _ftrl_model(step: Step, op: Call, **_: Expr) -> Expr:
    power, z = _ftrl(step, op)[1:]
    bound = s.const(op.lambda1, z.dtype)
    shrunk = s.where(z < 0, -bound, bound) - z
    model = step.decay(shrunk / ((power + op.beta) / step.rate + op.lambda2))
    return s.where(abs(z) < op.lambda1, 0.0, model)


def _ftrl_reference(model: Any, diff: Any, lr: Any, skip: Any, accumulate: Any, z: Any, **attrs: Any) -> Any:
    step = Reference(model, diff, lr, None, skip, attrs)
    old = to_f64(accumulate)
    new = old + step.g**2
    power = new ** attrs["lr_power"]
    new_z = to_f64(z) + step.g - (power - old ** attrs["lr_power"]) / step.rate * step.p
    curvature = (attrs["beta"] + power) / step.rate + attrs["lambda2"]
    new_model = (np.copysign(attrs["lambda1"], new_z) - new_z) / curvature
    kept = np.where(np.abs(new_z) < attrs["lambda1"], 0.0, new_model - weighed(step.decay, step.rate * step.p))
    return step.pairs((model, kept), (accumulate, new), (z, new_z))


update(
    "ftrl_update(model, model_diff, learning_rate?, skip_if?, accumulate, z",
    ", lr_power: float = 0.0, lambda1: float = 0.0, lambda2: float = 0.0, beta: float = 0.0",
    "FTRL-proximal: the parameter that z and the sum of squared gradients, `accumulate`, say.\n\n"
    "z grows by gradient - (new accumulate^lr_power - old accumulate^lr_power) / learning_rate * model. The parameter"
    " is 0 where |z| < lambda1, else (lambda1 * sign(z) - z) / ((beta + accumulate^lr_power) / learning_rate +"
    " lambda2).",
    {
        "accumulate": lambda step, op: _ftrl(step, op)[0],
        "z": lambda step, op, **_: _ftrl(step, op)[2],
        "model": _ftrl_model,
    },
    _ftrl_reference,
    in_double=("accumulate",),
)  # fmt: skip


def _adadelta(step: Step, op: Call) -> tuple[Expr, Expr]:
    """The new mean of squared gradients, and the change by a learning rate of 1."""
    g = regularized(-step.scaled, step.p, op.l1, op.l2) if op.maximize else step.g
    squares = op.square_avgs[step.at] * op.rho + g * (1.0 - op.rho) * g
    return squares, s.sqrt(op.acc_deltas[step.at] + op.epsilon) / s.sqrt(squares + op.epsilon) * g


def _adadelta_deltas(step: Step, op: Call, **_: Expr) -> Expr:
    delta = _adadelta(step, op)[1]
    element: Expr = op.acc_deltas[step.at] * op.rho + delta * (1.0 - op.rho) * delta
    return element


def _adadelta_reference(
    model: Any, diff: Any, lr: Any, skip: Any, squares: Any, deltas: Any, *, rho: float, epsilon: float,
    maximize: bool, **attrs: Any,
) -> Any:  # fmt: skip
    step = Reference(model, diff, lr, None, skip, attrs)
    g = step.regular - step.scaled if maximize else step.g
    new = step.held(rho * to_f64(squares) + (1 - rho) * g**2)
    delta = np.sqrt(to_f64(deltas) + epsilon) / np.sqrt(new + epsilon) * g
    changed_deltas = rho * to_f64(deltas) + (1 - rho) * delta**2
    return step.pairs((model, step.p - step.rate * delta), (squares, new), (deltas, changed_deltas))


update(
    "adadelta_update(model, model_diff, learning_rate?, skip_if?, square_avgs, acc_deltas",
    ", rho: float = 0.9, epsilon: float = 0.0, maximize: bool = False",
    "Adadelta: gradient * sqrt(mean of squared changes + epsilon) / sqrt(mean of squared gradients + epsilon).\n\n"
    "`weight_decay` does nothing, as in OneFlow's kernel: its optimizer decays by `l2`.",
    {
        "square_avgs": lambda step, op: _adadelta(step, op)[0],
        "acc_deltas": _adadelta_deltas,
        "model": lambda step, op, **_: step.p - step.rate * _adadelta(step, op)[1],
    },
    _adadelta_reference,
)  # fmt: skip


def _correction_types(op: Call) -> TensorDesc:
    expect_dtype(op, "train_step", op.train_step, (dtypes.int64,))
    return TensorDesc(op.train_step.shape, dtypes.float32)


def _correction(step: Expr, *, beta: float) -> Expr:
    power = s.power(s.const(beta, dtypes.float64), s.cast(step + 1, dtypes.float64))
    return s.cast(1.0 - power, dtypes.float32)


elementwise(
    "adam_bias_correction_factor(train_step, beta: float = 0.9) -> out",
    "1 - beta^(train_step + 1): the divisor of a moment in Adam; train_step counts from 0.",
    scalar=_correction, types=_correction_types, grad=NO_GRAD,
    reference=lambda step, *, beta: (1 - beta ** (step + 1.0)).astype(np.float32),
)  # fmt: skip
