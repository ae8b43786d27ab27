"""The check of an operator's nd-signatures: the assembled results of all ranks equal the results of one device.

The check resembles `checks.check_sbp`, on meshes of several axes and with the calls that passes write for a rank.
"""

from __future__ import annotations

import numpy as np

from oneflow.dialect.nd_sbp import Mesh, NdSbp, NdSignature, devices
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
    call = ShardedCall(op, mesh)
    signatures = nd_signatures(call.described, mesh)
    for signature in signatures:
        if _can_sum(signature, [*flatten(op.inputs.values()), *expected]):
            got = call.run(signature)
            for number, (one, other) in enumerate(zip(got, expected, strict=True)):
                assert_close(one, other, (1e-9, 1e-9), f"{sample} on {mesh} with {signature}: result {number}")
    return len(signatures)


def _can_sum(signature: NdSignature, arrays: list[Array]) -> bool:
    """Whether no infinity would have to be split into addends."""
    layouts = zip((*signature.inputs, *signature.outputs), arrays, strict=True)
    sums = [a for nd, a in layouts if any(s.kind == "P" for s in nd)]
    return all(a.dtype.kind in "biu" or np.isfinite(a).all() for a in sums)


class ShardedCall:
    """A call on arrays, computed shard by shard on a mesh. Signatures share the shards of operands.

    Attributes:
        described: the description of the call.
    """

    def __init__(self, op: Call, mesh: Mesh) -> None:
        self.op, self.mesh, self.described = op, mesh, described(op)
        self._operands = [np.asarray(x) for x in flatten(op.inputs.values())]
        self._counts = [len(v) if isinstance(v, tuple) else int(v is not None) for v in op.inputs.values()]
        self._split: dict[tuple[int, NdSbp], list[Array]] = {}

    def run(self, signature: NdSignature) -> list[Array]:
        """The assembled results."""
        results = self.results(signature)
        return [assemble([r[i] for r in results], nd, self.mesh) for i, nd in enumerate(signature.outputs)]

    def results(self, signature: NdSignature) -> list[list[Array]]:
        """The results of every rank."""
        split = [self._shards(index, nd) for index, nd in enumerate(signature.inputs)]
        return [self._run_rank(signature, rank, [p[rank] for p in split]) for rank in range(devices(self.mesh))]

    def _shards(self, number: int, nd: NdSbp) -> list[Array]:
        """The shards of an operand, each operand with noise of its own."""
        if (number, nd) not in self._split:
            self._split[number, nd] = split_array(self._operands[number], nd, self.mesh, number)
        return self._split[number, nd]

    def _run_rank(self, signature: NdSignature, rank: int, shards: list[Array]) -> list[Array]:
        op, inputs = self.op, distribute(self.op.record.signature.inputs, shards, self._counts)
        is_local = op.record.local is not None
        attrs = localize(self.described, signature, self.mesh, rank).attrs if is_local else op.attrs
        return [np.asarray(r) for r in run_reference(Call(op.record, inputs, attrs))]
