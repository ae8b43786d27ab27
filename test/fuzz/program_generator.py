"""Random programs from the table of samples, which say how operators are called.

Each call takes existing values. If the operator refuses the shapes or types, casts, padding, slices and reshapes
convert the values to the shapes and types of the sample; real programs have such operators, too.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from program import Input, Program, Step, given_input

from oneflow.dialect import dtypes as dt
from oneflow.dialect.attributes import ND_SBP
from oneflow.dialect.dtypes import DType
from oneflow.dialect.numpy_builder import describe_array, run_reference
from oneflow.dialect.numpy_kernel import DataError
from oneflow.dialect.record import REGISTRY, OperatorError
from oneflow.testing.checks import described
from oneflow.testing.sample import Sample, T

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
SAMPLES: list[Sample] = importlib.import_module("samples").SAMPLES

#: The most elements that a value has.
MAX_ELEMENTS = 1 << 14
#: The most results that a call has.
MAX_RESULTS = 64
SIZES = (0, 1, 1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 40)
#: Types of the first values; types whose arithmetic differs most from f32's arithmetic are the most frequent.
TYPES = (dt.float32,) * 4 + (dt.float64,) * 3 + (dt.float16, dt.bfloat16) * 2 + (*dt.INTEGERS, dt.bool_)
#: Families whose operators fuse: half of a program consists of such operators.
FUSING = frozenset("unary binary scalar_ops reduce movement slicing padding softmax joining select".split())


def _by_operator() -> dict[str, list[Sample]]:
    """The calls of programs: without layouts and bodies, of whole tensors, not of one device's shard, of reals."""
    found = defaultdict(list)
    for sample in SAMPLES:
        record = REGISTRY[sample.op]
        lies = any(a.kind is ND_SBP for a in record.signature.attrs)
        shard = any(name.startswith("logical_") and value for name, value in sample.attrs.items())
        whole = record.traits.isdisjoint(("collective", "barrier")) and record.control is None
        real = dataclasses.replace(sample, dtypes=[d for d in sample.dtypes if not d.is_complex])
        if whole and not lies and not shard and real.dtypes:
            found[sample.op].append(real)
    return found


CALLS = _by_operator()
#: Operators whose gradient is another function than the slope, according to the samples.
WITHOUT_SLOPE = frozenset(sample.op for sample in SAMPLES if not sample.gradient)
FUSED = sorted(name for name in CALLS if REGISTRY[name].family in FUSING)


#: Errors for invalid values of operands: a position out of range, a singular matrix.
ERRORS_OF_VALUES = (IndexError, np.linalg.LinAlgError, DataError)


class Refused(Exception):
    """A call that is left out: the operator or the reference refuses the call, or the call is too large."""


def _named(attribute: Any) -> Any:
    """An attribute with names in place of element types."""
    if isinstance(attribute, (list, tuple)):
        return [_named(v) for v in attribute]
    return attribute.name if isinstance(attribute, DType) else attribute


def stated(of: T, dtype: DType) -> np.ndarray:
    """The values of a sample's operand as a type.

    Raises:
        Refused: the type cannot represent the values.
    """
    try:
        with np.errstate(invalid="ignore"):
            return of.array(dtype, np.random.default_rng(0))
    except OverflowError as error:
        raise Refused(str(error)) from None


