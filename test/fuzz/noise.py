"""The results of a program by the references, and the error bounds of rounding.

The program also runs with perturbed operands and results of every inexact operation, by a few units in the last
place. A compiled program may differ from the reference as much as these runs do: cancellation, or a sum near a
rounding boundary, makes the difference large. Values that are NaN or infinite in all runs have to be so in the
compiled program. A further run evaluates the meanings of the operators in the computed types, since references in f64
overflow later.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import oneflow as dialect
from oneflow.dialect import scalar as s
from oneflow.dialect._mlir import ir
from oneflow.dialect.evaluate import Evaluator, Scalars
from oneflow.dialect.meaning import input_stages, stages
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.record import Call
from oneflow.passes.inline import functions_of
from oneflow.testing.checks import described, run_meaning

#: Operations on scalars that give the same bits everywhere.
EXACT = frozenset(
    "const size arg load select cast checked at_least neg abs not ceil floor trunc rint add sub mul div sqrt floordiv"
    " rem and or xor shl shr shru eq ne lt le gt ge".split()
)
#: Operations that are exact but for the sign of a zero, where the operands are zeros of both signs.
EXTREMES = frozenset(("max", "min"))
#: How many units in the last place an operator may be off, and how many times as far as the runs a result may be.
UNITS, FACTOR = 3, 8
#: The part of the largest number that split sums may reach.
PARTS = 2.0**-4
#: Runs with noise: at first, and before a result is called wrong.
RUNS, MORE_RUNS = 3, 40


def epsilon(dtype: np.dtype) -> float:
    """The distance from 1 to the next number of a type of floats."""
    return float(ml_dtypes.finfo(dtype).eps)


def is_float(array: np.ndarray) -> bool:
    """Whether an array has floating-point elements, including 16-bit types."""
    return array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16


@dataclass
class Noise:
    """Perturbs numbers by up to UNITS in the last place, and by `absolute` units at 1 (the error of split sums)."""

    rng: np.random.Generator
    absolute: float = 0.0
    by_meaning: bool = False

    def move(self, array: np.ndarray) -> np.ndarray:
        """The array with perturbed floats."""
        if not is_float(array):
            return array
        unit = UNITS * epsilon(array.dtype)
        wide = array.astype(np.float64)
        by = self.rng.uniform(-1, 1, array.shape) * unit
        added = self.rng.uniform(-1, 1, array.shape) * unit * self.absolute
        lost = (np.abs(wide) < unit * self.absolute) & (self.rng.random(array.shape) < 0.5)
        return np.asarray(np.where(lost, 0.0, wide * (1 + by) + added).astype(array.dtype))

    def sign_zeros(self, array: np.ndarray, operands: Sequence[np.ndarray]) -> np.ndarray:
        """The array with another sign at some of the zeros where operands are zeros of both signs."""
        if not is_float(array):
            return array
        one, other = (np.asarray(x, array.dtype) for x in operands)
        return self._flip(array, (one == 0) & (other == 0) & (np.signbit(one) != np.signbit(other)))

    def sign_sums(self, array: np.ndarray) -> np.ndarray:
        """The array with another sign at some of the zeros, since a sum may start from a zero of either sign."""
        return self._flip(array, array == 0) if is_float(array) else array

    def _flip(self, array: np.ndarray, where: np.ndarray) -> np.ndarray:
        return np.asarray(np.where(where & (self.rng.random(array.shape) < 0.5), -array, array))


def run(
    function: ir.Operation,
    arrays: Sequence[np.ndarray],
    noise: Noise | None = None,
    exact: Mapping[ir.Value, np.ndarray] | None = None,
) -> dict[ir.Value, np.ndarray]:
    """The values of a straight-line function of operators, by the references of the operators.

    With `noise.absolute` arguments are perturbed too, since arguments may be partial sums. An operator that refuses
    perturbed operands, such as a search in rows that are no longer sorted, has the values of `exact`.
    """
    block = function.regions[0].blocks[0]
    arrays = [noise.move(x) for x in arrays] if noise is not None and noise.absolute else arrays
    values: dict[ir.Value, Any] = dict(zip(block.arguments, arrays, strict=True))
    for op in (view.operation for view in list(block.operations)[:-1]):
        with np.errstate(all="ignore"):
            try:
                found = [np.asarray(array) for array in _outputs(op, values, noise)]
            except IndexError:
                if exact is None:
                    raise
                found = [exact[result] for result in op.results]
        values.update(zip(op.results, found, strict=True))
    return values


def _outputs(op: ir.Operation, values: dict[ir.Value, Any], noise: Noise | None) -> Sequence[np.ndarray]:
    if op.name == dialect.CAST:
        return (values[op.operands[0]],)
    if op.name == "arith.constant":
        return (np.array(op.attributes["value"]),)
    call = dialect.operand_call(op, dialect.record_of(op), values.__getitem__)
    if noise is None:
        return run_reference(call)
    if noise.by_meaning:
        return run_meaning(call)
    found = _stages(call)
    kinds: set[str] = set()
    if found is None or _walk(found, kinds, set()):
        moved = dialect.operand_call(op, call.record, lambda v: noise.move(values[v]))
        return [noise.sign_sums(noise.move(np.asarray(x))) for x in run_reference(moved)]
    if kinds <= EXACT:
        return run_reference(call)
    return [noise.move(x) for x in _Noisy(call.operands, noise).run(found)]


def _stages(op: Call) -> list[c.Stage] | None:
    """The stages of a call on arrays; None for a call that other operators or a kernel compute."""
    if op.record.scalar is None and op.record.compute is None:
        return None
    call = described(op)
    return stages(input_stages(call), call.results)


class _NoisyScalars(Scalars):
    """Perturbs the result of every inexact operation of a body."""

    noise: Noise

    def _node(self, node: s.Expr, args: list[np.ndarray]) -> np.ndarray:
        made = super()._node(node, args)
        if node.kind in EXTREMES:
            return self.noise.sign_zeros(made, args)
        return made if node.kind in EXACT else self.noise.move(made)


class _Noisy(Evaluator):
    def __init__(self, inputs: Sequence[np.ndarray], noise: Noise) -> None:
        super().__init__(inputs)
        self.scalars = _NoisyScalars(self.scalars.read, self.scalars.size)
        self.scalars.noise = noise


def _walk(found: Sequence[c.Stage], kinds: set[str], seen: set[int]) -> bool:
    """Whether stages have folds, scans or scatters; the operations of all bodies are added to `kinds`."""
    sums = False
    for stage in found:
        if id(stage) in seen:
            continue
        seen.add(id(stage))
        nodes = list(s.walk(list(_bodies(stage))))
        own = {n.kind for n in nodes}
        kinds.update(own)
        sums |= isinstance(stage, (c.Fold, c.Scan, c.Scatter)) and not own.isdisjoint(("add", "mul"))
        sums |= _walk([*_sources(stage), *(n.value for n in nodes if n.kind == "load")], kinds, seen)
    return sums


def _bodies(stage: c.Stage) -> Iterator[s.Expr]:
    if isinstance(stage, c.ElementWise):
        yield stage.body
    elif isinstance(stage, c.Fold):
        yield from stage.reduction.bodies
    elif isinstance(stage, (c.Scan, c.Scatter)):
        yield stage.body


def _sources(stage: c.Stage) -> Iterator[c.Stage]:
    if isinstance(stage, c.Reshape):
        yield stage.source
    elif isinstance(stage, c.Place):
        yield from (part.source for part in stage.parts)
    elif isinstance(stage, c.Scan):
        yield stage.x
    elif isinstance(stage, c.Scatter):
        yield stage.base


class Expected:
    """The expected results of a function for arguments; `check` compares actual results."""

    def __init__(self, function: ir.Operation, arrays: Sequence[np.ndarray], absolute: float = 0.0) -> None:
        # A copy, since passes change the function before the runs with noise.
        self.module = function.parent.operation.clone()
        self.function = functions_of(self.module)[ir.StringAttr(function.attributes["sym_name"]).value]
        self.arrays, self.absolute = arrays, absolute
        self.exact = run(self.function, arrays)
        self.want = self._results(self.exact)

    @functools.cached_property
    def _few(self) -> list[list[np.ndarray]]:
        return self._noisy(range(RUNS))

    def _noisy(self, seeds: Sequence[int]) -> list[list[np.ndarray]]:
        return [self._run(Noise(np.random.default_rng(k), self.absolute)) for k in seeds]

    def _run(self, noise: Noise) -> list[np.ndarray]:
        return self._results(run(self.function, self.arrays, noise, self.exact))

    def _results(self, values: Mapping[ir.Value, np.ndarray]) -> list[np.ndarray]:
        *_, end = self.function.regions[0].blocks[0].operations
        return [values[v] for v in end.operation.operands]

    @functools.cached_property
    def _many(self) -> list[list[np.ndarray]]:
        by_meaning = Noise(np.random.default_rng(0), by_meaning=True)
        return [*self._noisy(range(MORE_RUNS)), self._run(by_meaning)]

    @property
    def _largest(self) -> float:
        """Parts of a split sum may overflow where the sum does not."""
        return PARTS if self.absolute else 1.0

    def check(self, got: Sequence[np.ndarray], names: Sequence[str]) -> None:
        """Compares results; messages call the results `names`.

        Raises:
            AssertionError: a result has another shape or type, or differs by more than rounding explains.
        """
        assert len(got) == len(self.want), f"expected {len(self.want)} results, got {len(got)}"
        for index, (one, want, where) in enumerate(zip(got, self.want, names, strict=True)):
            assert one.shape == want.shape, f"{where}: expected shape {want.shape}, got {one.shape}"
            assert one.dtype == want.dtype, f"{where}: expected {want.dtype}, got {one.dtype}"
            if _wrong(one, want, [r[index] for r in self._few], self._largest).any():
                wrong = _wrong(one, want, [r[index] for r in self._many], self._largest)
                assert not wrong.any(), f"{where}: {_shown(one, want, wrong)}"


def _wrong(got: np.ndarray, want: np.ndarray, runs: Sequence[np.ndarray], largest: float) -> np.ndarray:
    """The mask of wrong elements; numbers beyond `largest` times the largest of their type may be infinite or NaN."""
    wrong: np.ndarray
    if not is_float(want):
        wrong = (got != want) & np.all([r == want for r in runs], axis=0)
        return wrong
    one, other = got.astype(np.float64), want.astype(np.float64)
    others = np.stack([r.astype(np.float64) for r in (want, *runs)])
    with np.errstate(all="ignore"):
        stable = np.all(_class(others) == _class(other), axis=0)
        stable &= ~np.isfinite(other) | (np.abs(other) <= largest * float(ml_dtypes.finfo(want.dtype).max))
        spread = np.max(np.abs(others - other), axis=0, initial=0.0)
        unit = epsilon(want.dtype)
        allowed = FACTOR * spread + 4 * unit * np.abs(other) + float(ml_dtypes.finfo(want.dtype).tiny)
        near = (_class(one) == _class(other)) & (~np.isfinite(other) | (np.abs(one - other) <= allowed))
    wrong = stable & ~near
    return wrong


def _class(x: np.ndarray) -> np.ndarray:
    """0 for a number, 3 for NaN, the sign for an infinity."""
    return np.where(np.isnan(x), 3, np.where(np.isinf(x), np.sign(x), 0))


def _shown(got: np.ndarray, want: np.ndarray, wrong: np.ndarray) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    count = f"{int(wrong.sum())} of {wrong.size} elements differ"
    return f"{count}, first at {list(at)}: expected {want[at]}, got {got[at]}"
