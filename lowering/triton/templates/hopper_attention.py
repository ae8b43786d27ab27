"""Flash attention for Hopper, warp-specialized: a producer warp loads by TMA, consumer warp groups multiply.

Each consumer warp group has 64 queries. The group computes the scores of one key block while the weights of the key
block before are multiplied by their values, so that tensor cores do not wait for exponentials. The kernel is
persistent: the producer loads the next block of queries meanwhile. With `causal` a light block follows each heavy
one.
"""

from __future__ import annotations

from oneflow.lowering.targets.instructions import WGMMA
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.templates.attention_writer import LOG2E, AttentionShape
from oneflow.lowering.triton.templates.outline_templates import TemplateInstance
from oneflow.lowering.triton.templates.persistent_attention import PersistentAttention, block_width, descriptor_lines
from oneflow.lowering.triton.templates.warp_specialization import warp_specialize

ATTENTION_SOURCE = """

@gluon.jit
def producer(inputs, buffers, mbarriers, sizes, CAUSAL: gl.constexpr, PAIRED: gl.constexpr):
    # The producer warp: loads the queries of each tile, then its keys and values, the last ones first.
    all_queries, all_keys, all_values = inputs
    queries, keys, values, results = buffers
    queries_full, queries_empty, keys_full, keys_empty, values_full, values_empty, _ = mbarriers
    size, blocks, work_items, iterations, heads, heads_per_key = sizes
    GROUPS: gl.constexpr = results.type.shape[0]
    QUERY_STAGES: gl.constexpr = queries.type.shape[0] // GROUPS
    ROWS: gl.constexpr = queries.type.shape[3]
    WIDTH: gl.constexpr = queries.type.shape[4]
    STAGES: gl.constexpr = keys.type.shape[0]
    KEYS: gl.constexpr = keys.type.shape[3]
    QUERY_BYTES: gl.constexpr = 2 * GROUPS * ROWS * WIDTH
    KEY_BYTES: gl.constexpr = 2 * KEYS * WIDTH
    VALUE_BYTES: gl.constexpr = 2 * KEYS * values.type.shape[4]
    count = 0
    tiles = 0
    for iteration in range(iterations):
        block, number, is_valid = scheduled_tile(iteration, blocks, work_items, CAUSAL, PAIRED)
        if is_valid:
            batch = number // heads
            head = number % heads
            stage = tiles % QUERY_STAGES
            mbarrier.wait(queries_empty.index(stage), ((tiles // QUERY_STAGES) & 1) ^ 1)
            full = queries_full.index(stage)
            mbarrier.expect(full, QUERY_BYTES)
            for group in gl.static_range(GROUPS):
                coordinates = [batch, head, (block * GROUPS + group) * ROWS, 0]
                load_block(all_queries, coordinates, full, queries.index(stage * GROUPS + group))
            tiles += 1
            steps, masked = key_block_counts(block, size, GROUPS * ROWS, KEYS, CAUSAL)
            for step in range(steps):
                row = (steps - 1 - step) * KEYS
                stage = count % STAGES
                phase = (count // STAGES) & 1
                mbarrier.wait(keys_empty.index(stage), phase ^ 1)
                full = keys_full.index(stage)
                mbarrier.expect(full, KEY_BYTES)
                load_block(all_keys, [batch, head // heads_per_key, row, 0], full, keys.index(stage))
                mbarrier.wait(values_empty.index(stage), phase ^ 1)
                full = values_full.index(stage)
                mbarrier.expect(full, VALUE_BYTES)
                load_block(all_values, [batch, head // heads_per_key, row, 0], full, values.index(stage))
                count += 1


@gluon.jit
def softmax_step(scores, row_max, row_sum, rows, first_key, masked, size, scale, HAS_MASK: gl.constexpr,
                 CAUSAL: gl.constexpr, LAYOUT: gl.constexpr):
    # One step of online softmax: the weights of a block of scores, the new running maximum and sum of each row, and
    # the factor that rescales earlier sums.
    if HAS_MASK:
        if masked:
            columns = (first_key + gl.arange(0, scores.shape[1], gl.SliceLayout(0, LAYOUT)))[None, :]
            is_visible = columns < size
            if CAUSAL:
                is_visible = is_visible & (columns <= rows[:, None])
            scores = gl.where(is_visible, scores, float("-inf"))
    new_max = gl.maximum(row_max, gl.max(scores, 1))
    base = new_max * scale
    if HAS_MASK:
        base = gl.where(new_max == float("-inf"), 0.0, base)
    weights = gl.exp2(scores * scale - base[:, None])
    rescale = gl.exp2(row_max * scale - base)
    return weights, new_max, row_sum * rescale + gl.sum(weights, 1), rescale


@gluon.jit
def consumer(outputs, buffers, mbarriers, sizes, length, scale, GROUP: gl.constexpr, CAUSAL: gl.constexpr,
             PAIRED: gl.constexpr, HAS_MASK: gl.constexpr, PING_PONG: gl.constexpr):
    # A consumer warp group: the results of its queries in each tile.
    all_results, statistics = outputs
    queries, keys, values, results = buffers
    queries_full, queries_empty, keys_full, keys_empty, values_full, values_empty, order = mbarriers
    size, blocks, work_items, iterations, heads, heads_per_key = sizes
    GROUPS: gl.constexpr = results.type.shape[0]
    QUERY_STAGES: gl.constexpr = queries.type.shape[0] // GROUPS
    ROWS: gl.constexpr = queries.type.shape[3]
    WIDTH: gl.constexpr = queries.type.shape[4]
    STAGES: gl.constexpr = keys.type.shape[0]
    KEYS: gl.constexpr = keys.type.shape[3]
    OUT: gl.constexpr = values.type.shape[4]
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, OUT, 16])
    WEIGHTS: gl.constexpr = gl.DotOperandLayout(0, SUMS, 2)
    zero_scores = gl.zeros((ROWS, KEYS), gl.float32, SCORES)
    count = 0
    tiles = 0
    order_count = 0
    for iteration in range(iterations):
        block, number, is_valid = scheduled_tile(iteration, blocks, work_items, CAUSAL, PAIRED)
        if is_valid:
            start = (block * GROUPS + GROUP) * ROWS
            rows = start + gl.arange(0, ROWS, gl.SliceLayout(1, SCORES))
            steps, masked = key_block_counts(block, size, GROUPS * ROWS, KEYS, CAUSAL)
            row_max = gl.full((ROWS,), float("-inf"), gl.float32, gl.SliceLayout(1, SCORES))
            row_sum = gl.full((ROWS,), 0.0, gl.float32, gl.SliceLayout(1, SCORES))
            acc = gl.zeros((ROWS, OUT), gl.float32, SUMS)
            mbarrier.wait(queries_full.index(tiles % QUERY_STAGES), (tiles // QUERY_STAGES) & 1)
            query = queries.index(tiles % QUERY_STAGES * GROUPS + GROUP).reshape([ROWS, WIDTH])
            weights_operand = gl.zeros((ROWS, KEYS), results.dtype, WEIGHTS)
            for step in range(steps):
                stage = count % STAGES
                previous = gl.maximum(count - 1, 0)
                mbarrier.wait(keys_full.index(stage), (count // STAGES) & 1)
                if PING_PONG:
                    mbarrier.wait(order.index(GROUP), (order_count & 1) ^ (GROUP == 0))
                    order_count += 1
                key = keys.index(stage).reshape([KEYS, WIDTH]).permute((1, 0))
                scores = warpgroup_mma(query, key, zero_scores, use_acc=False, is_async=True)
                # The first step has no weights yet: the next step discards the accumulator of this product.
                mbarrier.wait(values_full.index(previous % STAGES), (previous // STAGES) & 1, pred=step > 0)
                value = values.index(previous % STAGES).reshape([KEYS, OUT])
                acc = warpgroup_mma(weights_operand, value, acc, use_acc=step > 1, is_async=True)
                if PING_PONG:
                    mbarrier.arrive(order.index((GROUP + 1) % GROUPS))
                scores = warpgroup_mma_wait(1, deps=(scores,))
                mbarrier.arrive(keys_empty.index(stage))
                first_key = (steps - 1 - step) * KEYS
                weights, row_max, row_sum, rescale = softmax_step(
                    scores, row_max, row_sum, rows, first_key, step < masked, size, scale, HAS_MASK, CAUSAL, SCORES
                )
                acc, weights_operand = warpgroup_mma_wait(0, deps=(acc, weights_operand))
                mbarrier.arrive(values_empty.index(previous % STAGES), pred=step > 0)
                acc = acc * gl.convert_layout(rescale, gl.SliceLayout(1, SUMS))[:, None]
                weights_operand = gl.convert_layout(weights.to(results.dtype), WEIGHTS)
                count += 1
            mbarrier.arrive(queries_empty.index(tiles % QUERY_STAGES))
            tiles += 1
            previous = count - 1
            mbarrier.wait(values_full.index(previous % STAGES), (previous // STAGES) & 1)
            value = values.index(previous % STAGES).reshape([KEYS, OUT])
            acc = warpgroup_mma(weights_operand, value, acc, use_acc=steps > 1, is_async=True)
            acc = warpgroup_mma_wait(0, deps=(acc,))
            mbarrier.arrive(values_empty.index(previous % STAGES))
            acc = acc * gl.convert_layout(1.0 / row_sum, gl.SliceLayout(1, SUMS))[:, None]
            tma.store_wait(0)
            results.index(GROUP).reshape([ROWS, OUT]).store(acc.to(results.dtype))
            fence_async_shared()
            coordinates = [number // heads, number % heads, start, 0]
            store_block(all_results, coordinates, results.index(GROUP))
            logsumexp = row_max * (scale * 0.6931471805599453) + gl.log(row_sum)
            gl.store(statistics + number * length + rows, logsumexp, rows < length)
    tma.store_wait(0)
"""


