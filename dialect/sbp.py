"""SBP: the layout of a tensor on the devices of one mesh axis, and the combinations that an operator allows.

`S(axis)` splits a tensor, `B` (broadcast) replicates it, `P` keeps partial sums of it, and `M` partial maxima, the
result of a maximum over a split axis, which must be reduced before use. A signature assigns one of these to every
operand and result of a call. Most operators state theirs as factors, one letter per dimension:

    "m k, k n -> m n"      split along m, n or k:  S0,B->S0   B,S1->S1   S1,S0->P

A factor on both sides stays split, a factor only on the left is summed over and leaves partial sums, and a
tensor without the factor is broadcast. `_` stands for a dimension that cannot be split; `g*4` for one whose 4
groups stay together: the factor is split over devices whose number divides 4. `linear` adds the
signatures of partial sums: "each" for maps linear in every operand alone (products), "joint" for maps
linear in all operands together (sums, movement). The all-broadcast signature always exists.

Three combinators extend factors. `linear_in` names operands in which the map is linear. `plus` appends an operand
that is added to the first result, such as a bias. `summing` names results that are sums over the factors that they
lack, while other results have these factors:

    Factors("m k, n k -> m n", "each").plus("n")                       a linear layer
    Factors("r c, r c -> r c").linear_in(op, "dy")                     a gradient
    Factors("r c, r c, c -> r c, c").summing(1)                        with the gradient of a parameter of each column
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from oneflow.dialect.tensor_desc import Shape, TensorDesc


@dataclass(frozen=True)
class Sbp:
    """A split S(axis), broadcast B, partial sum P or partial maximum M; `axis` is None but for S."""

    kind: str
    axis: int | None = None

    @property
    def is_partial(self) -> bool:
        """Whether the devices' tensors have to be reduced element by element."""
        return self.kind in ("P", "M")

    def __str__(self) -> str:
        return f"S({self.axis})" if self.kind == "S" else self.kind

    def __repr__(self) -> str:
        """The expression of the user's layout, as OneFlow prints it."""
        expressions = {"S": f"split(dim={self.axis})", "B": "broadcast", "P": "partial_sum", "M": "partial_max"}
        return f"oneflow.sbp.{expressions[self.kind]}"

    def __call__(self) -> Sbp:
        """The layout itself: OneFlow's programs write `flow.sbp.broadcast()` too."""
        return self


B = Sbp("B")
P = Sbp("P")
M = Sbp("M")


@functools.cache
def S(axis: int) -> Sbp:  # noqa: N802
    """Split along `axis`, balanced: the first `n mod p` ranks get one more."""
    return Sbp("S", axis)


@dataclass(frozen=True)
class SbpSignature:
    """An `Sbp` for each operand and each result of a call, in order.

    The signature holds where the number of devices divides `multiple`; 0 is for signatures that hold on any number.
    """

    inputs: tuple[Sbp, ...]
    outputs: tuple[Sbp, ...]
    multiple: int = field(default=0, compare=False)

    def __str__(self) -> str:
        sides = (", ".join(map(str, side)) for side in (self.inputs, self.outputs))
        return " -> ".join(sides)


@dataclass(frozen=True)
class Shard:
    """A device's share of a call: the descriptions of its shards, and where along its split axis each shard begins.

    The start of a tensor that is not split is 0.
    """

    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    begins: tuple[int, ...]
    output_begins: tuple[int, ...]


#: The result of a rule for a call: signatures besides the all-broadcast signature.
SbpRule = Callable[..., Sequence[SbpSignature]]


class NamedOperands(Protocol):
    """A call whose operands combinators of factors read by name: one operand, a tuple, or None."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The operands by name."""


@dataclass(frozen=True)
class Factors:
    """An SBP rule in factors. `linear` is None, "each" or "joint"; see the module's text.

    `sums` are the signatures of partial sums that `linear_in` adds. `addends` are the factors of the operands that
    `plus` appends to those in `text`. `summed` are the results that `summing` names; None means those results that
    are sums because no result has the factor.
    """

    text: str
    linear: str | None = None
    sums: tuple[SbpSignature, ...] = ()
    addends: tuple[str, ...] = ()
    summed: frozenset[int] | None = None

    def linear_in(self, op: NamedOperands, *names: str, results: Collection[int] = (0,)) -> Factors:
        """The same factors for a map that is linear in the operands `names` together.

        Partial sums of these operands give partial sums of `results`. Names of missing operands are skipped.
        """
        ins, outs = self._sides_of_text()
        operand_names = [name for name, operand in op.inputs.items() for _ in _tensors(operand)][: len(ins)]
        if not any(name in names for name in operand_names):
            return self
        inputs = tuple(P if name in names else B for name in operand_names)
        outputs = tuple(P if i in results else B for i in range(len(outs)))
        return replace(self, sums=(*self.sums, SbpSignature(inputs, outputs)))

    def summing(self, *results: int) -> Factors:
        """The same factors for a map whose results at these indices are sums over every factor that they lack.

        Other results do not depend on the factors that they lack.
        """
        return replace(self, summed=frozenset(results))

    def plus(self, factors: str) -> Factors:
        """The same factors for a map whose next operand, of `factors`, is added to the first result.

        The operand is split as the first result is. If the result is a partial sum, the operand has to be one too:
        every device would add a whole operand.
        """
        return replace(self, addends=(*self.addends, factors))

    def sides(self) -> tuple[list[list[str]], list[list[str]]]:
        """The factors of every operand, addends included, and of every result.

        Raises:
            ValueError: the text is none of factors.
        """
        ins, outs = self._sides_of_text()
        return [*ins, *(factors.split() for factors in self.addends)], outs

    def _sides_of_text(self) -> tuple[list[list[str]], list[list[str]]]:
        left, arrow, right = self.text.partition("->")
        if not arrow:
            raise ValueError(f"expected `operands -> results` in factors, got {self.text!r}")
        ins, outs = ([t.split() for t in side.split(",")] for side in (left, right))
        return ins, outs

    def signatures(self, shapes: Sequence[Shape] | None = None) -> list[SbpSignature]:
        """Every signature of these factors, for operands of `shapes` where the shapes are known.

        A dimension of size 1 has no split where another dimension of the same factor is larger.

        Raises:
            ValueError: the number of factors is not the rank of an operand.
        """
        written, outs = self._sides_of_text()
        ins = written
        if shapes is not None:
            shapes = shapes[: len(shapes) - len(self.addends)]
            ins = [_mark_broadcast(f, s, self.text) for f, s in zip(ins, shapes, strict=True)]
        size_one = _names(written) - _names(ins)
        names = dict.fromkeys(f for factors in (*ins, *outs) for f in factors if f not in size_one)
        split = [_split_by(n, ins, outs, self.summed) for n in names if not n.startswith("_")]
        signatures = dict.fromkeys((*split, *self.partial_sums(len(ins), len(outs)), *self.sums))
        return [_with_addends(s, outs[0], self.addends) for s in signatures]

    def partial_sums(self, inputs: int, outputs: int) -> list[SbpSignature]:
        """The signatures by which a map of this `linear` passes partial sums on."""
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


