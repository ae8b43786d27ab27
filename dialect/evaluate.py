"""Compute stages and scalar bodies evaluated with NumPy.

The evaluator is the third evaluation of an operator, next to the backends and the reference: tests compare all of
them, and constants are folded by the evaluator. Evaluation is vectorized over positions; loops remain over the steps
of folds, scans and scatters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import Stage
from oneflow.dialect.scalar import Expr

Array = np.ndarray[Any, np.dtype[Any]]


def _truncated_remainder(a: Array, b: Array) -> Array:
    return np.asarray(np.fmod(a, b))


def _shift(function: Callable[[Array, Array], Array], overflow: Callable[[Array], Array]) -> Callable[..., Array]:
    def shifted(a: Array, b: Array) -> Array:
        bits = a.dtype.itemsize * 8
        inside = (b >= 0) & (b < bits)
        return np.asarray(np.where(inside, function(a, np.where(inside, b, 0)), overflow(a)))

    return shifted


def _shift_unsigned(a: Array, b: Array) -> Array:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return np.asarray(np.right_shift(a.astype(unsigned), b.astype(unsigned)), a.dtype)


def _by_element(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of numbers that NumPy does not have."""
    each = np.vectorize(function, otypes=[np.float64])
    return lambda x: np.asarray(each(x), x.dtype)


UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "not": np.invert,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": _by_element(math.erf),
    "erfc": _by_element(math.erfc),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    **{k: getattr(np, k) for k in "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan".split()},
    **{k: getattr(np, k) for k in "sinh cosh tanh ceil floor trunc".split()},
    "rint": lambda x: np.rint(x) if x.dtype.kind == "f" else x,
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "rem": _truncated_remainder,
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
    "atan2": np.arctan2,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shift(np.left_shift, np.zeros_like),
    "shr": _shift(np.right_shift, lambda a: np.where(a < 0, -1, 0).astype(a.dtype)),
    "shru": _shift_unsigned,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


class Scalars:
    """Evaluates expressions under an assignment of positions and accumulators to arrays."""

    def __init__(self, read: Callable[[Stage], Array], size: Callable[[int, int], int]) -> None:
        self.read, self.size = read, size

    def run(self, root: Expr, env: Mapping[int, Array]) -> Array:
        values = dict(env)
        for node in s.walk([root]):
            if id(node) not in values:
                values[id(node)] = self._node(node, [values[id(a)] for a in node.args])
        return np.asarray(values[id(root)], root.dtype.numpy)

    def _node(self, node: Expr, args: list[Array]) -> Array:
        if node.kind == "const":
            value = np.asarray(node.value)
            return value.astype(node.dtype.numpy) if node.dtype.is_complex else dtypes.convert(value, node.dtype)
        if node.kind == "size":
            return np.asarray(self.size(*node.value))
        if node.kind == "load":
            return self._load(self.read(node.value), args)
        if node.kind == "select":
            return np.where(*args)
        if node.kind == "cast":
            return convert(args[0], node.dtype)
        if node.kind == "checked":
            return self._checked(node, *args)
        if node.kind == "at_least":
            return self._at_least(node, *args)
        assert node.kind in UNARY or node.kind in BINARY, f"unbound {node.kind} {node.value}"
        function = UNARY[node.kind] if node.kind in UNARY else BINARY[node.kind]
        return np.asarray(function(*args), node.dtype.numpy)

    @staticmethod
    def _load(array: Array, at: list[Array]) -> Array:
        return array[tuple(at)] if at else array[()]

    @staticmethod
    def _checked(node: Expr, position: Array, size: Array) -> Array:
        bad = (position < 0) | (position >= size)
        if np.any(bad):
            worst = np.asarray(position)[bad].flat[0] if np.ndim(position) else position
            raise IndexError(f"{node.value}: index {worst} is out of range for size {size}")
        return position

    @staticmethod
    def _at_least(node: Expr, size: Array, least: Array) -> Array:
        if size < least:
            raise ValueError(f"{node.value}: expected {least}, got {size}")
        return size


def convert(x: Array, dtype: dtypes.DType) -> Array:
    """`x` converted as `scalar.cast` says."""
    if dtype.kind == "bool":
        return np.asarray(np.not_equal(x, 0))
    return dtypes.convert(np.asarray(x), dtype)


def evaluate(results: Sequence[Stage], inputs: Sequence[Array]) -> list[Array]:
    """The arrays of result stages, for the operands `inputs`.

    Raises:
        IndexError: a checked position is out of range.
    """
    return Evaluator(inputs).run(results)


