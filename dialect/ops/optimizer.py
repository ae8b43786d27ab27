"""Updates of parameters: one step of each optimizer, as a function.

OneFlow's operators write into their operands. Here tensors are values, so an update gives the new parameter and the
new states as results, named after the operands: `model` becomes `model_out`. A program in which they take the memory
of the old ones says so at its arguments (`oneflow.donated`), not at the operator.

The gradient that a step works with is `model_diff * scale * scale_by_tensor + l1 * sign(model) + l2 * model`;
`weight_decay` shrinks the parameter apart from it. The learning rate is `learning_rate`, or `learning_rate_val` where
that is not given, times `lr_scale`. Where `skip_if` is not 0, nothing changes. Numbers are tensors of one element.
Imports `record`, `compute`, `scalar`, `shapes`, `sbp`.
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
from oneflow.dialect.ops.rows import expect_present, expect_type
from oneflow.dialect.record import Call, define, no_grad, no_sbp
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype, letters
from oneflow.dialect.tensor_desc import TensorDesc

NO_GRAD = no_grad("an update of a parameter is not differentiated")
RATE = "learning_rate?, scale_by_tensor?, skip_if?"
REGULAR = (
    "learning_rate_val: float = 0.0, lr_scale: float = 1.0, scale: double = 1.0, l1: float = 0.0, l2: float = 0.0,"
    " weight_decay: float = 0.0"
)
CORRECTIONS = "bias_correction1?, bias_correction2?"
MOMENTS = (
    "bias_correction1_val: float = 1.0, bias_correction2_val: float = 1.0, beta1: float = 0.9, beta2: float = 0.999,"
    " epsilon: float = 0.0, do_bias_correction: bool = True"
)
#: Operands of one element, and their element type; None: that of the parameter.
NUMBERS = {
    "learning_rate": dtypes.float32, "scale_by_tensor": None, "skip_if": dtypes.int64, "train_step": dtypes.int64,
    "bias_correction1": dtypes.float32, "bias_correction2": dtypes.float32,
}  # fmt: skip


class Step:
    """One step as a body sees it, at one element: `p` the parameter, `g` the gradient, `rate` the learning rate."""

    def __init__(self, op: Call, at: Sequence[Any]) -> None:
        self.op, self.at = op, tuple(at)
        self.p: Expr = op.model[self.at]
        self.rate = self._given("learning_rate", op.attrs["learning_rate_val"]) * op.lr_scale
        self.g = self._gradient()

    def _gradient(self) -> Expr:
        op, p = self.op, self.p
        g = s.cast(op.model_diff[self.at], p.dtype) * op.scale
        if op.scale_by_tensor is not None:
            g = g * self._given("scale_by_tensor", 1.0)
        if op.l1:
            g = g + s.where(p > 0, op.l1, s.where(p < 0, -op.l1, p * 0.0))
        return g + p * op.l2 if op.l2 else g

    def _given(self, name: str, otherwise: float) -> Expr:
        """The number in an operand of one element, or another where there is none."""
        stage = self.op[name]
        return s.const(otherwise, self.p.dtype) if stage is None else s.cast(first(stage), self.p.dtype)

    def correction(self, which: int) -> Expr:
        """The bias correction of the first or second moment."""
        otherwise = self.op[f"bias_correction{which}_val"]
        if not self.op.do_bias_correction:
            return s.const(1.0, self.p.dtype)
        return self._given(f"bias_correction{which}", otherwise)

    def steps_before(self) -> Expr:
        """How many steps were taken before this one."""
        if self.op.train_step is None:
            return s.const(self.op.train_step_val - 1, self.p.dtype)
        return s.cast(first(self.op.train_step), self.p.dtype)

    def decayed(self, change: Expr) -> Expr:
        """The parameter less a change and its decay."""
        p = self.p - change
        return p - self.rate * self.op.weight_decay * self.p if self.op.weight_decay else p

    def kept(self, name: str, value: Expr) -> Expr:
        """`value`, or what operand `name` has where the step is skipped."""
        if self.op.skip_if is None:
            return value
        return s.where(first(self.op.skip_if).ne(0), self.op[name][self.at], value)


def first(stage: Stage) -> Expr:
    """The element of a tensor of one."""
    return stage[(0,) * stage.rank]


#: How a state or the parameter changes: from the step and the new values of the states before it.
Change = Callable[..., Expr]


def update(operands: str, attrs: str, doc: str, changes: dict[str, Change], reference: Any, **slots: Any) -> None:
    """Registers an update.

    `changes` say, in the order of results but for the parameter, which is computed last and given first, how each
    operand of that name changes; one is called with the step and the new states, by name, as tensors.
    """
    name, _, rest = operands.partition("(")
    states = [n for n in changes if n != "model"]
    optional = {n.strip("?") for n in rest.split(", ") if n.endswith("?")}
    results = [f"{n}_out{'?' * (n in optional)}" for n in ("model", *states)]
    slots = {"types": _types(states), "sbp": _sbp(states), "compute": _compute(changes), **slots}
    signature = f"{name}({rest}, {REGULAR}{attrs}) -> {', '.join(results)}"
    define(signature, doc=doc, grad=NO_GRAD, reference=reference, depth=2, **slots)


def _types(states: Sequence[str]) -> Any:
    def types(op: Call) -> list[TensorDesc]:
        expect_dtype(op, "model", op.model, dtypes.FLOATS)
        expect_dtype(op, "model_diff", op.model_diff, dtypes.FLOATS)
        expect_type(op, "model_diff", TensorDesc(op.model.shape, op.model_diff.dtype))
        for name, attribute in (("max_v", "amsgrad"), ("mean_gradient", "centered")):
            if name in op.inputs:
                expect_present(op, name, attribute)
        for name in states:
            expect_type(op, name, op.model)
        for name in NUMBERS.keys() & op.inputs.keys():
            _expect_number(op, name)
        return [op.model, *(op.model for n in states if op[n] is not None)]

    return types


def _expect_number(op: Call, name: str) -> None:
    """Checks an operand of one element."""
    got, dtype = op[name], NUMBERS[name] or op.model.dtype
    if got is not None and (got.dtype != dtype or got.element_count not in (1, None)):
        raise op.error(f"expected {name} of one element of {dtype}, got {got}")


def _sbp(states: Sequence[str]) -> Any:
    def sbp(op: Call) -> Factors:
        whole = " ".join(letters(op.model.shape))
        sides = [
            whole if name in ("model", "model_diff", *states) else " ".join("_" * slot.rank)
            for name, slot in op.inputs.items()
            if slot is not None
        ]
        return Factors(f"{', '.join(sides)} -> {', '.join([whole] * len(op.results))}")

    return sbp


def _compute(changes: dict[str, Change]) -> Any:
    def compute(op: Call) -> list[Stage]:
        made: dict[str, Stage] = {}
        for name, change in changes.items():
            if op[name] is not None:
                made[name] = _changed(op, name, change, dict(made))
        return [made.pop("model"), *made.values()]

    return compute


def _changed(op: Call, name: str, change: Change, made: dict[str, Stage]) -> Stage:
    def element(*at: Any) -> Expr:
        step = Step(op, at)
        return step.kept(name, change(step, op, **{n: stage[at] for n, stage in made.items()}))

    return c.element_wise(op.model.shape, element, op.model.dtype)


def _wide(array: Any) -> Any:
    return None if array is None else np.asarray(array, np.float64)


def _number(array: Any, otherwise: float) -> float:
    return otherwise if array is None else float(np.asarray(array, np.float64).reshape(()))


class Reference:
    """One step in NumPy: operands in f64, results in the parameter's type, or the operands where it is skipped."""

    def __init__(self, model: Any, diff: Any, lr: Any, scale_by: Any, skip: Any, attrs: dict[str, Any]) -> None:
        self.skipped = skip is not None and bool(np.asarray(skip).reshape(()))
        self.model, self.p, self.decay = model, _wide(model), attrs["weight_decay"]
        self.rate = _number(lr, attrs["learning_rate_val"]) * attrs["lr_scale"]
        scaled = _wide(diff) * attrs["scale"] * _number(scale_by, 1.0)
        self.g = scaled + attrs["l1"] * np.sign(self.p) + attrs["l2"] * self.p

    def results(self, change: Any, *states: tuple[Any, Any]) -> tuple[Any, ...]:
        """The new parameter, and of each pair of an old and a new state the one that holds."""
        new = self.p - change - self.rate * self.decay * self.p
        pairs = [(self.model, new), *states]
        return tuple((old if self.skipped else value).astype(self.model.dtype) for old, value in pairs)


