"""The common part of parameter updates: one step at one element, and its reference.

The gradient of a step is `model_diff * scale * scale_by_tensor + l1 * sign(model) + l2 * model`;
`weight_decay` is decoupled: it shrinks the parameter itself. The learning rate is `learning_rate`, or where that is
not given `learning_rate_val`, times `learning_rate_scale`. If `skip_if` is not 0, nothing changes. Numbers are
tensors of one element. With `model_copy`, a copy of the parameter in another element type, the new copy is the last
result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.ops.row_normalization import expect_present, expect_type
from oneflow.dialect.record import Call, Rule, define, no_grad
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype, letters
from oneflow.dialect.tensor_desc import TensorDesc

NO_GRAD = no_grad("an update of a parameter is not differentiated")
#: The parameter in another element type.
COPY = "model_copy"
RATE = "learning_rate?, scale_by_tensor?, skip_if?"
REGULAR = (
    "learning_rate_val: float = 0.0, learning_rate_scale: float = 1.0, scale: double = 1.0, l1: float = 0.0,"
    " l2: float = 0.0, weight_decay: float = 0.0"
)
#: Operands of one element, and their element type; None: the type of the parameter.
NUMBERS = {
    "learning_rate": dtypes.float32, "scale_by_tensor": None, "skip_if": dtypes.int64, "train_step": dtypes.int64,
    "bias_correction1": dtypes.float32, "bias_correction2": dtypes.float32,
}  # fmt: skip


def regularized(g: Expr, p: Expr, l1: float, l2: float) -> Expr:
    """The sum of a gradient and the gradients of l1 * |p| and l2 / 2 * p^2."""
    if l1:
        g = g + s.where(p > 0, l1, s.where(p < 0, -l1, p * 0.0))
    return g + p * l2 if l2 else g


class Step:
    """The update of one element in a body: `p` the parameter, `g` the gradient, `rate` the learning rate.

    `scaled` is the gradient before l1 and l2.
    """

    def __init__(self, op: Call, at: Sequence[Any]) -> None:
        self.op, self.at = op, tuple(at)
        self.p: Expr = op.model[self.at]
        self.rate = self._number_or("learning_rate", op.attrs["learning_rate_val"]) * op.learning_rate_scale
        self.scaled = self._scaled()
        self.g = regularized(self.scaled, self.p, op.l1, op.l2)

    def _scaled(self) -> Expr:
        g: Expr = s.cast(self.op.model_diff[self.at], self.p.dtype) * self.op.scale
        return g if self.op.inputs.get("scale_by_tensor") is None else g * self._number_or("scale_by_tensor", 1.0)

    def _number_or(self, name: str, otherwise: float) -> Expr:
        """The number in an operand of one element, or a default without the operand."""
        stage = self.op[name]
        return s.const(otherwise, self.p.dtype) if stage is None else s.cast(first(stage), self.p.dtype)

    def correction(self, which: int) -> Expr:
        """The bias correction of the first or second moment."""
        otherwise = self.op[f"bias_correction{which}_val"]
        if not self.op.do_bias_correction:
            return s.const(1.0, self.p.dtype)
        return self._number_or(f"bias_correction{which}", otherwise)

    def steps_before(self) -> Expr:
        """The number of earlier steps."""
        if self.op.train_step is None:
            return s.const(self.op.train_step_val - 1, self.p.dtype)
        return s.cast(first(self.op.train_step), self.p.dtype)

    def decayed(self, change: Expr) -> Expr:
        """The parameter less a change and its decay."""
        return self.decay(self.p - change)

    def decay(self, new: Expr) -> Expr:
        """A new parameter less the decay of the old one."""
        return new - self.rate * self.op.weight_decay * self.p if self.op.weight_decay else new

    def unless_skipped(self, name: str, value: Expr) -> Expr:
        """`value`, or what operand `name` has where the step is skipped."""
        if self.op.skip_if is None:
            return value
        return s.where(first(self.op.skip_if).ne(0), s.cast(self.op[name][self.at], value.dtype), value)


def first(stage: Stage) -> Expr:
    """The element of a tensor of one."""
    return stage[(0,) * stage.rank]


#: How a state or the parameter changes: from the step and the new values of the earlier states.
Change = Callable[..., Expr]


def update(
    operands: str,
    attrs: str,
    doc: str,
    changes: dict[str, Change],
    reference: Any,
    in_double: Sequence[str] = (),
    **slots: Any,
) -> None:
    """Registers an update.

    `operands` may state the position of the copy of the parameter among these; by default it is the last. `changes`
    say, in the order of results but for the parameter, which is computed last and given first, how each operand of
    that name changes; one is called with the step and the new states, by name, as tensors. States `in_double` are
    computed in f64.
    """
    name, _, rest = operands.partition("(")
    args = rest.split(", ")
    args += [] if f"{COPY}?" in args else [f"{COPY}?"]
    states = [n for n in changes if n != "model"]
    results = [f"{n}_out{'?' * (f'{n}?' in args)}" for n in ("model", *states, COPY)]
    slots = {"types": _types(states), "sbp": _sbp(states), "compute": _compute(changes, in_double), **slots}
    slots["compute"] = _with_copy(slots["compute"])
    signature = f"{name}({', '.join(args)}, {REGULAR}{attrs}) -> {', '.join(results)}"
    reference = _copying(reference, args.index(f"{COPY}?"), args.index("skip_if?"))
    define(signature, doc=doc, grad=NO_GRAD, reference=reference, depth=2, **slots)


def _with_copy(compute: Rule) -> Rule:
    """The rule with the new copy of the parameter as an additional result, where there is a copy."""

    def with_copy(op: Call) -> list[Stage]:
        stages: list[Stage] = compute(op)
        old, new = op[COPY], stages[0]
        if old is None:
            return stages

        def element(*at: Any) -> Expr:
            value = s.cast(new[at], old.dtype.accumulator)
            return value if op.skip_if is None else s.where(first(op.skip_if).ne(0), old[at], value)

        return [*stages, c.element_wise(new.shape, element, old.dtype)]

    return with_copy


def _copying(reference: Rule, copy: int, skip: int) -> Rule:
    """The same of a reference; the operands number `copy` and `skip` are the copy and `skip_if`."""

    def with_copy(*arrays: Any, **attrs: Any) -> tuple[Any, ...]:
        old = arrays[copy]
        results: tuple[Any, ...] = reference(*arrays[:copy], *arrays[copy + 1 :], **attrs)
        if old is None:
            return results
        skipped = arrays[skip] is not None and bool(np.asarray(arrays[skip]).reshape(()))
        return *results, old if skipped else results[0].astype(old.dtype)

    return with_copy


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
        return [op.model, *(op.model for n in states if op[n] is not None), *_copy(op)]

    return types


def _copy(op: Call) -> list[TensorDesc]:
    """The type of the new copy of the parameter, if present."""
    if op[COPY] is None:
        return []
    expect_dtype(op, COPY, op[COPY], dtypes.FLOATS)
    expect_type(op, COPY, TensorDesc(op.model.shape, op[COPY].dtype))
    return [TensorDesc(op.model.shape, op[COPY].dtype)]


def _expect_number(op: Call, name: str) -> None:
    """Checks an operand of one element."""
    got, dtype = op[name], NUMBERS[name] or op.model.dtype
    if got is not None and (got.dtype != dtype or got.element_count not in (1, None)):
        raise op.error(f"expected {name} of one element of {dtype.mlir}, got {got}")


def _sbp(states: Sequence[str]) -> Any:
    def sbp(op: Call) -> Factors:
        factors = " ".join(letters(op.model.shape))
        sides = [
            factors if name in ("model", "model_diff", COPY, *states) else " ".join("_" * slot.rank)
            for name, slot in op.inputs.items()
            if slot is not None
        ]
        return Factors(f"{', '.join(sides)} -> {', '.join([factors] * len(op.results))}")

    return sbp


def _compute(changes: dict[str, Change], in_double: Sequence[str]) -> Any:
    def compute(op: Call) -> list[Stage]:
        stages: dict[str, Stage] = {}
        for name, change in changes.items():
            if op[name] is not None:
                dtype = dtypes.float64 if name in in_double else op.model.dtype.accumulator
                stages[name] = changed(op, name, change, dict(stages), dtype)
        model = stages.pop("model")
        return [_rounded(op, model), *(stored(op, stage) for stage in stages.values())]

    return compute


def changed(op: Call, name: str, change: Change, made: dict[str, Stage], dtype: DType) -> Stage:
    """The new values of operand `name` before rounding; `made` are the new values of the earlier states.

    The step itself uses the values before rounding, which in f16 may become 0 or infinity.
    """

    def element(*at: Any) -> Expr:
        step = Step(op, at)
        return step.unless_skipped(name, change(step, op, **{n: stage[at] for n, stage in made.items()}))

    return c.element_wise(op.model.shape, element, dtype)


def _rounded(op: Call, made: Stage) -> Stage:
    """New values in the parameter's element type."""
    if made.dtype == op.model.dtype:
        return made
    return c.element_wise(made.shape, lambda *at: made[at], op.model.dtype)


