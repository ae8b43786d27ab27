"""Boxing: the cheapest way from one nd-SBP of a tensor to another on the same mesh.

A `Step` is what one collective does, or one local operation: it takes the SBP of one or several mesh axes that
agree from one kind to another. `Boxing.path` finds the steps that move the fewest bytes, then those that wait
for other ranks least.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from oneflow.dialect.nd_sbp import Mesh, NdSbp, cut_region, format_nd_sbp, splits
from oneflow.dialect.sbp import B, P, S, Sbp

#: What one step is called, by the kinds it goes from and to.
KINDS = {
    "PB": "all_reduce",
    "PS": "reduce_scatter",
    "SB": "all_gather",
    "SS": "all_to_all",
    "BS": "narrow",
    "SP": "pad",
    "BP": "keep_first",
    "MB": "all_max",
}
SEND_RECV = "send_recv"
#: How often a step waits for other ranks, as far as it matters between ways of equal bytes.
WAITS = {"narrow": 0, "pad": 0, "keep_first": 0, SEND_RECV: 2}


@dataclass(frozen=True)
class Step:
    """One collective or local operation: `kind` along the mesh axes `axes`, moving `bytes` between ranks."""

    kind: str
    axes: tuple[int, ...]
    source: NdSbp
    target: NdSbp
    bytes: int = field(compare=False)

    def __str__(self) -> str:
        return f"{self.kind} {format_nd_sbp(self.source)} -> {format_nd_sbp(self.target)}, {self.bytes} bytes"


class BoxingError(ValueError):
    """No way leads from one layout to the other."""


@dataclass
class Boxing:
    """Ways between layouts on one mesh; each is searched once."""

    mesh: Mesh
    _paths: dict[tuple[NdSbp, NdSbp, tuple[int, ...], int], tuple[Step, ...]] = field(default_factory=dict)
    _moved: dict[tuple[NdSbp, NdSbp, tuple[int, ...]], int] = field(default_factory=dict)

    def path(self, source: NdSbp, target: NdSbp, shape: tuple[int, ...], width: int) -> tuple[Step, ...]:
        """The steps from `source` to `target` for a tensor of `shape` with elements of `width` bytes.

        A bool tensor has the width 0: it has no partial sums and counts as one byte.

        Raises:
            BoxingError: there are none: to partial sums of bool tensors, or to partial maxima.
        """
        key = (source, target, shape, width)
        if key not in self._paths:
            self._paths[key] = self._search(source, target, shape, width)
        return self._paths[key]

    def cost(self, source: NdSbp, target: NdSbp, shape: tuple[int, ...], width: int) -> int:
        """The bytes that all ranks together receive."""
        return sum(s.bytes for s in self.path(source, target, shape, width))

    def _search(self, source: NdSbp, target: NdSbp, shape: tuple[int, ...], width: int) -> tuple[Step, ...]:
        """Dijkstra's algorithm over layouts; equal ways are taken in the order in which they are found."""
        order = itertools.count()
        heap: list[tuple[int, int, int, int, NdSbp, tuple[Step, ...]]] = [(0, 0, 0, next(order), source, ())]
        done: set[NdSbp] = set()
        while heap:
            moved, waits, length, _, state, way = heapq.heappop(heap)
            if state == target:
                return way
            if state in done:
                continue
            done.add(state)
            for step in self._steps(state, target, shape, width):
                if step.target not in done:
                    sums = (moved + step.bytes, waits + WAITS.get(step.kind, 1), length + 1)
                    heapq.heappush(heap, (*sums, next(order), step.target, (*way, step)))
        raise BoxingError(f"no boxing leads from {format_nd_sbp(source)} to {format_nd_sbp(target)}")

    def _steps(self, state: NdSbp, target: NdSbp, shape: tuple[int, ...], width: int) -> Iterator[Step]:
        kinds = [*([] if width == 0 else [P]), B, *(S(i) for i in range(len(shape)))]
        for axes in _subsets(len(self.mesh)):
            old = state[axes[0]]
            if any(state[k] != old for k in axes) or not _innermost(state, axes):
                continue
            for new in kinds:
                after = tuple(new if k in axes else s for k, s in enumerate(state))
                kind = KINDS.get(old.kind + new.kind)
                if kind is not None and new != old and _innermost(after, axes):
                    yield self._step(kind, axes, state, after, shape, width)
        axes = _exchange_axes(state, target)
        if axes:
            yield self._step(SEND_RECV, axes, state, target, shape, width)

    def _step(
        self, kind: str, axes: tuple[int, ...], source: NdSbp, target: NdSbp, shape: tuple[int, ...], width: int
    ) -> Step:
        if kind in ("keep_first", "pad"):
            elements = 0
        elif source[axes[0]].is_partial:
            elements = self._reduced(axes, source, shape) * (1 if kind == "reduce_scatter" else 2)
        else:
            key = (source, target, shape)
            if key not in self._moved:
                self._moved[key] = self._received(source, target, shape)
            elements = self._moved[key]
        return Step(kind, axes, source, target, elements * max(width, 1))

    def _reduced(self, axes: Sequence[int], source: NdSbp, shape: tuple[int, ...]) -> int:
        """The elements that a reduction to pieces moves: every group's tensor but for one member's part."""
        others = [k for k in range(len(self.mesh)) if k not in axes and source[k].kind != "S"]
        groups = math.prod(self.mesh[k] for k in others)
        return math.prod(shape) * groups * (math.prod(self.mesh[k] for k in axes) - 1)

    def _received(self, source: NdSbp, target: NdSbp, shape: tuple[int, ...]) -> int:
        """The elements that ranks need and do not have, over all ranks.

        Tensor axes that no mesh axis joins are counted apart: their counts multiply.
        """
        needed = common = math.prod(p for p, *pair in zip(self.mesh, source, target, strict=True) if not _cuts(pair))
        for dims, mesh_axes in _joined_axes(source, target, len(shape)):
            counts = [self._count(dims, mesh_axes, at, source, target, shape) for at in self._places(mesh_axes)]
            needed *= sum(n for n, _ in counts)
            common *= sum(c for _, c in counts)
        return needed - common

    def _places(self, mesh_axes: Sequence[int]) -> Iterator[tuple[int, ...]]:
        return itertools.product(*(range(self.mesh[k]) for k in mesh_axes))

    def _count(
        self,
        dims: Sequence[int],
        mesh_axes: Sequence[int],
        at: Sequence[int],
        source: NdSbp,
        target: NdSbp,
        shape: tuple[int, ...],
    ) -> tuple[int, int]:
        """The elements that the ranks at one place of `mesh_axes` need along `dims`, and those of them they have."""
        sizes, mesh = [shape[d] for d in dims], tuple(self.mesh[k] for k in mesh_axes)
        have, need = (
            cut_region(sizes, [_within(nd[k], dims) for k in mesh_axes], mesh, at) for nd in (source, target)
        )
        common = (min(a + m, b + n) - max(a, b) for (a, m), (b, n) in zip(have, need, strict=True))
        return math.prod(n for _, n in need), math.prod(max(c, 0) for c in common)


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, count + 1):
        yield from itertools.combinations(range(count), size)


