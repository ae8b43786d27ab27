"""The check of an operator's nd-signatures: the assembled results of all ranks equal the results of one device.

The check resembles `checks.check_sbp`, on meshes of several axes and with the calls that passes write for a rank.
"""

from __future__ import annotations

import numpy as np

from oneflow.dialect.nd_sbp import Mesh, NdSignature, devices
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.record import REGISTRY, Call, Registry, distribute, flatten
from oneflow.passes.sbp.candidates import localize, nd_signatures
from oneflow.testing.checks import assert_close, described, make_case
from oneflow.testing.sample import Sample
from oneflow.testing.simulate import assemble, split_array

Array = np.ndarray


def check_nd_sbp(sample: Sample, mesh: Mesh, registry: Registry = REGISTRY) -> int:
    """Checks every signature of a sample on a mesh: operands are cut, the reference computes the shards, and the
    assembled results equal the results of the full operands.

    Samples of floats run in f64. Returns the number of signatures.
    """
    dtype = sample.precise_dtype
    op = make_case(sample, dtype, registry)
    expected = [np.asarray(r) for r in run_reference(op)]
    call = described(op)
    signatures = nd_signatures(call, mesh)
    for signature in signatures:
        if _can_sum(signature, [*flatten(op.inputs.values()), *expected]):
            got = run_split(op, call, signature, mesh)
            for number, (one, other) in enumerate(zip(got, expected, strict=True)):
                assert_close(one, other, (1e-9, 1e-9), f"{sample} on {mesh} with {signature}: result {number}")
    return len(signatures)


def _can_sum(signature: NdSignature, arrays: list[Array]) -> bool:
    """Whether no infinity would have to be split into addends."""
    layouts = zip((*signature.inputs, *signature.outputs), arrays, strict=True)
    sums = [a for nd, a in layouts if any(s.kind == "P" for s in nd)]
    return all(a.dtype.kind in "biu" or np.isfinite(a).all() for a in sums)


def run_split(op: Call, call: Call, signature: NdSignature, mesh: Mesh) -> list[Array]:
    """The assembled results of a call on arrays, computed shard by shard; `call` describes it."""
    operands = flatten(op.inputs.values())
    layouts = zip(operands, signature.inputs, strict=True)
    shards = [split_array(x, nd, mesh, seed) for seed, (x, nd) in enumerate(layouts)]
    results = [_run_rank(op, call, signature, mesh, rank, [p[rank] for p in shards]) for rank in range(devices(mesh))]
    return [assemble([r[i] for r in results], nd, mesh) for i, nd in enumerate(signature.outputs)]


def _run_rank(
    op: Call, call: Call, signature: NdSignature, mesh: Mesh, rank: int, shards: list[Array]
) -> list[Array]:
    local = localize(call, signature, mesh, rank)
    sizes = [len(v) if isinstance(v, tuple) else int(v is not None) for v in op.inputs.values()]
    inputs = distribute(op.record.signature.inputs, shards, sizes)
    return [np.asarray(r) for r in run_reference(Call(op.record, inputs, local.attrs))]
