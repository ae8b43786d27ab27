"""nd-SBP: the layout of a tensor on a mesh of devices, one of S, B, P, M per mesh axis.

Ranks are numbered row-major over the mesh. Along one tensor axis the splits of several mesh axes nest: an
earlier mesh axis cuts the whole, a later one cuts the shards, each time balanced, so shards may differ by one
and may be empty.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect._mlir import ir
from oneflow.dialect.sbp import B, M, P, S, Sbp, SbpSignature
from oneflow.dialect.tensor_desc import TensorDesc

Mesh = tuple[int, ...]
NdSbp = tuple[Sbp, ...]
#: The region of a shard in the whole tensor: begin and size along every axis.
Region = tuple[tuple[int, int], ...]

#: The attributes that state layouts; see `passes/sbp/annotations.py`.
MESH, ND_SBP = "oneflow.mesh", "oneflow.nd_sbp"
IN, OUT = "oneflow.in_nd_sbp", "oneflow.out_nd_sbp"

_TEXT = re.compile(r'"?(?:S\((?P<a>\d+)\)|#sbp\.split<(?P<b>\d+)(?: : i64)?>)"?')
_WHOLE = {"B": B, '"B"': B, "#sbp.broadcast": B, "P": P, '"P"': P, "#sbp.partial_sum": P, "#sbp.partial_max": M}


@dataclass(frozen=True)
class NdSignature:
    """An nd-SBP for each operand and each result of a call, in order."""

    inputs: tuple[NdSbp, ...]
    outputs: tuple[NdSbp, ...]

    @classmethod
    def product(cls, signatures: Sequence[SbpSignature]) -> NdSignature:
        """The signature that has `signatures[k]` along mesh axis k."""
        inputs = zip(*(s.inputs for s in signatures), strict=True)
        outputs = zip(*(s.outputs for s in signatures), strict=True)
        return cls(tuple(inputs), tuple(outputs))

    def along(self, axis: int) -> SbpSignature:
        """The signature along one mesh axis."""
        return SbpSignature(tuple(i[axis] for i in self.inputs), tuple(o[axis] for o in self.outputs))

    def __str__(self) -> str:
        sides = (", ".join(map(format_nd_sbp, side)) for side in (self.inputs, self.outputs))
        return " -> ".join(sides).strip()


def format_nd_sbp(nd: NdSbp) -> str:
    """`S(0)` on a mesh of one axis, `[S(0), B]` on others."""
    return str(nd[0]) if len(nd) == 1 else f"[{', '.join(map(str, nd))}]"


def parse_sbp(text: str) -> Sbp:
    """The SBP that `S(0)`, `B`, `P` or an attribute of the dialect `sbp` writes.

    Raises:
        ValueError: the text is none of these.
    """
    match = _TEXT.fullmatch(text)
    if match is not None:
        return S(int(match["a"] or match["b"]))
    if text not in _WHOLE:
        raise ValueError(f"expected #sbp.split<axis>, #sbp.broadcast or #sbp.partial_sum, got {text}")
    return _WHOLE[text]


def check_nd_sbp(value: Any) -> NdSbp:
    """A list of `Sbp` or of their texts as an nd-SBP.

    Raises:
        ValueError: it is not such a list.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ValueError(f"expected a list of SBPs such as ['S(0)', 'B'], got {value!r}")
    return tuple(v if isinstance(v, Sbp) else parse_sbp(str(v)) for v in value)


@functools.lru_cache(maxsize=4096)
def _parse_list(text: str) -> NdSbp:
    return tuple(parse_sbp(t.strip()) for t in text[1:-1].split(",") if t.strip())


def read_nd_sbp(attr: ir.Attribute) -> NdSbp:
    """The nd-SBP of a list of `#sbp` attributes or of OneFlow's strings; one attribute alone is a list of one.

    Raises:
        ValueError: the attribute is no such list.
    """
    text = str(attr)
    return _parse_list(text) if text.startswith("[") else (parse_sbp(text),)


def write_nd_sbp(nd: NdSbp) -> ir.Attribute:
    """The list of `#sbp` attributes, in the current context."""
    texts = {"B": "#sbp.broadcast", "P": "#sbp.partial_sum", "M": "#sbp.partial_max"}
    return ir.Attribute.parse(f"[{', '.join(texts.get(s.kind) or f'#sbp.split<{s.axis}>' for s in nd)}]")


def broadcast(mesh: Mesh) -> NdSbp:
    """The nd-SBP of a tensor that is replicated on every device."""
    return (B,) * len(mesh)


def devices(mesh: Mesh) -> int:
    """The number of ranks."""
    return math.prod(mesh)


def coordinate(rank: int, mesh: Mesh) -> tuple[int, ...]:
    """The coordinates of a rank in the mesh."""
    at = []
    for size in reversed(mesh):
        rank, index = divmod(rank, size)
        at.append(index)
    return tuple(reversed(at))


def group(rank: int, mesh: Mesh, axes: Sequence[int]) -> list[int]:
    """The ranks that differ from `rank` along the mesh `axes` only, itself included, in row-major order."""
    strides = [math.prod(mesh[k + 1 :]) for k in range(len(mesh))]
    at = coordinate(rank, mesh)
    first = rank - sum(at[k] * strides[k] for k in axes)
    steps = itertools.product(*(range(mesh[k]) for k in axes))
    return [first + sum(i * strides[k] for i, k in zip(step, axes, strict=True)) for step in steps]


def splits(nd: NdSbp, axis: int) -> list[int]:
    """The mesh axes along which tensor axis `axis` is split."""
    return [k for k, sbp in enumerate(nd) if sbp == S(axis)]


def local_region(shape: Sequence[int], nd: NdSbp, mesh: Mesh, rank: int) -> Region:
    """The region of `rank`'s shard in a tensor of `shape`: everything where nothing is split."""
    return region_at(shape, nd, mesh, coordinate(rank, mesh))


def region_at(shape: Sequence[int], nd: Sequence[Sbp], mesh: Mesh, coordinates: Sequence[int]) -> Region:
    """As `local_region`, for the rank at these coordinates of the mesh."""
    region = [(0, size) for size in shape]
    for sbp, parts, at in zip(nd, mesh, coordinates, strict=True):
        if sbp.axis is not None:
            begin, size = region[sbp.axis]
            small, more = divmod(size, parts)
            region[sbp.axis] = (begin + small * at + min(at, more), small + (at < more))
    return tuple(region)


def local_shape(shape: Sequence[int], nd: NdSbp, mesh: Mesh, rank: int) -> tuple[int, ...]:
    """The shape of the shard of `rank`."""
    return tuple(size for _, size in local_region(shape, nd, mesh, rank))


def problem(nd: NdSbp, desc: TensorDesc, mesh: Mesh) -> str | None:
    """Why a tensor of this type cannot have this nd-SBP on the mesh, or None."""
    if len(nd) != len(mesh):
        return f"expected one SBP for each of the {len(mesh)} mesh axes, got {format_nd_sbp(nd)}"
    if any(s.axis is not None and not 0 <= s.axis < desc.rank for s in nd):
        return f"expected split axes below {desc.rank}, the rank of the tensor, got {format_nd_sbp(nd)}"
    if not desc.dtype.has_sums and any(s.is_partial for s in nd):
        return f"expected no partial sums of {desc.dtype.mlir}, got {format_nd_sbp(nd)}"
    return None
