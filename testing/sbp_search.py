"""A search for the signatures that an operator could offer: every assignment of S, B and P to small operands.

`missing_signatures` of a sample are the signatures that hold on 2 and on 3 devices for three sets of values and that
the record does not offer; `signature_holds` asks for one. A sample whose result is constant (all zeros, or one truth
value) decides nothing. Each result is examined separately, so that only the assignments to operands multiply. Of more
than `MAX_ASSIGNMENTS` assignments the search takes those that differ from an offered one in two operands, or in one
operand where attributes depend on layouts.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.nd_sbp import NdSignature, local_shape
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.record import REGISTRY, Call, OperatorError, Registry, flatten, infer
from oneflow.dialect.sbp import B, P, S, Sbp, SbpSignature
from oneflow.passes.sbp.candidates import localize
from oneflow.testing.checks import described, make_call
from oneflow.testing.nd_checks import ShardedCall
from oneflow.testing.sample import Sample
from oneflow.testing.simulate import SimulationError, assemble

Array = np.ndarray
Sbps = tuple[Sbp, ...]
#: The largest number of assignments to operands that are all searched.
MAX_ASSIGNMENTS = 4096
DEVICES, SEEDS = (2, 3), range(3)
FAILURES = (ArithmeticError, ValueError, IndexError, TypeError, AssertionError, SimulationError)


class _Search:
    """The common data of all assignments to the operands of a sample."""

    def __init__(self, sample: Sample, registry: Registry) -> None:
        self.calls = calls_of(sample, registry)
        self.expected = [[np.asarray(r) for r in run_reference(op)] for op in self.calls]
        self.changes = _changes(self.calls[0])
        self.kinds = [_kinds(r) for r in self.expected[0]]
        pairs = zip(self.calls, self.expected, strict=True)
        self.sharded = [(ShardedCall(op, (p,)), results) for op, results in pairs for p in DEVICES]
        self._allowed: dict[Sbps, bool] = {}

    def sound_signatures(self, inputs: Sbps) -> list[SbpSignature]:
        """The signatures with these operands that hold for all calls, which differ in values."""
        if self.changes:
            every = (SbpSignature(inputs, outs) for outs in itertools.product(*self.kinds))
            return [s for s in every if all(self._kept(s, [[o] for o in s.outputs]))]
        if not self._is_allowed(inputs):
            return []
        kept = self._kept(SbpSignature(inputs, (B,) * len(self.kinds)), self.kinds)
        return [SbpSignature(inputs, outs) for outs in itertools.product(*kept)]

    def _kept(self, signature: SbpSignature, kinds: list[list[Sbp]]) -> list[list[Sbp]]:
        """The kinds of each result that reconstruct the whole on all devices, for all calls.

        Empty where a result has no such kind. Shards are computed by the attributes that `signature` makes
        local.
        """
        for call, expected in self.sharded:
            try:
                shards = _run(call, signature)
            except FAILURES:
                return [[]]
            if any(len(results) != len(expected) for results in shards):
                return [[]]
            kinds = [
                [k for k in some if _reconstructs(w, [r[i] for r in shards], k)]
                for i, (some, w) in enumerate(zip(kinds, expected, strict=True))
            ]
            if not all(kinds):
                return [[]]
        return kinds

    def _is_allowed(self, inputs: Sbps) -> bool:
        """Whether the record accepts shards of these shapes, which partial sums have in common with the whole."""
        shapes = tuple(B if s.is_partial else s for s in inputs)
        if shapes not in self._allowed:
            self._allowed[shapes] = _accepts(self.sharded[0][0].described, shapes)
        return self._allowed[shapes]


@functools.lru_cache(maxsize=16)
def _search(sample: Sample, registry: Registry) -> _Search:
    """The search of a sample, which several questions share."""
    return _Search(sample, registry)


def missing_signatures(sample: Sample, registry: Registry = REGISTRY) -> list[SbpSignature]:
    """Sound signatures of a sample that its record lacks."""
    if not is_decisive(sample, registry):
        return []
    search = _search(sample, registry)
    call = search.sharded[0][0].described
    offered = call.record.signatures(call)
    sound_signatures = (s for inputs in _assignments(search, offered) for s in search.sound_signatures(inputs))
    return [s for s in sound_signatures if s not in offered]


def signature_holds(sample: Sample, signature: SbpSignature, registry: Registry = REGISTRY) -> bool | None:
    """Whether a signature holds for a sample; None where the sample does not decide."""
    search = _search(sample, registry)
    tensors = flatten(search.calls[0].inputs.values())
    if len(tensors) != len(signature.inputs) or not is_decisive(sample, registry):
        return None
    if any(s not in _kinds(np.asarray(x)) for s, x in zip(signature.inputs, tensors, strict=True)):
        return None
    return signature in search.sound_signatures(signature.inputs)


def is_decisive(sample: Sample, registry: Registry = REGISTRY) -> bool:
    """Whether no result is constant (zeros, or one truth value): other signatures would give the same constant."""
    return all(_varies(r) for results in _search(sample, registry).expected for r in results)


def _varies(result: Array) -> bool:
    return bool(result.any()) and not (result.dtype.kind == "b" and result.all())


def calls_of(sample: Sample, registry: Registry) -> list[Call]:
    """The sample with several sets of values."""
    dtype = next((dtypes.float64 for d in sample.dtypes if d.is_float), sample.precise_dtype)
    return [make_call(sample, sample.arrays(dtype, seed), sample.attributes(dtype), registry) for seed in SEEDS]


def _in_double(array: Array) -> Array:
    """The array in double precision."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _kinds(array: Array) -> list[Sbp]:
    """The layouts of a tensor that the search can distinguish."""
    summable = array.dtype.kind != "b" and bool(np.isfinite(_in_double(array)).all())
    return [B, *([P] if summable else []), *(S(i) for i, d in enumerate(array.shape) if d >= max(DEVICES))]


