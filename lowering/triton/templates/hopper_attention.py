"""Warp-specialized attention for Hopper, in Gluon: a producer warp loads by TMA, consumer warp groups multiply.

Each consumer warp group has 64 queries. It computes the scores of one key block while the weights of the key block
before are multiplied by their values, so that tensor cores do not wait for exponentials. The kernel is persistent:
the producer loads the next block of queries meanwhile. With `causal` a light block follows each heavy one.
"""

from __future__ import annotations

from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.templates.attention_writer import LOG2E, AttentionShape
from oneflow.lowering.triton.templates.outline_templates import TemplateInstance
from oneflow.lowering.triton.templates.persistent_attention import PersistentAttention, block_width, descriptor_lines
from oneflow.lowering.triton.templates.warp_specialization import WARP_GROUP_ROWS, warp_specialize

ATTENTION_SOURCE = """

@gluon.jit
def read(inputs, memory, bars, sizes, CAUSAL: gl.constexpr, PAIRS: gl.constexpr):
    # The producer warp: loads the queries of each tile, then its keys and values, the last ones first.
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
    # One step of online softmax: the weights of a block of scores, the new running maximum and sum of each row, and
    # the factor that rescales earlier sums.
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
    # A consumer warp group: the results of its queries in each tile.
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
                # The first step has no weights yet: the next step discards the accumulator of this product.
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


def forward(instance: TemplateInstance, shape: AttentionShape) -> Source | None:
    """The kernel of a call; None where only the plain kernel fits (masks, widths) or is as fast (few queries)."""
    width = block_width(instance, shape)
    if width not in gpu_target().kernels.attention.forward:
        return None
    kernel = _Forward(instance, shape, width)
    is_large = kernel.tiles >= kernel.config.min_tiles_per_sm * gpu_target().sms
    return kernel.source() if is_large and kernel.query_length >= 2 * WARP_GROUP_ROWS else None


class _Forward(PersistentAttention):
    """The forward kernel of one call, whose sizes are all known."""

    def __init__(self, instance: TemplateInstance, shape: AttentionShape, width: int) -> None:
        length = shape.query_length.static or 0
        self.parameters = gpu_target().kernels.attention
        is_causal, narrowest = bool(instance.attributes["causal"]), min(self.parameters.forward)
        is_short = is_causal and width == narrowest and length <= self.parameters.max_causal_short
        self.config = self.parameters.causal_short if is_short else self.parameters.forward[width]
        super().__init__(instance, shape, shape.heads, length, WARP_GROUP_ROWS * self.config.consumer_groups)

    def source(self) -> Source:
        """The source."""
        config, groups = self.config, self.config.consumer_groups
        streamed = [(name, config.key_block, config.stages) for name in ("key", "value")]
        queries = self.parameters.query_buffers * groups
        blocks = [("query", WARP_GROUP_ROWS, queries), *streamed, ("out", WARP_GROUP_ROWS, groups)]
        tensors = self.instance.tensors
        descriptors = [line for name, *block in blocks for line in descriptor_lines(tensors[name], name, *block)]
        lines = [*descriptors, *self._barriers(), *self._sizes(), *self._start()]
        return self.build_source(ATTENTION_SOURCE, lines, config.average_registers)

    def _barriers(self) -> list[str]:
        stages, groups, queries = self.config.stages, self.config.consumer_groups, self.parameters.query_buffers
        return [
            f"queries_full, queries_empty = barriers({queries}, 1), barriers({queries}, {groups})",
            f"keys_full, keys_empty = barriers({stages}, 1), barriers({stages}, {groups})",
            f"values_full, values_empty = barriers({stages}, 1), barriers({stages}, {groups})",
            f"starts = barriers({groups}, 1)",
            "bars = queries_full, queries_empty, keys_full, keys_empty, values_full, values_empty, starts",
            "fence_async_shared()",
        ]

    def _sizes(self) -> list[str]:
        statistics = self.instance.tensors["logsumexp"]
        schedule = (self.key_length, self.blocks, self.units, self.turns, self.heads, self.shape.heads_per_key)
        sizes = ", ".join(map(str, schedule))
        return [
            "memory = query, key, value, out",
            f"sizes = {sizes}",
            "inputs = all_query, all_key, all_value",
            f"outputs = all_out, {statistics.name}",
        ]

    def _start(self) -> list[str]:
        """Starts the consumer warp groups and the producer warp."""
        scale = float(self.instance.attributes["scale"]) * LOG2E
        causal = f"{self.causal}, {self.paired}"
        masked = self.causal or self.key_length % self.config.key_block != 0
        constants = f"{causal}, {masked}, {self.config.ping_pong}"
        arguments = f"outputs, memory, bars, sizes, {self.query_length}, {scale}"
        groups = range(self.config.consumer_groups)
        consumers = [f"(attend, ({arguments}, {group}, {constants}))" for group in groups]
        producer = f"(read, (inputs, memory, bars, sizes, {causal}))"
        return warp_specialize(consumers, producer, self.config.consumer_registers)
