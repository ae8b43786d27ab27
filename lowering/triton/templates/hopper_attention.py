"""Attention on Hopper, in Gluon: one warp reads keys and values, groups of four have 64 queries each.

A group makes the scores of a block of keys while the weights of the one before are multiplied by its values, so that
tensor cores do not wait for exponentials. Programs stay and go over blocks of queries, of which the next one is read
meanwhile; with `causal` a light block follows each heavy one.
"""

from __future__ import annotations

from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.templates.attention_blocks import LOG2E, Shape
from oneflow.lowering.triton.templates.gluon import GROUP, Turned, described, side_by_side, widest
from oneflow.lowering.triton.templates.outline_templates import Filled

#: Blocks of queries underway.
OWN = 2
#: By the width of heads: groups of warps, keys of a block, stages, registers of a thread in a group and on average,
#: whether groups take turns at the tensor cores, and how many blocks of queries a processor has at least: with fewer
#: the plain form fills more of them. 128 blocks of wide heads take 19.2 us, in that form 21.8.
WAYS = {64: (3, 128, 2, 160, 128, True, 1.0), 128: (2, 128, 2, 240, 168, False, 0.96)}
#: The same for narrow heads with `causal` and at most so many queries: smaller blocks have less that is masked.
#: 192 of them take 19.9 us, in the plain form 18.8; 384 take 29.8 and 30.7.
SHORT, FEW = 2048, (2, 128, 2, 240, 168, True, 2.0)