class Generator:
    """Makes one program; `values` has the existing values by name, evaluated for the arguments of the program."""

    def __init__(self, seed: int, edges: bool = True, floats: bool = False, static: bool = False) -> None:
        self.draw, self.static = random.Random(seed), static
        self.finite = not edges
        self.edges = edges and self.draw.random() < 0.6
        self.types = self.draw.choice((dt.FLOATS[2:], dt.FLOATS[3:])) if floats else TYPES
        self.inputs: dict[str, Input] = {}
        self.steps: list[Step] = []
        self.values: dict[str, np.ndarray] = {}
        self.names = itertools.count()

    def program(self, mode: str = "cpu") -> Program:
        """A program of 3 to 15 calls, and of the calls that convert values to the shapes of operands."""
        self.input(self.shape(), self.draw.choice(self.types))
        for _ in range(self.draw.randint(3, 15)):
            self.grow()
        read = {name for step in self.steps for name in step.values()}
        made = [name for step in self.steps for name in step.results]
        results = [n for n in made if n not in read or self.draw.random() < 0.1]
        return Program(self.inputs, tuple(self.steps), tuple(results), self.loose(), mode).needed()

    def loose(self) -> dict[str, tuple[int, ...]]:
        """The axes of inputs with sizes known at run time only; axes of size 1, which may broadcast, are static."""
        if self.static or self.draw.random() < 0.6:
            return {}
        return {
            name: tuple(i for i, d in enumerate(x.shape) if d != 1 and self.draw.random() < 0.7)
            for name, x in self.inputs.items()
        }

    def shape(self) -> tuple[int, ...]:
        """A shape of up to four dimensions."""
        rank = self.draw.choice((0, 1, 2, 2, 2, 3, 3, 4))
        return tuple(self.draw.choice(SIZES if rank < 3 else SIZES[:9]) for _ in range(rank))

    def name(self, array: np.ndarray) -> str:
        """The name of a new value."""
        name = f"v{next(self.names)}"
        self.values[name] = array
        return name

    def input(self, shape: Sequence[int], dtype: DType, of: T | None = None) -> str:
        """A new argument, with the interval or the values of a sample's operand.

        Raises:
            Refused: the argument is complex, or is not finite although all values have to be finite.
        """
        if dtype.is_complex:
            raise Refused("complex numbers")
        seed = self.draw.randrange(1 << 30)
        if of is not None and of.values is not None:
            made = given_input(stated(of, dtype))
            if self.finite and not np.isfinite(made.array().astype(np.float64)).all():
                raise Refused("numbers that are not finite")
        elif of is not None:
            made = Input(tuple(shape), dtype.name, seed, of.low, of.high)
        else:
            made = Input(tuple(shape), dtype.name, seed, edges=self.edges)
        array = made.array()
        name = self.name(array)
        self.inputs[name] = made
        return name

    def call(self, op: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[str, ...]:
        """Adds a call.

        Raises:
            Refused: the operator does not accept the call.
        """
        step = Step(op, tuple(operands), dict(attrs), ())
        try:
            call = step.call(self.values)
            results = described(call).results
            if sum(int(np.prod(d.shape)) for d in results) > MAX_ELEMENTS or len(results) > MAX_RESULTS:
                raise Refused
            if any(d.dtype.is_complex for d in results):
                raise Refused
            arrays = [np.asarray(x) for x in run_reference(call)]
        except (OperatorError, *ERRORS_OF_VALUES) as error:
            raise Refused(str(error)) from None
        if [describe_array(a) for a in arrays] != results:
            raise Refused("the reference gives other shapes, which the tests of samples find")
        made = Step(op, step.operands, step.attrs, tuple(map(self.name, arrays)))
        self.steps.append(made)
        return made.results

    def grow(self) -> None:
        """Adds a call of an operator."""
        while True:
            sample = self.draw.choice(CALLS[self.draw.choice(FUSED if self.draw.random() < 0.5 else list(CALLS))])
            attributes = {k: _named(v) for k, v in sample.attrs.items()}
            for way in (self.as_they_are, self.as_they_are, self.fitted):
                before = (dict(self.inputs), list(self.steps), dict(self.values))
                try:
                    allowed = [d for d in sample.dtypes if d in self.types]
                    dtype = self.draw.choice(allowed or sample.dtypes)
                    operands = list(way(sample, dtype))
                    running = self.running(operands, dtype).name
                    own = {k: running if v == "dtype" else v for k, v in attributes.items()}
                    self.call(sample.op, operands, own)
                    return
                except Refused:
                    self.inputs, self.steps, self.values = before

    def running(self, operands: Sequence[Any], dtype: DType) -> DType:
        """The type that the call runs with, which is the type of the first operand."""
        first = next((o for o in operands if isinstance(o, str)), None)
        return dtype if first is None else describe_array(self.values[first]).dtype

    def recent(self) -> str:
        """A value, most often one of the last."""
        names = list(self.values)
        return self.draw.choice(names[-4:] if self.draw.random() < 0.7 else names)

    def as_they_are(self, sample: Sample, dtype: DType) -> Iterator[Any]:
        """Operands of any shape; further operands are values of the first type or arguments of the first shape."""
        first: str | None = None

        def take(t: T) -> str:
            nonlocal first
            if t.dtype is not None or t.values is not None:
                return self.input(t.shape, t.dtype or (dtype if first is None else self.running([first], dtype)), t)
            if first is None:
                first = self.recent()
                return first
            kind = self.values[first].dtype
            same = [n for n, a in self.values.items() if a.dtype == kind]
            alike = [n for n in same if self.values[n].shape == self.values[first].shape]
            if self.draw.random() < 0.3:
                return self.input(self.values[first].shape, describe_array(self.values[first]).dtype, t)
            return self.draw.choice(alike if self.draw.random() < 0.6 else same)

        return iter([self.each(o, take) for o in sample.operands])

    def fitted(self, sample: Sample, dtype: DType) -> Iterator[Any]:
        """Operands of the sample's shapes and types: the first made of a value, the others too, or arguments."""
        fresh = False

        def take(t: T) -> str:
            nonlocal fresh
            own = t.dtype or dtype
            if t.dtype is not None or t.values is not None or (fresh and self.draw.random() < 0.5):
                return self.input(t.shape, own, t)
            fresh, name = True, self.recent()
            if 3 * self.values[name].size < int(np.prod(t.shape)):
                return self.input(t.shape, own, t)
            return self.fit(name, t.shape, own)

        return iter([self.each(o, take) for o in sample.operands])

    @staticmethod
    def each(operand: Any, take: Any) -> Any:
        """An operand slot of a sample with a value for each tensor."""
        if isinstance(operand, (list, tuple)):
            return tuple(map(take, operand))
        return None if operand is None else take(operand)

    def fit(self, name: str, shape: Sequence[int], dtype: DType) -> str:
        """A value brought to a shape and a type."""
        if describe_array(self.values[name]).dtype is not dtype:
            (name,) = self.call("cast", [name], {"dtype": dtype.name})
        if self.values[name].shape == tuple(shape):
            return name
        have, want = self.values[name].size, int(np.prod(shape))
        if self.values[name].ndim != 1:
            (name,) = self.call("reshape", [name], {"shape": [have]})
        if have > want:
            start = self.draw.randint(0, have - want)
            (name,) = self.call("narrow", [name], {"dim": 0, "start": start, "length": want})
        elif have < want:
            before = self.draw.randint(0, want - have)
            attrs = {"padding_before": [before], "padding_after": [want - have - before]}
            (name,) = self.call("pad", [name], attrs)
        return self.call("reshape", [name], {"shape": list(shape)})[0] if tuple(shape) != (want,) else name
