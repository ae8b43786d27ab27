"""Boxing (resharding): the cheapest path from one nd-SBP of a tensor to another on the same mesh.

A `BoxingStep` is one collective or local operation: the step changes the equal SBP of one or several mesh axes to
another SBP. `Boxing.path` finds the steps that move the fewest bytes, and among these the steps that wait least for
other ranks.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from oneflow.dialect.nd_sbp import Mesh, NdSbp, format_nd_sbp, region_at, splits
from oneflow.dialect.sbp import B, P, S, Sbp

#: The names of steps, by source and target kind.
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
#: How often a step waits for other ranks: the order of paths of equal bytes.
WAITS = {"narrow": 0, "pad": 0, "keep_first": 0, SEND_RECV: 2}


@dataclass(frozen=True)
class BoxingStep:
    """A collective or local operation: `kind` along the mesh axes `axes`, moving `bytes` between ranks."""

    kind: str
    axes: tuple[int, ...]
    source: NdSbp
    target: NdSbp
    bytes: int = field(compare=False)

    def __str__(self) -> str:
        return f"{self.kind} {format_nd_sbp(self.source)} -> {format_nd_sbp(self.target)}, {self.bytes} bytes"


class BoxingError(ValueError):
    """No path leads from one layout to the other."""


#: The rank of a path: bytes, waits, steps, and the order of discovery.
Rank = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Path:
    """The best path to a layout; `after` is the rank of a general exchange from there."""

    rank: Rank
    layout: NdSbp
    steps: tuple[BoxingStep, ...]
    after: int

    @property
    def sums(self) -> bool:
        """Whether a general exchange may be next: after another step, an exchange moves no fewer bytes than in place
        of that step.
        """
        if not self.steps:
            return True
        last = self.steps[-1]
        return any(side[last.axes[0]].is_partial for side in (last.source, last.target))


@dataclass
class Boxing:
    """Paths between layouts on one mesh; each is searched once."""

    mesh: Mesh
    _paths: dict[tuple[NdSbp, NdSbp, tuple[int, ...], int], tuple[BoxingStep, ...]] = field(default_factory=dict)
    _searches: dict[tuple[NdSbp, tuple[int, ...], int], _Search] = field(default_factory=dict)
    _known: dict[tuple[NdSbp, tuple[int, ...], int], list[BoxingStep]] = field(default_factory=dict)
    _exchanges: dict[tuple[NdSbp, NdSbp, tuple[int, ...], int], BoxingStep | None] = field(default_factory=dict)
    _moved: dict[tuple[NdSbp, NdSbp, tuple[int, ...]], int] = field(default_factory=dict)

    def path(self, source: NdSbp, target: NdSbp, shape: tuple[int, ...], width: int) -> tuple[BoxingStep, ...]:
        """The steps from `source` to `target` for a tensor of `shape` with elements of `width` bytes.

        A bool tensor has the width 0: bool has no partial sums and counts as one byte.

        Raises:
            BoxingError: there is no path, such as to partial sums of bool tensors or to partial maxima.
        """
        key = (source, target, shape, width)
        if key not in self._paths:
            start = (source, shape, width)
            if start not in self._searches:
                self._searches[start] = _Search(self, *start)
            self._paths[key] = self._searches[start].steps_to(target)
        return self._paths[key]

    def cost(self, source: NdSbp, target: NdSbp, shape: tuple[int, ...], width: int) -> int:
        """The bytes that all ranks together receive."""
        return sum(s.bytes for s in self.path(source, target, shape, width))

    def steps(self, state: NdSbp, shape: tuple[int, ...], width: int) -> list[BoxingStep]:
        """The steps from a layout to others, but for general exchanges."""
        key = (state, shape, width)
        if key not in self._known:
            self._known[key] = list(self._steps(*key))
        return self._known[key]

    def exchange(self, state: NdSbp, target: NdSbp, shape: tuple[int, ...], width: int) -> BoxingStep | None:
        """The general exchange from one layout to another; None where there is none."""
        key = (state, target, shape, width)
        if key not in self._exchanges:
            axes = _exchange_axes(state, target)
            self._exchanges[key] = self._step(SEND_RECV, axes, *key) if axes else None
        return self._exchanges[key]

    def _steps(self, state: NdSbp, shape: tuple[int, ...], width: int) -> Iterator[BoxingStep]:
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

    def _step(
        self, kind: str, axes: tuple[int, ...], source: NdSbp, target: NdSbp, shape: tuple[int, ...], width: int
    ) -> BoxingStep:
        if kind in ("keep_first", "pad"):
            elements = 0
        elif source[axes[0]].is_partial:
            elements = self._reduced(axes, source, shape) * (1 if kind == "reduce_scatter" else 2)
        else:
            key = (source, target, shape)
            if key not in self._moved:
                self._moved[key] = self._received(source, target, shape)
            elements = self._moved[key]
        return BoxingStep(kind, axes, source, target, elements * max(width, 1))

    def _reduced(self, axes: Sequence[int], source: NdSbp, shape: tuple[int, ...]) -> int:
        """The elements that a reduction to shards moves: every group's tensor but for one member's part."""
        others = [k for k in range(len(self.mesh)) if k not in axes and source[k].kind != "S"]
        groups = math.prod(self.mesh[k] for k in others)
        return math.prod(shape) * groups * (math.prod(self.mesh[k] for k in axes) - 1)

    def _received(self, source: NdSbp, target: NdSbp, shape: tuple[int, ...]) -> int:
        """The elements that ranks need and do not have, over all ranks.

        Tensor axes that no mesh axis joins are counted separately: their counts multiply.
        """
        needed = common = math.prod(p for p, *pair in zip(self.mesh, source, target, strict=True) if not _cuts(pair))
        for dims, mesh_axes in _joined_axes(source, target, len(shape)):
            mesh, sizes = tuple(self.mesh[k] for k in mesh_axes), tuple(shape[d] for d in dims)
            cuts = (tuple(_within(nd[k], dims) for k in mesh_axes) for nd in (source, target))
            all_needed, all_common = _overlap(sizes, mesh, *cuts)
            needed *= all_needed
            common *= all_common
        return needed - common


@functools.lru_cache(maxsize=1 << 16)
def _overlap(sizes: tuple[int, ...], mesh: Mesh, source: NdSbp, target: NdSbp) -> tuple[int, int]:
    """The elements of a tensor that all ranks of a mesh need, and the elements among these that the ranks have."""
    needed = common = 0
    for coordinates in itertools.product(*map(range, mesh)):
        have, need = (region_at(sizes, nd, mesh, coordinates) for nd in (source, target))
        both = (min(a + m, b + n) - max(a, b) for (a, m), (b, n) in zip(have, need, strict=True))
        needed += math.prod(n for _, n in need)
        common += math.prod(max(c, 0) for c in both)
    return needed, common


class _Search:
    """Dijkstra's algorithm over layouts from one source, run as far as targets need.

    A general exchange leads from every layout to the target. Of equal paths the
    first one found is taken.
    """

    def __init__(self, boxing: Boxing, source: NdSbp, shape: tuple[int, ...], width: int) -> None:
        self.boxing, self.source, self.of = boxing, source, (shape, width)
        self.order = itertools.count()
        self.heap: list[tuple[Rank, NdSbp, tuple[BoxingStep, ...]]] = [((0, 0, 0, next(self.order)), source, ())]
        self.done: dict[NdSbp, _Path] = {}

    def steps_to(self, target: NdSbp) -> tuple[BoxingStep, ...]:
        """The steps to a layout.

        Raises:
            BoxingError: there is no path.
        """
        best: tuple[Rank, tuple[BoxingStep, ...]] | None = None
        for path in self._paths():
            if best is not None and best[0] < path.rank:
                break
            if path.layout == target:
                return path.steps
            step = self.boxing.exchange(path.layout, target, *self.of) if path.sums else None
            if step is not None:
                candidate = (_further(path.rank, step, path.after), (*path.steps, step))
                best = candidate if best is None else min(best, candidate, key=lambda b: b[0])
        if best is None:
            raise BoxingError(f"no boxing leads from {format_nd_sbp(self.source)} to {format_nd_sbp(target)}")
        return best[1]

    def _paths(self) -> Iterator[_Path]:
        """The best path to each layout, in the order of their ranks."""
        yield from list(self.done.values())
        while self.heap:
            rank, layout, steps = heapq.heappop(self.heap)
            if layout in self.done:
                continue
            for step in self.boxing.steps(layout, *self.of):
                if step.target not in self.done:
                    further = _further(rank, step, next(self.order))
                    heapq.heappush(self.heap, (further, step.target, (*steps, step)))
            self.done[layout] = _Path(rank, layout, steps, next(self.order))
            yield self.done[layout]


def _further(rank: Rank, step: BoxingStep, order: int) -> Rank:
    """How a path ranks with one more step."""
    moved, waits, length, _ = rank
    return moved + step.bytes, waits + WAITS.get(step.kind, 1), length + 1, order


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, count + 1):
        yield from itertools.combinations(range(count), size)


def _innermost(nd: NdSbp, axes: Sequence[int]) -> bool:
    """Whether no other mesh axis cuts shards that `axes` have cut, so that these can change alone."""
    sbp: Sbp = nd[axes[0]]
    return sbp.axis is None or all(k in axes or k < axes[0] for k in splits(nd, sbp.axis))


def _exchange_axes(source: NdSbp, target: NdSbp) -> tuple[int, ...]:
    """The mesh axes that a general exchange from `source` to `target` concerns; none where the exchange would have to
    add.

    The exchange axes are the axes that change, and the axes that split their shards further.
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
    """Tensor axes in groups, with the mesh axes that split the group before or after; tensor axes of a group share
    mesh axes.
    """
    groups = [
        ([d], {k for k, pair in enumerate(zip(source, target, strict=True)) if S(d) in pair}) for d in range(rank)
    ]
    joined: list[tuple[list[int], set[int]]] = []
    for dims, cuts in groups:
        touching = [g for g in joined if g[1] & cuts]
        joined = [g for g in joined if g not in touching]
        joined.append((sum((g[0] for g in touching), dims), cuts.union(*(g[1] for g in touching))))
    return [(sorted(dims), sorted(cuts)) for dims, cuts in joined]