def forward(instance: TemplateInstance, shape: AttentionShape) -> Source | None:
    """The kernel of a call; None where only the plain kernel fits (masks, widths) or is as fast (few queries)."""
    width = block_width(instance, shape)
    if width not in gpu_target().kernels.attention.forward:
        return None
    kernel = _Forward(instance, shape, width)
    is_large = kernel.tiles >= kernel.config.min_tiles_per_sm * gpu_target().sms
    return kernel.source() if is_large and kernel.query_length >= 2 * WGMMA.rows else None


class _Forward(PersistentAttention):
    """The forward kernel of one call of static sizes."""

    def __init__(self, instance: TemplateInstance, shape: AttentionShape, width: int) -> None:
        length = shape.query_length.static or 0
        self.parameters = gpu_target().kernels.attention
        is_causal, narrowest = bool(instance.attributes["causal"]), min(self.parameters.forward)
        is_short = is_causal and width == narrowest and length <= self.parameters.max_causal_short
        self.config = self.parameters.causal_short if is_short else self.parameters.forward[width]
        super().__init__(instance, shape, shape.heads, length, WGMMA.rows * self.config.consumer_groups)

    def source(self) -> Source:
        """The source."""
        config, groups = self.config, self.config.consumer_groups
        streamed = [(name, config.key_block, config.stages) for name in ("key", "value")]
        queries = self.parameters.query_buffers * groups
        blocks = [("query", WGMMA.rows, queries), *streamed, ("out", WGMMA.rows, groups)]
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
            f"order = barriers({groups}, 1)",
            "mbarriers = queries_full, queries_empty, keys_full, keys_empty, values_full, values_empty, order",
            "fence_async_shared()",
        ]

    def _sizes(self) -> list[str]:
        statistics = self.instance.tensors["logsumexp"]
        schedule = self.blocks, self.work_items, self.iterations
        sizes = ", ".join(map(str, (self.key_length, *schedule, self.heads, self.shape.heads_per_key)))
        return [
            "buffers = query, key, value, out",
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
        arguments = f"outputs, buffers, mbarriers, sizes, {self.query_length}, {scale}"
        groups = range(self.config.consumer_groups)
        consumers = [f"(consumer, ({arguments}, {group}, {constants}))" for group in groups]
        producer = f"(producer, (inputs, buffers, mbarriers, sizes, {causal}))"
        return warp_specialize(consumers, producer, self.config.consumer_registers)