def stored(op: Call, made: Stage) -> Stage:
    """A new state in the parameter's element type, the largest number of the type where a finite state exceeds that
    number.

    An infinite mean of squares would end all later steps.
    """
    if made.dtype == op.model.dtype:
        return made
    largest = float(op.model.dtype.largest)

    def element(*at: Any) -> Expr:
        value = made[at]
        return s.where(abs(value).eq(math.inf), value, s.minimum(s.maximum(value, -largest), largest))

    return c.element_wise(made.shape, element, op.model.dtype)


def to_f64(array: Any) -> Any:
    """An operand of a reference in f64."""
    return None if array is None else np.asarray(array, np.float64)


def number(array: Any, otherwise: float) -> float:
    """The number in an operand of one element."""
    return otherwise if array is None else float(np.asarray(array, np.float64).reshape(()))


def weighed(weight: float, term: Any) -> Any:
    """A weighted term, left out where its weight is 0, so that an infinite parameter does not become NaN."""
    return weight * term if weight else 0.0


class Reference:
    """The update in NumPy: operands in f64, results in the parameter's type, or the operands where the step is
    skipped.
    """

    def __init__(self, model: Any, diff: Any, lr: Any, scale_by: Any, skip: Any, attrs: dict[str, Any]) -> None:
        self.skipped = skip is not None and bool(np.asarray(skip).reshape(()))
        self.model, self.p, self.decay = model, to_f64(model), attrs["weight_decay"]
        self.rate = number(lr, attrs["learning_rate_val"]) * attrs["learning_rate_scale"]
        self.scaled = to_f64(diff) * attrs["scale"] * number(scale_by, 1.0)
        self.regular = weighed(attrs["l1"], np.sign(self.p)) + weighed(attrs["l2"], self.p)
        self.g = self.scaled + self.regular

    def held(self, state: Any) -> Any:
        """A state in the range of the accumulator: PyTorch's and OneFlow's sums of squares overflow."""
        wide_type = np.float32 if self.model.dtype.itemsize == 2 else self.model.dtype
        return np.asarray(state).astype(wide_type).astype(np.float64)

    def results(self, change: Any, *states: tuple[Any, Any]) -> tuple[Any, ...]:
        """The new parameter, and the valid state of each pair of an old and a new state."""
        new = self.p - change - weighed(self.decay, self.rate * self.p)
        return self.pairs((self.model, new), *states)

    def pairs(self, model: tuple[Any, Any], *states: tuple[Any, Any]) -> tuple[Any, ...]:
        """The valid value of each pair of an old and a new value; finite states stay finite."""
        kept = [model, *((old, self._within(value)) for old, value in states)]
        return tuple((old if self.skipped else value).astype(self.model.dtype) for old, value in kept)

    def _within(self, state: Any) -> Any:
        largest = dtypes.from_numpy(self.model.dtype).largest
        return np.where(np.isinf(state), state, np.clip(state, -largest, largest))