def _innermost(nd: NdSbp, axes: Sequence[int]) -> bool:
    """Whether no other mesh axis cuts pieces that `axes` have cut, so that these can change alone."""
    sbp: Sbp = nd[axes[0]]
    return sbp.axis is None or all(k in axes or k < axes[0] for k in splits(nd, sbp.axis))


def _exchange_axes(source: NdSbp, target: NdSbp) -> tuple[int, ...]:
    """The mesh axes that a general exchange from `source` to `target` concerns; none where it would have to add.

    Beside the axes that change, these are the axes that cut the pieces which those have cut.
    """
    pairs = list(zip(source, target, strict=True))
    if any(s != t and (s.is_partial or t.is_partial) for s, t in pairs):
        return ()
    axes = {k for k, (s, t) in enumerate(pairs) if s != t}
    cut = {s for k in axes for s in pairs[k] if s.kind == "S"}
    first = min(axes, default=0)
    return tuple(sorted(axes | {k for k, (s, _) in enumerate(pairs) if k > first and s in cut}))


def _cuts(pair: Sequence[Sbp]) -> bool:
    return any(s.kind == "S" for s in pair)


def _within(sbp: Sbp, dims: Sequence[int]) -> Sbp:
    """`sbp` for a tensor that has only the axes `dims`."""
    return S(dims.index(sbp.axis)) if sbp.axis in dims else B


def _joined_axes(source: NdSbp, target: NdSbp, rank: int) -> list[tuple[list[int], list[int]]]:
    """Tensor axes in groups, with the mesh axes that cut them before or after; those of a group share mesh axes."""
    groups = [
        ([d], {k for k, pair in enumerate(zip(source, target, strict=True)) if S(d) in pair}) for d in range(rank)
    ]
    joined: list[tuple[list[int], set[int]]] = []
    for dims, cuts in groups:
        touching = [g for g in joined if g[1] & cuts]
        joined = [g for g in joined if g not in touching]
        joined.append((sum((g[0] for g in touching), dims), cuts.union(*(g[1] for g in touching))))
    return [(sorted(dims), sorted(cuts)) for dims, cuts in joined]
