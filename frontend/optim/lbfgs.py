"""L-BFGS: quasi-Newton steps by the last changes of the gradient. For eager mode alone: the number of evaluations
depends on values.

Nocedal and Wright, Numerical Optimization, algorithms 7.4, 3.5 and 3.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import fail
from oneflow.frontend.eager.tape import enable_grad, no_grad
from oneflow.frontend.eager.tensor import wrapped
from oneflow.frontend.optim.optimizer import Optimizer, rate_of

#: The constants of the strong Wolfe conditions: sufficient decrease, and the slope that is left.
DECREASE, SLOPE = 1e-4, 0.9
#: The evaluations of one line search.
SEARCHES = 25
#: The change of parameters below which a line search ends.
MIN_STEP = 1e-9


class LBFGS(Optimizer):
    """L-BFGS with the history of `history_size` changes; `step` requires a closure that computes the loss again.

    Args:
        params: one group of parameters.
        lr: the length of a step, with a line search the first that is tried.
        max_iter: the steps of one call.
        max_eval: the evaluations of one call, by default 5 / 4 of `max_iter`.
        tolerance_grad: the largest element of a gradient that is small enough to end.
        tolerance_change: the change of loss or parameters that is small enough to end.
        history_size: the changes that are kept.
        line_search_fn: "strong_wolfe", or None for steps of the length `lr`.

    Raises:
        ValueError: the parameters have several groups, or the line search is unknown.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f'expected line_search_fn to be None or "strong_wolfe", got {line_search_fn!r}')
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError(f"expected one group of parameters for LBFGS, got {len(self.param_groups)}")
        self._changes: list[tuple[np.ndarray, np.ndarray]] = []
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Takes up to `max_iter` steps; returns the loss before the first step.

        Raises:
            OneFlowError: `closure` is missing, or a function is being traced.
        """
        if closure is None or not current_builder().eager:
            raise fail("expected a closure that computes the loss again for LBFGS, outside of compiled functions")
        group = self.param_groups[0]
        evaluations = [0]

        def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
            evaluations[0] += 1
            self._put(x)
            with enable_grad():
                loss = closure()
            return float(loss), self._gradient()

        x = self._parameters()
        with enable_grad():
            first = closure()
        evaluations[0] += 1
        loss, grad = float(first), self._gradient()
        for _ in range(group["max_iter"]):
            if np.abs(grad).max(initial=0) <= group["tolerance_grad"] or evaluations[0] >= group["max_eval"]:
                break
            fresh = self._last is None
            direction = self._direction(x, grad, group["history_size"])
            slope = float(grad @ direction)
            if slope > -group["tolerance_change"]:
                break
            rate = rate_of(group)
            length = min(1.0, 1 / np.abs(grad).sum()) * rate if fresh else rate
            line, before = _Line(evaluate, x, direction, (0.0, loss, grad, slope)), loss
            length, loss, grad, _ = line.at(length) if group["line_search_fn"] is None else line.search(length)
            moved = x + length * direction
            change, x = np.abs(moved - x).max(initial=0), moved
            if change <= group["tolerance_change"] or abs(loss - before) < group["tolerance_change"]:
                break
        self._put(x)
        return first

    def _direction(self, x: np.ndarray, grad: np.ndarray, count: int) -> np.ndarray:
        """Minus the gradient times the estimated inverse of the Hessian, by the two-loop recursion."""
        if self._last is not None:
            change, bend = x - self._last[0], grad - self._last[1]
            if float(bend @ change) > 1e-10:
                self._changes = [*self._changes, (change, bend)][-count:]
        self._last = x, grad
        direction, factors = -grad, []
        for change, bend in reversed(self._changes):
            factors.append(float(change @ direction) / float(bend @ change))
            direction = direction - factors[-1] * bend
        if self._changes:
            change, bend = self._changes[-1]
            direction = direction * (float(bend @ change) / float(bend @ bend))
        for (change, bend), factor in zip(self._changes, reversed(factors), strict=True):
            direction = direction + change * (factor - float(bend @ direction) / float(bend @ change))
        return direction

    def _parameters(self) -> np.ndarray:
        return np.concatenate([p.array.reshape(-1).astype(np.float64) for p in self._all()])

    def _gradient(self) -> np.ndarray:
        parts = [np.zeros(p.numel()) if p.grad is None else p.grad.array.reshape(-1) for p in self._all()]
        return np.concatenate([part.astype(np.float64) for part in parts])

    @no_grad()
    def _put(self, x: np.ndarray) -> None:
        begin = 0
        for p in self._all():
            part = x[begin : begin + p.numel()].reshape(p.shape)
            p.copy_(wrapped(part.astype(p.dtype.numpy)))
            begin += p.numel()


Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray]]
#: A point of a line search: the length, the loss, the gradient, the slope along the direction.
Point = tuple[float, float, np.ndarray, float]


@dataclass(frozen=True)
class _Line:
    """The line search: the points along a direction, and the search for a step length that fulfils the strong Wolfe
    conditions.
    """

    evaluate: Evaluate
    x: np.ndarray
    direction: np.ndarray
    first: Point

    def at(self, length: float) -> Point:
        """The point at a length."""
        value, grad = self.evaluate(self.x + length * self.direction)
        return length, value, grad, float(grad @ self.direction)

    def rises(self, point: Point) -> bool:
        """Whether the loss has not decreased enough, or is not finite."""
        return not np.isfinite(point[1]) or point[1] > self.first[1] + DECREASE * point[0] * self.first[3]

    def is_flat(self, point: Point) -> bool:
        """Whether little slope is left."""
        return abs(point[3]) <= -SLOPE * self.first[3]

    def search(self, length: float) -> Point:
        """The first point that fulfils the conditions, or the best point found."""
        before = self.first
        for number in range(SEARCHES):
            point = self.at(length)
            if self.rises(point) or (number and point[1] >= before[1]):
                return self.between(before, point)
            if self.is_flat(point):
                return point
            if point[3] >= 0:
                return self.between(point, before)
            before, length = point, _minimum(before, point, (point[0] * 1.01, point[0] * 10))
        return before

    def between(self, low: Point, high: Point) -> Point:
        """The point between two, the first of which has the lower loss."""
        for _ in range(SEARCHES):
            ends = sorted((low[0], high[0]))
            width = ends[1] - ends[0]
            if width * np.abs(self.direction).max() < MIN_STEP:
                break
            point = self.at(_minimum(low, high, (ends[0] + 0.1 * width, ends[1] - 0.1 * width)))
            if self.rises(point) or point[1] >= low[1]:
                high = point
                continue
            if self.is_flat(point):
                return point
            if point[3] * (high[0] - low[0]) >= 0:
                high = low
            low = point
        return low


def _minimum(a: Point, b: Point, bounds: tuple[float, float]) -> float:
    """The minimum of the cubic through two points with their slopes, within bounds; the middle without a minimum.

    A loss or a slope that is not finite has no such cubic.
    """
    if a[0] > b[0]:
        a, b = b, a
    middle = sum(bounds) / 2
    first = a[3] + b[3] - 3 * (a[1] - b[1]) / (a[0] - b[0])
    square = first**2 - a[3] * b[3]
    if not 0 <= square < np.inf:
        return middle
    root = float(np.sqrt(square))
    bottom = b[3] - a[3] + 2 * root
    minimum = b[0] - (b[0] - a[0]) * ((b[3] + root - first) / bottom) if bottom else middle
    return float(min(max(minimum, bounds[0]), bounds[1]))
