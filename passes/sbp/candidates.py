"""The nd-signatures of a call: products of its 1-D signatures, filtered by shape."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from oneflow.dialect.nd_sbp import Mesh, NdSbp, NdSignature, local_region, splits
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import B, S, Sbp, SbpSignature, Shard
from oneflow.dialect.tensor_desc import Shape, TensorDesc


def nd_signatures(call: Call, mesh: Mesh) -> list[NdSignature]:
    """Every signature of a call on descriptions: one of its signatures per mesh axis, in the records' order.

    Signatures are omitted that split an axis into more shards than the axis has elements, or into a number of shards
    that the record does not allow; the last is all-broadcast. An operator with the slot `nd_sbp` lists its signatures
    itself.
    """
    by_axis = call.record.signatures(call)
    descs = [*call.operands, *call.results]
    products = [p for p in itertools.product(by_axis, repeat=len(mesh)) if _divides(p, mesh)]
    made = [s for s in map(NdSignature.product, products) if _fits(s, descs, mesh)]
    if call.record.nd_sbp is None:
        return made
    signatures = call.record.nd_sbp(call, mesh, made)
    return list(dict.fromkeys([*(s for s in signatures if _fits(s, descs, mesh)), made[-1]]))


def _divides(signatures: Sequence[SbpSignature], mesh: Mesh) -> bool:
    """Whether the numbers of shards divide the signatures' `multiple`.

    Shards are cut by all mesh axes that split the same axis of an operand.
    """
    every = [set(enumerate(s.inputs)) for s in signatures]
    for signature in (s for s in signatures if s.multiple):
        split = {(i, sbp) for i, sbp in enumerate(signature.inputs) if sbp.axis is not None}
        shards = math.prod(p for p, inputs in zip(mesh, every, strict=True) if split & inputs)
        if signature.multiple % shards:
            return False
    return True


def _fits(signature: NdSignature, descs: Sequence[TensorDesc], mesh: Mesh) -> bool:
    layouts = (*signature.inputs, *signature.outputs)
    return all(can_split(d.shape or (), nd, mesh) for d, nd in zip(descs, layouts, strict=True))


def can_split(shape: Shape, nd: NdSbp, mesh: Mesh) -> bool:
    """Whether every device gets at least one element along every split axis; unknown sizes count as large enough."""
    for axis in {s.axis for s in nd if s.axis is not None}:
        size = shape[axis]
        if size is not None and size < math.prod(mesh[k] for k in splits(nd, axis)):
            return False
    return True


def value_layouts(desc: TensorDesc, mesh: Mesh) -> list[NdSbp]:
    """The layouts of a tensor without partial sums: replicated or split along each mesh axis; replicated first."""
    layouts: list[Sbp] = [B, *(S(i) for i in range(desc.rank))]
    every = itertools.product(layouts, repeat=len(mesh))
    return [nd for nd in every if can_split(desc.shape or (), nd, mesh)]


def localize(call: Call, signature: NdSignature, mesh: Mesh, rank: int) -> Call:
    """The call of one rank: local descriptions and attributes, one mesh axis after the other."""
    for axis in range(len(mesh)):
        one_axis, coordinate = signature.along(axis), _coordinate(rank, mesh, axis)
        ins = [_shard(d, s, mesh[axis], coordinate) for d, s in zip(call.operands, one_axis.inputs, strict=True)]
        outs = [_shard(d, s, mesh[axis], coordinate) for d, s in zip(call.results, one_axis.outputs, strict=True)]
        (inputs, begins), (outputs, output_begins) = (tuple(zip(*s, strict=True)) or ((), ()) for s in (ins, outs))
        shard = Shard(inputs, outputs, begins, output_begins)
        attrs = call.attrs if call.record.local is None else {**call.attrs, **call.record.local(call, shard)}
        call = Call(call.record, _refill(call.inputs, shard.inputs), attrs, _refill(call.outputs, shard.outputs))
    return call


def _coordinate(rank: int, mesh: Mesh, axis: int) -> int:
    return rank // math.prod(mesh[axis + 1 :]) % mesh[axis]


def _shard(desc: TensorDesc, sbp: Sbp, shards: int, coordinate: int) -> tuple[TensorDesc, int]:
    """The shard of a tensor along one mesh axis, and the offset of the shard along the split axis."""
    region = local_region(desc.static_shape, (sbp,), (shards,), coordinate)
    begin = 0 if sbp.axis is None else region[sbp.axis][0]
    return TensorDesc(tuple(size for _, size in region), desc.dtype), begin


def _refill(named: dict[str, object], flat: Sequence[TensorDesc]) -> dict[str, object]:
    """`flat` under the names that its elements have in `named`."""
    rest = iter(flat)
    return {k: tuple(next(rest) for _ in v) if isinstance(v, tuple) else v and next(rest) for k, v in named.items()}