def _sgd_reference(model: Any, diff: Any, lr: Any, scale_by: Any, skip: Any, **attrs: Any) -> Any:
    step = Reference(model, diff, lr, scale_by, skip, attrs)
    return step.results(step.rate * step.g)


update(
    f"sgd_update(model, model_diff, {RATE}", "", "Gradient descent: model - learning_rate * gradient.",
    {"model": lambda step, op: step.decayed(step.rate * step.g)}, _sgd_reference,
)  # fmt: skip


def _momentum(step: Step, op: Call) -> Expr:
    return op.momentum[step.at] * op.beta + step.g * (1.0 - op.dampening)


def _momentum_model(step: Step, op: Call, momentum: Expr) -> Expr:
    direction = step.g + momentum * op.beta if op.nesterov else momentum
    return step.decayed(-step.rate * direction if op.maximize else step.rate * direction)


def _momentum_reference(model: Any, diff: Any, old: Any, lr: Any, scale_by: Any, skip: Any, **attrs: Any) -> Any:
    step = Reference(model, diff, lr, scale_by, skip, attrs)
    new = attrs["beta"] * _wide(old) + (1 - attrs["dampening"]) * step.g
    direction = step.g + attrs["beta"] * new if attrs["nesterov"] else new
    return step.results(step.rate * direction * (-1 if attrs["maximize"] else 1), (old, new))