def _tensors(operand: Any) -> Sequence[Any]:
    """The tensors of an operand: several for a variadic one, none for a missing one."""
    return operand if isinstance(operand, (tuple, list)) else [] if operand is None else [operand]


def _with_addends(signature: SbpSignature, result: Sequence[str], addends: Sequence[str]) -> SbpSignature:
    """`signature` with further operands, of the factors `addends`, that are added to the first result."""
    placed = signature.outputs[0]
    if placed.axis is None:
        return replace(signature, inputs=(*signature.inputs, *[placed] * len(addends)))
    sides = (factors.split() for factors in addends)
    name = result[placed.axis]
    added = (S(factors.index(name)) if name in factors else B for factors in sides)
    return replace(signature, inputs=(*signature.inputs, *added))


def _split_by(name: str, ins: list[list[str]], outs: list[list[str]], summed: frozenset[int] | None) -> SbpSignature:
    inputs = tuple(S(f.index(name)) if name in f else B for f in ins)
    if summed is None:
        summed = frozenset() if any(name in f for f in outs) else frozenset(range(len(outs)))
    outputs = tuple(S(f.index(name)) if name in f else P if i in summed else B for i, f in enumerate(outs))
    return SbpSignature(inputs, outputs, int(name.partition("*")[2] or 0))


def has_partials(signature: SbpSignature, among: Sequence[bool]) -> bool:
    """Whether a signature has partial values of tensors that `among` marks; elements of these cannot be added."""
    everything = (*signature.inputs, *signature.outputs)
    return any(marked and sbp.is_partial for sbp, marked in zip(everything, among, strict=True))


def with_partial_shape_operands(signatures: Sequence[SbpSignature], positions: Sequence[int]) -> list[SbpSignature]:
    """Further signatures: partial sums for broadcast operands at `positions`, of which only the shape is read."""
    return [s for signature in signatures for s in _partial_alternatives(signature, positions) if s != signature]


def _partial_alternatives(signature: SbpSignature, positions: Sequence[int]) -> Iterator[SbpSignature]:
    alternatives = [(s, P) if i in positions and s == B else (s,) for i, s in enumerate(signature.inputs)]
    combinations = itertools.product(*alternatives)
    return (SbpSignature(inputs, signature.outputs, signature.multiple) for inputs in combinations)


def all_broadcast(inputs: int, outputs: int) -> SbpSignature:
    """The signature that every operator has: all tensors are broadcast."""
    return SbpSignature((B,) * inputs, (B,) * outputs)


def balanced_ranges(size: int, parts: int) -> list[tuple[int, int]]:
    """The [begin, end) of each part of a balanced split; parts may be empty."""
    small, more = divmod(size, parts)
    ends = [small * (i + 1) + min(i + 1, more) for i in range(parts)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def common_axes(tensors: Sequence[TensorDesc]) -> list[str]:
    """Factors of tensors that are split along the same axis: an axis larger than 1 that each tensor has."""
    shapes = [t.shape or () for t in tensors]
    shared = [all(i < len(s) and s[i] != 1 for s in shapes) for i in range(max(map(len, shapes)))]
    return [" ".join(f"d{i}" if shared[i] else "_" for i in range(len(s))) for s in shapes]


def repeated_factors(names: str, inputs: int, outputs: int = 1, linear: str | None = None) -> Factors:
    """Factors of an operator whose operands and results all have the factors `names`."""
    return Factors(f"{', '.join([names] * inputs)} -> {', '.join([names] * outputs)}", linear)


def broadcast_factors(shapes: Sequence[Shape], rank: int, linear: str | None = None) -> Factors:
    """Factors of an element-wise operator: `shapes` are aligned at the last dimension of `rank`."""
    letters = [f"d{i}" for i in range(rank)]
    sides = [" ".join(letters[rank - len(s) :]) for s in shapes]
    return Factors(f"{', '.join(sides)} -> {' '.join(letters)}", linear)