def _assignments(search: _Search, offered: Sequence[SbpSignature]) -> Iterator[Sbps]:
    """The values of operands in the search."""
    kinds = [_kinds(np.asarray(x)) for x in flatten(search.calls[0].inputs.values())]
    results = search.kinds if search.changes else []
    if math.prod(map(len, [*kinds, *results])) <= MAX_ASSIGNMENTS:
        yield from itertools.product(*kinds)
        return
    bases = [s.inputs for s in offered if all(x in k for x, k in zip(s.inputs, kinds, strict=True))]
    near = (n for base in bases for n in _neighbours(base, kinds, 1 if results else 2))
    yield from dict.fromkeys(near)


def _neighbours(base: Sbps, kinds: Sequence[Sequence[Sbp]], count: int) -> Iterator[Sbps]:
    """Assignments that differ from `base` in `count` operands at most."""
    for chosen in itertools.combinations(range(len(base)), count):
        yield from itertools.product(*(kinds[i] if i in chosen else (s,) for i, s in enumerate(base)))


def _changes(op: Call) -> bool:
    """Whether attributes of a shard depend on its position."""
    if op.record.local is None:
        return False
    call = described(op)
    count = len(call.operands)
    every = [(i, S(axis)) for i, d in enumerate((*call.operands, *call.results)) for axis in range(d.rank)]
    layouts = [tuple((sbp if i == at else B,) for i in range(count + len(call.results))) for at, sbp in every]
    nds = [NdSignature(nd[:count], nd[count:]) for nd in layouts]
    return any(localize(call, nd, (p,), p - 1).attrs != call.attrs for nd in nds for p in DEVICES)


def _accepts(call: Call, inputs: Sbps) -> bool:
    """Whether the record accepts shards with these layouts."""
    nd = NdSignature(tuple((s,) for s in inputs), ((B,),) * len(call.results))
    try:
        infer(call.record, localize(call, nd, (max(DEVICES),), 0))
    except OperatorError:
        return False
    return True


def _reconstructs(expected: Array, shards: Sequence[Array], sbp: Sbp) -> bool:
    mesh = (len(shards),)
    if any(x.shape != local_shape(expected.shape, (sbp,), mesh, rank) for rank, x in enumerate(shards)):
        return False
    try:
        got = assemble(shards, (sbp,), mesh)
    except FAILURES:
        return False
    return np.allclose(_in_double(got), _in_double(expected), 1e-9, 1e-9, equal_nan=True)


def _run(call: ShardedCall, signature: SbpSignature) -> list[list[Array]]:
    """The results of every device."""
    nd = NdSignature(tuple((s,) for s in signature.inputs), tuple((s,) for s in signature.outputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call.results(nd)