ATTEND = """

@gluon.jit
def read(inputs, memory, bars, sizes, CAUSAL: gl.constexpr, PAIRS: gl.constexpr):
    # Reads the queries of each turn, and its keys and values, the last ones first.
    all_queries, all_keys, all_values = inputs
    queries, keys, values, results = memory
    queries_full, queries_empty, keys_full, keys_empty, values_full, values_empty, _ = bars
    size, blocks, units, turns, heads, share = sizes
    GROUPS: gl.constexpr = results.type.shape[0]
    OWN: gl.constexpr = queries.type.shape[0] // GROUPS
    ROWS: gl.constexpr = queries.type.shape[3]
    WIDTH: gl.constexpr = queries.type.shape[4]
    STAGES: gl.constexpr = keys.type.shape[0]
    KEYS: gl.constexpr = keys.type.shape[3]
    QUERY_BYTES: gl.constexpr = 2 * GROUPS * ROWS * WIDTH
    KEY_BYTES: gl.constexpr = 2 * KEYS * WIDTH
    VALUE_BYTES: gl.constexpr = 2 * KEYS * values.type.shape[4]
    count = 0
    tiles = 0
    for turn in range(turns):
        block, number, there = place(turn, blocks, units, CAUSAL, PAIRS)
        if there:
            batch = number // heads
            head = number % heads
            slot = tiles % OWN
            mbarrier.wait(queries_empty.index(slot), ((tiles // OWN) & 1) ^ 1)
            full = queries_full.index(slot)
            mbarrier.expect(full, QUERY_BYTES)
            for group in gl.static_range(GROUPS):
                at = [batch, head, (block * GROUPS + group) * ROWS, 0]
                load_block(all_queries, at, full, queries.index(slot * GROUPS + group))
            tiles += 1
            steps, masked = seen(block, size, GROUPS * ROWS, KEYS, CAUSAL)
            for step in range(steps):
                row = (steps - 1 - step) * KEYS
                slot = count % STAGES
                phase = (count // STAGES) & 1
                mbarrier.wait(keys_empty.index(slot), phase ^ 1)
                full = keys_full.index(slot)
                mbarrier.expect(full, KEY_BYTES)
                load_block(all_keys, [batch, head // share, row, 0], full, keys.index(slot))
                mbarrier.wait(values_empty.index(slot), phase ^ 1)
                full = values_full.index(slot)
                mbarrier.expect(full, VALUE_BYTES)
                load_block(all_values, [batch, head // share, row, 0], full, values.index(slot))
                count += 1


@gluon.jit
def weigh(scores, most, total, rows, first, masked, size, scale, MASKS: gl.constexpr, CAUSAL: gl.constexpr,
          LAYOUT: gl.constexpr):
    # The weights of a block of scores, the maximum and the sum of each row, and by what sums before shrink.
    if MASKS:
        if masked:
            columns = (first + gl.arange(0, scores.shape[1], gl.SliceLayout(0, LAYOUT)))[None, :]
            counts = columns < size
            if CAUSAL:
                counts = counts & (columns <= rows[:, None])
            scores = gl.where(counts, scores, float("-inf"))
    grown = gl.maximum(most, gl.max(scores, 1))
    base = grown * scale
    if MASKS:
        base = gl.where(grown == float("-inf"), 0.0, base)
    weights = gl.exp2(scores * scale - base[:, None])
    shrink = gl.exp2(most * scale - base)
    return weights, grown, total * shrink + gl.sum(weights, 1), shrink


@gluon.jit
def attend(outputs, memory, bars, sizes, length, scale, GROUP: gl.constexpr, CAUSAL: gl.constexpr,
           PAIRS: gl.constexpr, MASKS: gl.constexpr, TURNS: gl.constexpr):
    # The results of a group's queries in each turn.
    all_results, statistics = outputs
    queries, keys, values, results = memory
    queries_full, queries_empty, keys_full, keys_empty, values_full, values_empty, starts = bars
    size, blocks, units, turns, heads, share = sizes
    GROUPS: gl.constexpr = results.type.shape[0]
    OWN: gl.constexpr = queries.type.shape[0] // GROUPS
    ROWS: gl.constexpr = queries.type.shape[3]
    WIDTH: gl.constexpr = queries.type.shape[4]
    STAGES: gl.constexpr = keys.type.shape[0]
    KEYS: gl.constexpr = keys.type.shape[3]
    OUT: gl.constexpr = values.type.shape[4]
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, OUT, 16])
    WEIGHTS: gl.constexpr = gl.DotOperandLayout(0, SUMS, 2)
    none = gl.zeros((ROWS, KEYS), gl.float32, SCORES)
    count = 0
    tiles = 0
    started = 0
    for turn in range(turns):
        block, number, there = place(turn, blocks, units, CAUSAL, PAIRS)
        if there:
            start = (block * GROUPS + GROUP) * ROWS
            rows = start + gl.arange(0, ROWS, gl.SliceLayout(1, SCORES))
            steps, masked = seen(block, size, GROUPS * ROWS, KEYS, CAUSAL)
            most = gl.full((ROWS,), float("-inf"), gl.float32, gl.SliceLayout(1, SCORES))
            total = gl.full((ROWS,), 0.0, gl.float32, gl.SliceLayout(1, SCORES))
            acc = gl.zeros((ROWS, OUT), gl.float32, SUMS)
            mbarrier.wait(queries_full.index(tiles % OWN), (tiles // OWN) & 1)
            own = queries.index(tiles % OWN * GROUPS + GROUP).reshape([ROWS, WIDTH])
            kept = gl.zeros((ROWS, KEYS), results.dtype, WEIGHTS)
            for step in range(steps):
                slot = count % STAGES
                before = gl.maximum(count - 1, 0)
                mbarrier.wait(keys_full.index(slot), (count // STAGES) & 1)
                if TURNS:
                    mbarrier.wait(starts.index(GROUP), (started & 1) ^ (GROUP == 0))
                    started += 1
                key = keys.index(slot).reshape([KEYS, WIDTH]).permute((1, 0))
                scores = warpgroup_mma(own, key, none, use_acc=False, is_async=True)
                # In the first step there are no weights yet: what comes of that product is dropped by the next one.
                mbarrier.wait(values_full.index(before % STAGES), (before // STAGES) & 1, pred=step > 0)
                value = values.index(before % STAGES).reshape([KEYS, OUT])
                acc = warpgroup_mma(kept, value, acc, use_acc=step > 1, is_async=True)
                if TURNS:
                    mbarrier.arrive(starts.index((GROUP + 1) % GROUPS))
                scores = warpgroup_mma_wait(1, deps=(scores,))
                mbarrier.arrive(keys_empty.index(slot))
                first = (steps - 1 - step) * KEYS
                weights, most, total, shrink = weigh(
                    scores, most, total, rows, first, step < masked, size, scale, MASKS, CAUSAL, SCORES
                )
                acc, kept = warpgroup_mma_wait(0, deps=(acc, kept))
                mbarrier.arrive(values_empty.index(before % STAGES), pred=step > 0)
                acc = acc * gl.convert_layout(shrink, gl.SliceLayout(1, SUMS))[:, None]
                kept = gl.convert_layout(weights.to(results.dtype), WEIGHTS)
                count += 1
            mbarrier.arrive(queries_empty.index(tiles % OWN))
            tiles += 1
            before = count - 1
            mbarrier.wait(values_full.index(before % STAGES), (before // STAGES) & 1)
            value = values.index(before % STAGES).reshape([KEYS, OUT])
            acc = warpgroup_mma(kept, value, acc, use_acc=steps > 1, is_async=True)
            acc = warpgroup_mma_wait(0, deps=(acc,))
            mbarrier.arrive(values_empty.index(before % STAGES))
            acc = acc * gl.convert_layout(1.0 / total, gl.SliceLayout(1, SUMS))[:, None]
            tma.store_wait(0)
            results.index(GROUP).reshape([ROWS, OUT]).store(acc.to(results.dtype))
            fence_async_shared()
            at = [number // heads, number % heads, start, 0]
            store_block(all_results, at, results.index(GROUP))
            logarithm = most * (scale * 0.6931471805599453) + gl.log(total)
            gl.store(statistics + number * length + rows, logarithm, rows < length)
    tma.store_wait(0)
"""