class Evaluator:
    """Evaluates stages on the operands `inputs`, each stage once."""

    def __init__(self, inputs: Sequence[Array]) -> None:
        self.inputs = [np.asarray(x) for x in inputs]
        self.done: dict[int, Array] = {}
        self.folds: dict[int, list[Array]] = {}
        self.scalars = Scalars(self.stage, lambda operand, axis: self.inputs[operand].shape[axis])

    def run(self, results: Sequence[Stage]) -> list[Array]:
        with np.errstate(all="ignore"):
            return [self.stage(r) for r in results]

    def stage(self, stage: Stage) -> Array:
        if id(stage) not in self.done:
            self.done[id(stage)] = np.asarray(self._compute(stage), stage.dtype.numpy)
        return self.done[id(stage)]

    def sizes(self, sizes: Sequence[c.Size]) -> tuple[int, ...]:
        return tuple(int(self.scalars.run(x, {})) if isinstance(x, Expr) else x for x in sizes)

    def _compute(self, stage: Stage) -> Array:
        if isinstance(stage, c.Input):
            return self.inputs[stage.index]
        if isinstance(stage, c.ElementWise):
            shape = self.sizes(stage.shape)
            value = self.scalars.run(stage.body, self._grid(stage.positions, shape))
            return np.broadcast_to(value, shape)
        if isinstance(stage, c.Fold):
            return self._fold(stage.reduction)[stage.result]
        if isinstance(stage, c.Reshape):
            return self.stage(stage.source).reshape(self.sizes(stage.shape))
        if isinstance(stage, c.Place):
            return self._place(stage)
        if isinstance(stage, c.Scan):
            return self._scan(stage)
        assert isinstance(stage, c.Scatter), stage
        return self._scatter(stage)

    @staticmethod
    def _grid(positions: Sequence[Expr], shape: Sequence[int]) -> dict[int, Array]:
        grids = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij", sparse=True) if shape else []
        return {id(p): g for p, g in zip(positions, grids, strict=True)}

    def _fold(self, reduction: c.Reduction) -> list[Array]:
        if id(reduction) in self.folds:
            return self.folds[id(reduction)]
        shape, extents = self.sizes(reduction.shape), self.sizes(reduction.extents)
        env = self._grid(reduction.positions, shape)
        state = [np.broadcast_to(self.scalars.run(i, env), shape) for i in reduction.inits]
        if 0 not in shape:
            for step in itertools.product(*map(range, extents)):
                at = {id(r): np.asarray(k) for r, k in zip(reduction.steps, step, strict=True)}
                accumulated = {id(a): v for a, v in zip(reduction.accumulators, state, strict=True)}
                state = [self.scalars.run(b, {**env, **at, **accumulated}) for b in reduction.bodies]
                state = [np.broadcast_to(v, shape) for v in state]
        self.folds[id(reduction)] = state
        return state

    def _place(self, stage: c.Place) -> Array:
        out = np.zeros(self.sizes(stage.shape), stage.dtype.numpy)
        if stage.fill is not None:
            out[...] = self.scalars.run(stage.fill, {})
        for part in stage.parts:
            source, offsets = self.stage(part.source), self.sizes(part.offsets)
            box = zip(offsets, source.shape, part.strides, strict=True)
            out[tuple(slice(o, o + n * step, step) for o, n, step in box)] = source
        return out

    def _scan(self, stage: c.Scan) -> Array:
        x = np.moveaxis(convert(self.stage(stage.x), stage.x.dtype.accumulator), stage.axis, 0)
        out = np.empty(x.shape, stage.dtype.numpy)
        total = np.broadcast_to(self.scalars.run(stage.init, {}), x.shape[1:])
        for k in range(x.shape[0]):
            total = self.scalars.run(stage.body, {id(stage.accumulator): total, id(stage.element): x[k]})
            out[k] = total
        return np.moveaxis(out, 0, stage.axis)

    def _scatter(self, stage: c.Scatter) -> Array:
        out = np.array(self.stage(stage.base))
        for step in itertools.product(*map(range, self.sizes(stage.extents))):
            env = {id(r): np.asarray(k) for r, k in zip(stage.steps, step, strict=True)}
            at = tuple(int(self.scalars.run(i, env)) for i in stage.index)
            out[at] = self.scalars.run(stage.body, {**env, id(stage.accumulator): np.asarray(out[at])})
        return out
