"""A search for the signatures that an operator could offer: every assignment of S, B and P to small operands.

`missing_signatures` of a sample are those that hold on 2 and on 3 devices for three sets of values and that the
record does not offer; a sample with a result of zeros tells nothing. Imports `checks`, `simulate`, NumPy.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.nd_sbp import NdSignature
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.record import REGISTRY, Call, Registry, distribute, flatten
from oneflow.dialect.sbp import B, P, S, Sbp, SbpSignature
from oneflow.passes.sbp.candidates import localize
from oneflow.testing.checks import described, make_call
from oneflow.testing.sample import Sample
from oneflow.testing.simulate import SimulationError, assemble, cut

Array = np.ndarray
#: More assignments of operands than this are not searched.
MOST = 4096
DEVICES = (2, 3)


def missing_signatures(sample: Sample, registry: Registry = REGISTRY) -> list[SbpSignature]:
    """Sound signatures of a sample that its record lacks; none where there are too many to search."""
    dtype = next((dtypes.float64 for d in sample.dtypes if d.is_float), sample.dtypes[0])
    calls = [make_call(sample, sample.arrays(dtype, seed), sample.attributes(dtype), registry) for seed in range(3)]
    if any(not np.asarray(r).any() for op in calls for r in run_reference(op)):
        return []
    offered = set(calls[0].record.signatures(described(calls[0])))
    return [s for s in _candidates(calls[0]) if s not in offered and all(_holds(op, s) for op in calls)]


def _kinds(array: Array) -> list[Sbp]:
    """How a tensor can lie so that the search tells something."""
    summable = array.dtype.kind != "b" and bool(np.isfinite(array.astype(np.float64)).all())
    return [B, *([P] if summable else []), *(S(i) for i, d in enumerate(array.shape) if d >= max(DEVICES))]


def _candidates(op: Call) -> Iterator[SbpSignature]:
    """Assignments to operands and results, where the operands' number can be searched."""
    inputs = [_kinds(np.asarray(x)) for x in flatten(op.inputs.values())]
    outputs = [_kinds(np.asarray(x)) for x in run_reference(op)]
    sizes = np.prod([len(k) for k in (*inputs, *outputs)])
    if sizes <= MOST:
        for ins in itertools.product(*inputs):
            for outs in itertools.product(*outputs):
                yield SbpSignature(ins, outs)


def _holds(op: Call, signature: SbpSignature) -> bool:
    return all(_holds_on(op, signature, p) for p in DEVICES)


def _holds_on(op: Call, signature: SbpSignature, p: int) -> bool:
    """Whether pieces computed on `p` devices give the whole."""
    whole = [np.asarray(r) for r in run_reference(op)]
    try:
        got = _run(op, signature, p)
    except (ArithmeticError, ValueError, IndexError, TypeError, AssertionError, SimulationError):
        return False
    return all(
        g.shape == w.shape and np.allclose(g.astype(np.float64), w.astype(np.float64), 1e-9, 1e-9, equal_nan=True)
        for g, w in zip(got, whole, strict=True)
    )


def _run(op: Call, signature: SbpSignature, p: int) -> list[Array]:
    nd = NdSignature(tuple((s,) for s in signature.inputs), tuple((s,) for s in signature.outputs))
    call = described(op)
    layouts = zip(flatten(op.inputs.values()), nd.inputs, strict=True)
    pieces = [cut(np.asarray(x), s, (p,), seed) for seed, (x, s) in enumerate(layouts)]
    sizes = [len(v) if isinstance(v, tuple) else int(v is not None) for v in op.inputs.values()]
    results: list[Sequence[Array]] = []
    for rank in range(p):
        local = localize(call, nd, (p,), rank)
        inputs = distribute(op.record.signature.inputs, [c[rank] for c in pieces], sizes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append([np.asarray(r) for r in run_reference(Call(op.record, inputs, local.attrs))])
        if any(r.shape != d.shape for r, d in zip(results[-1], local.results, strict=True)):
            raise ValueError("a piece has another shape")
    return [assemble([r[i] for r in results], s, (p,)) for i, s in enumerate(nd.outputs)]