def forward(filled: Filled, shape: Shape) -> Source | None:
    """The kernel of a call; None where the plain one has to do, or is as fast: few queries, other widths, masks."""
    width = widest(filled, shape)
    if width not in WAYS:
        return None
    found = _Forward(filled, shape, width)
    return found.source() if found.tiles >= found.least * gpu_target().sms and found.length >= 2 * GROUP else None


class _Forward(Turned):
    """The kernel of one call, all sizes known."""

    def __init__(self, filled: Filled, shape: Shape, width: int) -> None:
        length = shape.length.static or 0
        few = bool(filled.attributes["causal"]) and width == min(WAYS) and length <= SHORT
        way = FEW if few else WAYS[width]
        self.groups, self.keys, self.stages, self.own, self.registers, self.alternate, self.least = way
        super().__init__(filled, shape, shape.heads, length, GROUP * self.groups)

    def source(self) -> Source:
        """The source."""
        passing = [(name, self.keys, self.stages) for name in ("key", "value")]
        parts = [("query", GROUP, OWN * self.groups), *passing, ("out", GROUP, self.groups)]
        lines = [line for name, *part in parts for line in described(self.filled.tensors[name], name, *part)]
        return self.written(ATTEND, [*lines, *self._barriers(), *self._sizes(), *self._start()], self.registers)

    def _barriers(self) -> list[str]:
        stages, groups = self.stages, self.groups
        return [
            f"queries_full, queries_empty = barriers({OWN}, 1), barriers({OWN}, {groups})",
            f"keys_full, keys_empty = barriers({stages}, 1), barriers({stages}, {groups})",
            f"values_full, values_empty = barriers({stages}, 1), barriers({stages}, {groups})",
            f"starts = barriers({groups}, 1)",
            "bars = queries_full, queries_empty, keys_full, keys_empty, values_full, values_empty, starts",
            "fence_async_shared()",
        ]

    def _sizes(self) -> list[str]:
        statistics = self.filled.tensors["logsumexp"]
        return [
            "memory = query, key, value, out",
            f"sizes = {self.size}, {self.blocks}, {self.units}, {self.turns}, {self.heads}, {self.shape.share}",
            "inputs = all_query, all_key, all_value",
            f"outputs = all_out, {statistics.name}",
        ]

    def _start(self) -> list[str]:
        """Every group and the warp that reads, side by side."""
        scale = float(self.filled.attributes["scale"]) * LOG2E
        how = f"{self.causal}, {self.paired}"
        rest = f"{how}, {self.causal or self.size % self.keys != 0}, {self.alternate}"
        given = f"outputs, memory, bars, sizes, {self.length}, {scale}"
        groups = [f"(attend, ({given}, {group}, {rest}))" for group in range(self.groups)]
        return side_by_side(groups, f"(read, (inputs, memory, bars, sizes, {how}))", self.own)
