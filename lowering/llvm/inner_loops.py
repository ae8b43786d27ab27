"""Writes inner loop nests: loops with accumulators, vector lanes with a masked tail, blocked summation.

Input is the `InnerNest` of one phase, output the text of its loops around a body that the caller writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oneflow.lowering.llvm import blocked_summation
from oneflow.lowering.llvm.accumulators import Accumulators
from oneflow.lowering.llvm.blocked_summation import Cascade
from oneflow.lowering.llvm.lanes import Lanes, LaneValue
from oneflow.lowering.llvm.loop_nest import LoopNest
from oneflow.lowering.llvm.node_emitter import Accumulator
from oneflow.lowering.llvm.writer import Index

#: Writes one step of an inner loop nest on lanes, for values of the accumulators; returns their next values.
Step = Callable[[Lanes, list[LaneValue]], list[LaneValue]]


@dataclass(frozen=True)
class InnerNest:
    """One inner loop nest.

    Attributes:
        keys: the accumulators.
        lanes: the lanes of the point of the outer loops.
        step: writes the innermost body.
        summed: the indices of the accumulators with blocked summation.
        cascade: the blocked summation.
        is_first: whether the nest belongs to the first phase; operands of later phases are in a cache.
    """

    keys: Sequence[Accumulator]
    lanes: Lanes
    step: Step
    summed: Sequence[int] = ()
    cascade: Cascade | None = None
    is_first: bool = False


@dataclass(frozen=True)
class Span:
    """A part of a loop, from `begin` to `end`; the lanes of a `masked` part are those before `end`."""

    begin: Index
    end: Index
    masked: bool = False

    @property
    def length(self) -> int | None:
        """The static number of iterations."""
        begin, end = self.begin, self.end
        return end - begin if isinstance(begin, int) and isinstance(end, int) else None


@dataclass
class InnerLoops:
    """Writes the inner loops of a nest."""

    nest: LoopNest
    accumulators: Accumulators

    def emit(self, inner: InnerNest, begin: Sequence[LaneValue]) -> list[LaneValue]:
        """Writes the loops of `inner`; returns the accumulators after them."""
        is_compensated = inner.cascade is not None and inner.cascade.compensated
        errors = [self.accumulators.identity(*inner.keys[n]) for n in inner.summed] if is_compensated else []
        ends = self._loops(inner, [*begin, *errors], 0)
        for index, error in zip(inner.summed, ends[len(begin) :], strict=False):
            ends[index] = blocked_summation.compensate(self.nest.lanes(), ends[index], error)
        return ends[: len(begin)]

    def _loops(self, inner: InnerNest, carried: list[LaneValue], level: int) -> list[LaneValue]:
        """Writes the loops from `level` on: a vectorized loop ends with one masked vector."""
        nest, loops = self.nest, self.nest.space.inner
        if level == len(loops):
            return inner.step(inner.lanes, carried)
        loop, cascade = loops[level], inner.cascade
        blocks = cascade.blocks if cascade and level == cascade.level else ()
        if not nest.is_vector(loop):
            return self._blocked(inner, level, Span(0, loop.size), blocks, carried)
        middle = nest.writer.floor_to(loop.size, nest.lane_count)
        for span in (Span(0, middle), Span(middle, loop.size, masked=True)):
            if span.begin != span.end:
                carried = self._blocked(inner, level, span, blocks, carried)
        return carried

    def _blocked(
        self, inner: InnerNest, level: int, span: Span, blocks: tuple[int, ...], carried: list[LaneValue]
    ) -> list[LaneValue]:
        """Writes a part of a loop; in each of the largest `blocks`, long sums begin at 0 again."""
        if not blocks:
            return self._plain(inner, level, span, carried)
        nest, writer = self.nest, self.nest.writer
        step = blocks[-1] * (nest.lane_count if nest.is_vector(nest.space.inner[level]) else 1)

        def block(part: Span, values: list[LaneValue]) -> list[LaneValue]:
            pairs = enumerate(zip(inner.keys, values, strict=False))
            fresh = [self.accumulators.identity(*key) if n in inner.summed else value for n, (key, value) in pairs]
            ends = self._blocked(inner, level, part, () if span.masked else blocks[:-1], fresh)
            return self._add_block_sums(inner, values, ends)

        if span.masked or (span.length is not None and span.length <= step):
            return block(span, carried)

        def body(iv: str, values: list[LaneValue]) -> list[LaneValue]:
            divides = span.length is not None and span.length % step == 0
            end = writer.add(iv, step)
            return block(Span(iv, end if divides else writer.binary("minui", end, span.end)), values)

        return nest.loop(span.begin, span.end, step, carried, body)

    def _add_block_sums(
        self, inner: InnerNest, values: Sequence[LaneValue], ends: list[LaneValue]
    ) -> list[LaneValue]:
        """The accumulators after a block: earlier sums plus the block's sums, with the error terms of `values`."""
        lanes, after, errors = self.nest.lanes(), list(ends), list(values[len(inner.keys) :])
        for position, index in enumerate(inner.summed):
            if errors:
                total = blocked_summation.two_sum(lanes, values[index], errors[position], ends[index])
                after[index], errors[position] = total
            else:
                after[index] = blocked_summation.add(lanes, values[index], ends[index])
        return [*after, *errors]

    def _plain(self, inner: InnerNest, level: int, span: Span, carried: list[LaneValue]) -> list[LaneValue]:
        """Writes a part of a loop step by step."""
        loop = self.nest.space.inner[level]
        if self.nest.is_vector(loop):
            return self._vectorized(inner, span, carried)

        def body(iv: str, values: list[LaneValue]) -> list[LaneValue]:
            self.nest.indices[loop.id] = iv
            return self._loops(inner, values, level + 1)

        return self.nest.loop(span.begin, span.end, 1, carried, body)

    def _vectorized(self, inner: InnerNest, span: Span, carried: list[LaneValue]) -> list[LaneValue]:
        """Writes a part of the vectorized loop, which is the last one."""
        nest, hoisted = self.nest, list[str]()
        lanes = nest.lanes(preheader=hoisted)
        lanes.prefetches = inner.is_first and not span.masked
        loop = nest.space.inner[-1]

        def body(iv: str, values: list[LaneValue]) -> list[LaneValue]:
            nest.indices[loop.id] = iv
            lanes.mask = nest.mask(iv, span.end) if span.masked else None
            return inner.step(lanes, values)

        return nest.loop(span.begin, span.end, nest.lane_count, carried, body, hoisted)