update(
    f"momentum_update(model, model_diff, momentum, {RATE}",
    ", beta: float = 0.9, dampening: float = 0.0, nesterov: bool = False, maximize: bool = False",
    "Descent along momentum = beta * momentum + (1 - dampening) * gradient.",
    {"momentum": _momentum, "model": _momentum_model}, _momentum_reference,
)  # fmt: skip


def _mean(state: str, beta: str, square: bool = False) -> Change:
    """The running mean of the gradient or of its square."""

    def change(step: Step, op: Call, **_: Expr) -> Expr:
        value = step.g * step.g if square else step.g
        return op[state][step.at] * op[beta] + value * (1.0 - op[beta])

    return change


def _adam_model(step: Step, op: Call, m: Expr, v: Expr, max_v: Expr | None = None) -> Expr:
    size = s.sqrt(v if max_v is None else max_v) / s.sqrt(step.correction(2)) + op.epsilon
    return step.decayed(step.rate / step.correction(1) * (m / size))


def _moments(step: Reference, m: Any, v: Any, attrs: dict[str, Any]) -> tuple[Any, Any]:
    new_m = attrs["beta1"] * _wide(m) + (1 - attrs["beta1"]) * step.g
    return new_m, attrs["beta2"] * _wide(v) + (1 - attrs["beta2"]) * step.g**2


def _corrections(first: Any, second: Any, attrs: dict[str, Any]) -> tuple[float, float]:
    pair = [_number(a, attrs[f"bias_correction{i}_val"]) for i, a in ((1, first), (2, second))]
    return (pair[0], pair[1]) if attrs["do_bias_correction"] else (1.0, 1.0)


def _adam_reference(
    model: Any, diff: Any, lr: Any, scale_by: Any, skip: Any, first: Any, second: Any, m: Any, v: Any, max_v: Any,
    **attrs: Any,
) -> Any:  # fmt: skip
    step = Reference(model, diff, lr, scale_by, skip, attrs)
    by_m, by_v = _corrections(first, second, attrs)
    new_m, new_v = _moments(step, m, v, attrs)
    largest = new_v if max_v is None else np.maximum(_wide(max_v), new_v)
    change = step.rate * (new_m / by_m) / (np.sqrt(largest / by_v) + attrs["epsilon"])
    return step.results(change, (m, new_m), (v, new_v), *([] if max_v is None else [(max_v, largest)]))


update(
    f"adam_update(model, model_diff, {RATE}, {CORRECTIONS}, m, v, max_v?", f", {MOMENTS}, amsgrad: bool = False",
    "Adam: m / bias_correction1 / (sqrt(v / bias_correction2) + epsilon); `weight_decay` makes it AdamW.\n\n"
    "With `amsgrad` the largest v so far, `max_v`, stands in place of v.",
    {
        "m": _mean("m", "beta1"),
        "v": _mean("v", "beta2", square=True),
        "max_v": lambda step, op, v, **_: s.maximum(op.max_v[step.at], v),
        "model": _adam_model,
    },
    _adam_reference,
)  # fmt: skip


def _lamb(op: Call) -> list[Stage]:
    m, v = (_changed(op, n, _mean(n, b, n == "v"), {}) for n, b in (("m", "beta1"), ("v", "beta2")))
    shape = op.model.shape

    def direction(*at: Any) -> Expr:
        step = Step(op, at)
        return m[at] / step.correction(1) / (s.sqrt(v[at]) / s.sqrt(step.correction(2)) + op.epsilon)

    change = c.element_wise(shape, direction, op.model.dtype.accumulator)
    lengths = [c.sum_((), shape, lambda *at, x=x: x[at] * x[at]) for x in (op.model, change)]

    def element(*at: Any) -> Expr:
        step = Step(op, at)
        of_model, of_change = (s.sqrt(length[()]) for length in lengths)
        ratio = s.where((of_model > 0) & (of_change > 0), of_model / of_change, 1.0)
        step.rate = step.rate * ratio
        return step.kept("model", step.decayed(step.rate * change[at]))

    return [c.element_wise(shape, element, op.model.dtype), m, v]


