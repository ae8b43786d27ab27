"""SBP: how a tensor lies on the devices of one mesh axis, and which combinations an operator allows.

`S(axis)` splits a tensor, `B` repeats it, `P` keeps partial sums of it, and `M` partial maxima, which maxima along a
split axis leave and which have to be put together before they are used. A signature gives one of these to every
operand and result of a call. Most operators state theirs as factors, one letter per dimension:

    "m k, k n -> m n"      splitting m, n or k gives  S0,B->S0   B,S1->S1   S1,S0->P

A factor on both sides stays split, a factor only on the left is summed over and leaves partial sums, and a
tensor without the factor is repeated. `_` stands for a dimension that has to stay whole; `g*4` for one whose 4
groups stay together: it is split over devices whose number divides 4. `linear` adds the
signatures of partial sums: "each" for maps linear in every operand alone (products), "joint" for maps
linear in all operands together (sums, movement). The all-broadcast signature always exists.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from oneflow.dialect.tensor_desc import Shape, TensorDesc


@dataclass(frozen=True)
class Sbp:
    """One of S(axis), B, P, M; `axis` is None but for S."""

    kind: str
    axis: int | None = None

    @property
    def is_partial(self) -> bool:
        """Whether the devices' tensors have to be put together element by element."""
        return self.kind in ("P", "M")

    def __str__(self) -> str:
        return f"S({self.axis})" if self.kind == "S" else self.kind

    def __repr__(self) -> str:
        return str(self)


B = Sbp("B")
P = Sbp("P")
M = Sbp("M")


@functools.cache
def S(axis: int) -> Sbp:  # noqa: N802
    """Split along `axis`, balanced: the first `n mod p` ranks get one more."""
    return Sbp("S", axis)


@dataclass(frozen=True)
class SbpSignature:
    """One `Sbp` for each operand and each result of a call, in order.

    It holds on devices whose number divides `multiple`; 0, which all do, is for signatures that hold on any.
    """

    inputs: tuple[Sbp, ...]
    outputs: tuple[Sbp, ...]
    multiple: int = field(default=0, compare=False)

    def __str__(self) -> str:
        sides = (", ".join(map(str, side)) for side in (self.inputs, self.outputs))
        return " -> ".join(sides)


@dataclass(frozen=True)
class Shard:
    """What one device has of a call: its pieces' descriptions, and where along its split axis each piece begins
    (0 where it is whole)."""

    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    begins: tuple[int, ...]
    output_begins: tuple[int, ...]


#: What a rule gives for a call: signatures beyond the all-broadcast one.
SbpRule = Callable[..., Sequence[SbpSignature]]


@dataclass(frozen=True)
class Factors:
    """An SBP rule in factors. `linear` is None, "each" or "joint"; see the module's text."""

    text: str
    linear: str | None = None

    def sides(self) -> tuple[list[list[str]], list[list[str]]]:
        """The factors of every operand and of every result."""
        left, arrow, right = self.text.partition("->")
        if not arrow:
            raise ValueError(f"expected `operands -> results` in factors, got {self.text!r}")
        ins, outs = ([t.split() for t in side.split(",")] for side in (left, right))
        return ins, outs

    def signatures(self, shapes: Sequence[Shape] | None = None) -> list[SbpSignature]:
        """Every signature these factors give, for operands of `shapes` where they are known.

        A dimension of size 1 beside a larger one of the same factor is broadcast, hence repeated.

        Raises:
            ValueError: the number of factors is not the rank of an operand.
        """
        written, outs = self.sides()
        ins = written
        if shapes is not None:
            ins = [_mark_broadcast(f, s, self.text) for f, s in zip(ins, shapes, strict=True)]
        gone = _names(written) - _names(ins)
        names = dict.fromkeys(f for factors in (*ins, *outs) for f in factors if f not in gone)
        split = [_split_by(n, ins, outs) for n in names if not n.startswith("_")]
        return _unique(s for s in (*split, *self.partial_sums(len(ins), len(outs))) if s is not None)

    def partial_sums(self, inputs: int, outputs: int) -> list[SbpSignature]:
        """The signatures by which this linear map passes partial sums on."""
        if self.linear == "joint":
            return [SbpSignature((P,) * inputs, (P,) * outputs)] if inputs else []
        if self.linear == "each":
            rows = [tuple(P if i == j else B for j in range(inputs)) for i in range(inputs)]
            return [SbpSignature(row, (P,) * outputs) for row in rows]
        return []


def _names(sides: Sequence[Sequence[str]]) -> set[str]:
    return {f for factors in sides for f in factors}


def _mark_broadcast(factors: list[str], shape: Shape, text: str) -> list[str]:
    if len(factors) != len(shape):
        raise ValueError(f"expected one factor per dimension in {text!r}, got an operand of rank {len(shape)}")
    return ["_" if d == 1 else f for f, d in zip(factors, shape, strict=True)]


def _split_by(name: str, ins: list[list[str]], outs: list[list[str]]) -> SbpSignature | None:
    inputs = tuple(S(f.index(name)) if name in f else B for f in ins)
    contracted = not any(name in f for f in outs)
    outputs = tuple(P if contracted else S(f.index(name)) if name in f else B for f in outs)
    return SbpSignature(inputs, outputs, int(name.partition("*")[2] or 0))


def _unique(signatures: object) -> list[SbpSignature]:
    return list(dict.fromkeys(signatures))  # type: ignore[call-overload]


def sums_bools(signature: SbpSignature, bools: Sequence[bool]) -> bool:
    """Whether a signature has partial values of tensors marked as bool, which cannot be added."""
    everything = (*signature.inputs, *signature.outputs)
    return any(b and sbp.is_partial for sbp, b in zip(everything, bools, strict=True))


def sums_of_shapes(signatures: Sequence[SbpSignature], positions: Sequence[int]) -> list[SbpSignature]:
    """`signatures` with partial sums for whole operands at `positions` in all ways: only their shape is read."""
    return [s for given in signatures for s in _sums_in_place_of_wholes(given, positions) if s != given]


def _sums_in_place_of_wholes(signature: SbpSignature, positions: Sequence[int]) -> Iterator[SbpSignature]:
    kinds = [(s, P) if i in positions and s == B else (s,) for i, s in enumerate(signature.inputs)]
    every = itertools.product(*kinds)
    return (SbpSignature(inputs, signature.outputs, signature.multiple) for inputs in every)


def broadcast_everything(inputs: int, outputs: int) -> SbpSignature:
    """The signature that every operator has: all tensors whole on all devices."""
    return SbpSignature((B,) * inputs, (B,) * outputs)


def balanced_ranges(size: int, parts: int) -> list[tuple[int, int]]:
    """The [begin, end) of each part of a balanced split; parts may be empty."""
    small, more = divmod(size, parts)
    ends = [small * (i + 1) + min(i + 1, more) for i in range(parts)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def broadcast_factors(shapes: Sequence[Shape], rank: int, linear: str | None = None) -> Factors:
    """Factors of an element-wise operator: `shapes` are aligned at the last dimension of `rank`."""
    letters = [f"d{i}" for i in range(rank)]
    sides = [" ".join(letters[rank - len(s) :]) for s in shapes]
    return Factors(f"{', '.join(sides)} -> {' '.join(letters)}", linear)