def _lamb_reference(
    model: Any, diff: Any, lr: Any, scale_by: Any, skip: Any, first: Any, second: Any, m: Any, v: Any, **attrs: Any
) -> Any:
    step = Reference(model, diff, lr, scale_by, skip, attrs)
    by_m, by_v = _corrections(first, second, attrs)
    new_m, new_v = _moments(step, m, v, attrs)
    direction = (new_m / by_m) / (np.sqrt(new_v / by_v) + attrs["epsilon"])
    lengths = [np.sqrt(np.sum(a**2)) for a in (step.p, direction)]
    step.rate *= lengths[0] / lengths[1] if min(lengths) > 0 else 1.0
    return step.results(step.rate * direction, (m, new_m), (v, new_v))


update(
    f"lamb_update(model, model_diff, {RATE}, {CORRECTIONS}, m, v", f", {MOMENTS}",
    "Lamb: a step of Adam, its length in proportion to that of the parameter.",
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
    step.rate /= 1 + _number(train_step, attrs["train_step_val"] - 1) * attrs["lr_decay"]
    new = _wide(old) + step.g**2
    return step.results(step.rate * step.g / (np.sqrt(new) + attrs["epsilon"]), (old, new))


update(
    f"adagrad_update(model, model_diff, {RATE}, train_step?, sum",
    ", train_step_val: int32 = 0, lr_decay: float = 0.0, epsilon: float = 0.0",
    "Adagrad: gradient / (sqrt(sum of squared gradients) + epsilon).\n\n"
    "The rate is divided by 1 + lr_decay * the number of steps before, `train_step` or `train_step_val` - 1.",
    {"sum": lambda step, op: op["sum"][step.at] + step.g * step.g, "model": _adagrad_model}, _adagrad_reference,
)  # fmt: skip


def _rmsprop_model(step: Step, op: Call, mean_square: Expr, mean_gradient: Expr | None = None) -> Expr:
    size = mean_square if mean_gradient is None else mean_square - mean_gradient * mean_gradient
    root = s.sqrt(size) + op.epsilon if op.epsilon_apart else s.sqrt(size + op.epsilon)
    return step.decayed(step.rate * step.g / root)


def _rmsprop_reference(
    model: Any, diff: Any, lr: Any, scale_by: Any, skip: Any, square: Any, mean: Any, **attrs: Any
) -> Any:
    step, rate = Reference(model, diff, lr, scale_by, skip, attrs), attrs["decay_rate"]
    new = rate * _wide(square) + (1 - rate) * step.g**2
    new_mean = 0.0 if mean is None else rate * _wide(mean) + (1 - rate) * step.g
    under, beside = (0.0, attrs["epsilon"]) if attrs["epsilon_apart"] else (attrs["epsilon"], 0.0)
    change = step.rate * step.g / (np.sqrt(new - new_mean**2 + under) + beside)
    return step.results(change, (square, new), *([] if mean is None else [(mean, new_mean)]))


update(
    f"rmsprop_update(model, model_diff, {RATE}, mean_square, mean_gradient?",
    ", centered: bool = False, epsilon: float = 0.0, decay_rate: float = 0.99, epsilon_apart: bool = False",
    "RMSprop: gradient / sqrt(mean of squared gradients + epsilon), `centered` less the squared mean gradient.\n\n"
    "With `epsilon_apart`, which OneFlow has not, epsilon is added to the root, as PyTorch does.",
    {
        "mean_square": _mean("mean_square", "decay_rate", square=True),
        "mean_gradient": _mean("mean_gradient", "decay_rate"),
        "model": _rmsprop_model,
    },
    _rmsprop_reference,
)  # fmt: skip


def _correction_types(op: Call) -> TensorDesc:
    expect_dtype(op, "train_step", op.train_step, (dtypes.int64,))
    return TensorDesc(op.train_step.shape, dtypes.float32)


def _correction(step: Expr, *, beta: float) -> Expr:
    power = s.power(s.const(beta, dtypes.float64), s.cast(step + 1, dtypes.float64))
    return s.cast(1.0 - power, dtypes.float32)


elementwise(
    "adam_bias_correction_factor(train_step, beta: float = 0.9) -> out",
    "1 - beta^(train_step + 1): what Adam divides a moment by; train_step counts from 0.",
    scalar=_correction, types=_correction_types, grad=NO_GRAD,
    reference=lambda step, *, beta: (1 - beta ** (step + 1.0)).astype(np.float32),
)  # fmt: skip
