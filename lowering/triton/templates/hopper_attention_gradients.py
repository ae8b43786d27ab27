"""Flash attention for Hopper, backward: warp-specialized kernels, their configurations, and the supported calls.

A producer warp loads by TMA; each consumer warp group has 64 keys, or 64 queries.

`_Gradients` defines the constants of the sources. A consumer warp group keeps ROWS keys and values, or queries and
gradients of results: the stationary rows `left` and `right`. The producer warp streams the other operands in blocks
of STEP rows, `streamed_left` and `streamed_right`. The stationary rows are the left operand of the scores, so that
weights and score gradients (`dscores`) are in registers in the layout of a left operand. The last product of a step
is issued by the next step, so that tensor cores are busy while score gradients are computed. Masked and unmasked
blocks have separate loops, so that no step tests for the mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oneflow.lowering.targets.gpu_parameters import WarpSpecializedAttentionGradient
from oneflow.lowering.targets.instructions import TMA, WGMMA
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.kernel import TYPES
from oneflow.lowering.triton.source import Source, TensorDescriptor
from oneflow.lowering.triton.templates.attention_writer import LOG2E, AttentionShape
from oneflow.lowering.triton.templates.outline_templates import TemplateInstance
from oneflow.lowering.triton.templates.persistent_attention import (
    PersistentAttention,
    block_width,
    descriptor_lines,
    padded_width,
)
from oneflow.lowering.triton.templates.warp_specialization import warp_specialize

#: The layout of a product's accumulators, by its columns.
ACCUMULATOR_LAYOUT = "gl.NVMMADistributedLayout([3, 0], [4, 1], [16, {}, 16])"

HEAD = """

@gluon.jit
def tile_of_iteration(iteration):
    # The tile of an iteration of a program: its block, batch and head (of keys with BY_KEY), and whether it is valid.
    block, number, is_valid = scheduled_tile(iteration, BLOCKS, WORK_ITEMS, CAUSAL, PAIRED)
    if BY_KEY and CAUSAL:
        block = BLOCKS - 1 - block  # the first keys have most work
    return block, number // HEADS, number % HEADS, is_valid


@gluon.jit
def streamed_blocks(block):
    # The first streamed block, how many blocks are streamed, and how many of the first of these need a mask.
    if BY_KEY:
        first_block = 0
        masked = 0
        if CAUSAL:
            first_block = block * (GROUPS * ROWS) // STEP
            masked = gl.minimum(gl.cdiv((block + 1) * (GROUPS * ROWS), STEP), gl.cdiv(LENGTH, STEP)) - first_block
        steps = gl.cdiv(LENGTH, STEP) - first_block
        if LENGTH % STEP != 0:
            masked = steps
        return first_block, steps, masked
    else:
        steps, masked = key_block_counts(block, SIZE, GROUPS * ROWS, STEP, CAUSAL)
        return 0, steps, masked


@gluon.jit
def first_row_of_step(step, first_block, steps):
    # The first row of a step's block: blocks on the diagonal come first.
    if BY_KEY:
        return (first_block + step) * STEP
    else:
        return (steps - 1 - step) * STEP


@gluon.jit
def producer(inputs, buffers, statistics, mbarriers):
    # The producer warp: loads the stationary rows of each tile, then its streamed blocks.
    all_left, all_right, all_streamed_left, all_streamed_right, all_logsumexps, all_deltas = inputs
    left, right, streamed_left, streamed_right = buffers
    logsumexps, deltas = statistics
    stationary_full, stationary_empty, full, empty, order = mbarriers
    count = 0
    tiles = 0
    for iteration in range(ITERATIONS):
        block, batch, head, is_valid = tile_of_iteration(iteration)
        if is_valid:
            stage = tiles % STATIONARY_STAGES
            mbarrier.wait(stationary_empty.index(stage), ((tiles // STATIONARY_STAGES) & 1) ^ 1)
            bar = stationary_full.index(stage)
            mbarrier.expect(bar, GROUPS * ROWS * ROW_BYTES)
            for group in gl.static_range(GROUPS):
                coordinates = [batch, head, (block * GROUPS + group) * ROWS, 0]
                load_block(all_left, coordinates, bar, left.index(stage * GROUPS + group))
                load_block(all_right, coordinates, bar, right.index(stage * GROUPS + group))
            tiles += 1
            first_block, steps, masked = streamed_blocks(block)
            for streamed_step in range(steps * STREAMED_HEADS):
                row = first_row_of_step(streamed_step % steps, first_block, steps)
                streamed_head = head * STREAMED_HEADS + streamed_step // steps if BY_KEY else head // HEADS_PER_KEY
                stage = count % STAGES
                mbarrier.wait(empty.index(stage), ((count // STAGES) & 1) ^ 1)
                bar = full.index(stage)
                mbarrier.expect(bar, STEP * (ROW_BYTES + 8 if TMA_STATISTICS else ROW_BYTES))
                load_block(all_streamed_left, [batch, streamed_head, row, 0], bar, streamed_left.index(stage))
                load_block(all_streamed_right, [batch, streamed_head, row, 0], bar, streamed_right.index(stage))
                if TMA_STATISTICS:
                    statistics_row = (batch * (HEADS * STREAMED_HEADS) + streamed_head) * LENGTH + row
                    load_block(all_logsumexps, [statistics_row], bar, logsumexps.index(stage))
                    load_block(all_deltas, [statistics_row], bar, deltas.index(stage))
                count += 1


@gluon.jit
def store_partial_sums(pointer, acc, batch, head, start, size, width, LAYOUT: gl.constexpr):
    # Stores the sums over a warp group's rows, where some of the rows exist.
    rows = start + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    lanes = gl.arange(0, acc.shape[1], gl.SliceLayout(0, LAYOUT))
    column_sums = gl.sum(gl.where((rows < size)[:, None], acc, 0.0), 0)
    part = batch * ((size + (ROWS - 1)) // ROWS) + start // ROWS
    gl.store(pointer + (part * HEADS + head) * width + lanes, column_sums, (lanes < width) & (start < size))
"""

KEYS = """

@gluon.jit
def accumulate_dkey(dkey, dscores, streamed_left, count, streamed_step):
    # The score gradients of the step before times its queries. The first step has none: the next step discards the
    # accumulator.
    previous = streamed_left.index((count + (STAGES - 1)) % STAGES).reshape([STEP, WIDTH])
    return warpgroup_mma(dscores, previous, dkey, use_acc=streamed_step > 1, is_async=True)


@gluon.jit
def load_statistic(statistics, stage, statistics_row, row):
    # A statistic of each query of a block: from shared memory where it was copied, else from `statistics_row` on in
    # memory; 0 after the last query.
    if TMA_STATISTICS:
        return statistics.index(stage).load(gl.SliceLayout(0, SCORES))
    else:
        rows = row + gl.arange(0, STEP, gl.SliceLayout(0, SCORES))
        return gl.load(statistics + (statistics_row + rows), rows < LENGTH, 0.0)


@gluon.jit
def gradient_step(stationary, buffers, statistics, mbarriers, accumulators, dscores, count, streamed_step,
                  statistics_row, row, columns, MASKED: gl.constexpr):
    # A step: accumulates weights times gradients of results, and the score gradients of the step before times its
    # queries.
    key, value = stationary
    left, right, streamed_left, streamed_right = buffers
    logsumexps, deltas = statistics
    stationary_full, stationary_empty, full, empty, order = mbarriers
    dkey, dvalue = accumulators
    stage = count % STAGES
    previous_stage = (count + (STAGES - 1)) % STAGES
    zero_scores = gl.zeros((ROWS, STEP), gl.float32, SCORES)
    if not TMA_STATISTICS:  # loaded while tensor cores multiply
        logsumexp = load_statistic(logsumexps, stage, statistics_row, row) * 1.4426950408889634
    if IN_REGISTERS:
        dkey = accumulate_dkey(dkey, dscores, streamed_left, count, streamed_step)
    mbarrier.wait(full.index(stage), (count // STAGES) & 1)
    query = streamed_left.index(stage).reshape([STEP, WIDTH])
    dy = streamed_right.index(stage).reshape([STEP, OUT])
    scores = warpgroup_mma(key, query.permute((1, 0)), zero_scores, use_acc=False, is_async=True)
    if not IN_REGISTERS:  # this product overlaps the exponentials
        dkey = accumulate_dkey(dkey, dscores, streamed_left, count, streamed_step)
    dweights = warpgroup_mma(value, dy.permute((1, 0)), zero_scores, use_acc=False, is_async=True)
    if IN_REGISTERS:
        scores, dkey, dscores = warpgroup_mma_wait(1, deps=(scores, dkey, dscores))
        mbarrier.arrive(empty.index(previous_stage), pred=streamed_step > 0)
    else:
        scores = warpgroup_mma_wait(2, deps=(scores,))
    if TMA_STATISTICS:
        logsumexp = load_statistic(logsumexps, stage, statistics_row, row) * 1.4426950408889634
    weights = gl.exp2(scores * SCALE - logsumexp[None, :])
    if not TMA_STATISTICS:
        delta = load_statistic(deltas, stage, statistics_row, row)
    if MASKED:
        rows = row + gl.arange(0, STEP, gl.SliceLayout(0, SCORES))
        if LENGTH % STEP != 0:
            weights = gl.where((rows < LENGTH)[None, :], weights, 0.0)
        if CAUSAL:
            weights = gl.where(columns[:, None] <= rows[None, :], weights, 0.0)
    weights_operand = gl.convert_layout(weights.to(DTYPE), WEIGHTS)
    if not IN_REGISTERS:
        dkey, dscores, weights, weights_operand = warpgroup_mma_wait(
            1, deps=(dkey, dscores, weights, weights_operand)
        )
        mbarrier.arrive(empty.index(previous_stage), pred=streamed_step > 0)
    dvalue = warpgroup_mma(weights_operand, dy, dvalue, use_acc=streamed_step > 0, is_async=True)
    if IN_REGISTERS:
        dweights = warpgroup_mma_wait(1, deps=(dweights,))
    else:
        dweights, weights = warpgroup_mma_wait(1, deps=(dweights, weights))
    if TMA_STATISTICS:
        delta = load_statistic(deltas, stage, statistics_row, row)
    dscores = gl.convert_layout((weights * (dweights - delta[None, :])).to(DTYPE), DSCORES)
    if IN_REGISTERS:
        dvalue, weights_operand = warpgroup_mma_wait(0, deps=(dvalue, weights_operand))
    else:
        dvalue, weights_operand, dscores = warpgroup_mma_wait(0, deps=(dvalue, weights_operand, dscores))
    return (dkey, dvalue), dscores


@gluon.jit
def consumer(outputs, buffers, statistics, mbarriers, GROUP: gl.constexpr):
    # A consumer warp group: the gradients of its keys and values in each tile.
    all_dkey, all_dvalue, dkey_sums, dvalue_sums, dkeys, dvalues = outputs
    left, right, streamed_left, streamed_right = buffers
    stationary_full, stationary_empty, full, empty, order = mbarriers
    count = 0
    tiles = 0
    for iteration in range(ITERATIONS):
        block, batch, head, is_valid = tile_of_iteration(iteration)
        if is_valid:
            start = (block * GROUPS + GROUP) * ROWS
            columns = start + gl.arange(0, ROWS, gl.SliceLayout(1, SCORES))
            stationary_stage = tiles % STATIONARY_STAGES
            mbarrier.wait(stationary_full.index(stationary_stage), (tiles // STATIONARY_STAGES) & 1)
            key = left.index(stationary_stage * GROUPS + GROUP).reshape([ROWS, WIDTH])
            value = right.index(stationary_stage * GROUPS + GROUP).reshape([ROWS, OUT])
            if IN_REGISTERS:
                key = key.load(gl.DotOperandLayout(0, SCORES, 2))
                value = value.load(gl.DotOperandLayout(0, SCORES, 2))
            stationary = key, value
            first_block, steps, masked = streamed_blocks(block)
            accumulators = gl.zeros((ROWS, WIDTH), gl.float32, LEFT), gl.zeros((ROWS, OUT), gl.float32, RIGHT)
            dscores = gl.zeros((ROWS, STEP), DTYPE, DSCORES)
            begin = count
            for shared_head in range(STREAMED_HEADS):
                statistics_row = (batch * (HEADS * STREAMED_HEADS) + head * STREAMED_HEADS + shared_head) * LENGTH
                if HAS_MASK:
                    for step in range(masked):
                        row = first_row_of_step(step, first_block, steps)
                        accumulators, dscores = gradient_step(
                            stationary, buffers, statistics, mbarriers, accumulators, dscores, count, count - begin,
                            statistics_row, row, columns, True
                        )
                        count += 1
                for step in range(masked, steps):
                    accumulators, dscores = gradient_step(
                        stationary, buffers, statistics, mbarriers, accumulators, dscores, count, count - begin,
                        statistics_row, 0, columns, False
                    )
                    count += 1
            mbarrier.arrive(stationary_empty.index(stationary_stage))
            dkey, dvalue = accumulators
            dkey = accumulate_dkey(dkey, dscores, streamed_left, count, steps * STREAMED_HEADS)
            dkey, dscores = warpgroup_mma_wait(0, deps=(dkey, dscores))
            mbarrier.arrive(empty.index((count + (STAGES - 1)) % STAGES))
            dkey = dkey * GRADIENT_SCALE
            tma.store_wait(0)
            dkeys.index(GROUP).reshape([ROWS, WIDTH]).store(dkey.to(DTYPE))
            dvalues.index(GROUP).reshape([ROWS, OUT]).store(dvalue.to(DTYPE))
            fence_async_shared()
            store_block(all_dkey, [batch, head, start, 0], dkeys.index(GROUP))
            store_block(all_dvalue, [batch, head, start, 0], dvalues.index(GROUP))
            if LEFT_SUMS > 0:
                store_partial_sums(dkey_sums, dkey, batch, head, start, SIZE, LEFT_SUMS, LEFT)
            if RIGHT_SUMS > 0:
                store_partial_sums(dvalue_sums, dvalue, batch, head, start, SIZE, RIGHT_SUMS, RIGHT)
            tiles += 1
    tma.store_wait(0)
"""

QUERIES = """

@gluon.jit
def gradient_step(stationary, buffers, mbarriers, acc, dscores, count, row, row_statistics, GROUP: gl.constexpr,
                  FIRST: gl.constexpr, MASKED: gl.constexpr):
    # A step: accumulates the score gradients of the step before times its keys, and computes its own score gradients.
    query, dy = stationary
    left, right, streamed_left, streamed_right = buffers
    stationary_full, stationary_empty, full, empty, order = mbarriers
    rows, logsumexp, delta = row_statistics
    stage = count % STAGES
    previous_stage = (count + (STAGES - 1)) % STAGES
    zero_scores = gl.zeros((ROWS, STEP), gl.float32, SCORES)
    mbarrier.wait(full.index(stage), (count // STAGES) & 1)
    if PING_PONG:
        mbarrier.wait(order.index(GROUP), (count & 1) ^ (GROUP == 0))
    key = streamed_left.index(stage).reshape([STEP, WIDTH])
    value = streamed_right.index(stage).reshape([STEP, OUT])
    scores = warpgroup_mma(query, key.permute((1, 0)), zero_scores, use_acc=False, is_async=True)
    dweights = warpgroup_mma(dy, value.permute((1, 0)), zero_scores, use_acc=False, is_async=True)
    if not FIRST:
        acc = warpgroup_mma(dscores, streamed_left.index(previous_stage).reshape([STEP, WIDTH]), acc, is_async=True)
    if PING_PONG:
        mbarrier.arrive(order.index((GROUP + 1) % GROUPS))
    scores = warpgroup_mma_wait(1 if FIRST else 2, deps=(scores,))
    weights = gl.exp2(scores * SCALE - logsumexp[:, None])
    if MASKED:
        columns = row + gl.arange(0, STEP, gl.SliceLayout(0, SCORES))
        if CAUSAL:
            weights = gl.where(columns[None, :] <= gl.minimum(rows, SIZE - 1)[:, None], weights, 0.0)
        else:
            weights = gl.where((columns < SIZE)[None, :], weights, 0.0)
    dweights, weights = warpgroup_mma_wait(0 if FIRST else 1, deps=(dweights, weights))
    new_dscores = gl.convert_layout((weights * (dweights - delta[:, None])).to(DTYPE), DSCORES)
    if not FIRST:
        acc, dscores, new_dscores = warpgroup_mma_wait(0, deps=(acc, dscores, new_dscores))
        mbarrier.arrive(empty.index(previous_stage))
    return acc, new_dscores


@gluon.jit
def consumer(outputs, buffers, statistics, mbarriers, GROUP: gl.constexpr):
    # A consumer warp group: the gradients of its queries in each tile.
    all_dquery, dquery_sums = outputs
    left, right, streamed_left, streamed_right = buffers
    logsumexps, deltas = statistics
    stationary_full, stationary_empty, full, empty, order = mbarriers
    count = 0
    tiles = 0
    for iteration in range(ITERATIONS):
        block, batch, head, is_valid = tile_of_iteration(iteration)
        if is_valid:
            start = (block * GROUPS + GROUP) * ROWS
            rows = start + gl.arange(0, ROWS, gl.SliceLayout(1, SCORES))
            statistics_row = (batch * HEADS + head) * LENGTH + rows
            logsumexp = gl.load(logsumexps + statistics_row, rows < LENGTH, 0.0) * 1.4426950408889634
            row_statistics = rows, logsumexp, gl.load(deltas + statistics_row, rows < LENGTH, 0.0)
            stationary_stage = tiles % STATIONARY_STAGES
            mbarrier.wait(stationary_full.index(stationary_stage), (tiles // STATIONARY_STAGES) & 1)
            query_buffer = left.index(stationary_stage * GROUPS + GROUP)
            dy_buffer = right.index(stationary_stage * GROUPS + GROUP)
            stationary = query_buffer.reshape([ROWS, WIDTH]), dy_buffer.reshape([ROWS, OUT])
            first_block, steps, masked = streamed_blocks(block)
            acc = gl.zeros((ROWS, WIDTH), gl.float32, LEFT)
            dscores = gl.zeros((ROWS, STEP), DTYPE, DSCORES)
            row = first_row_of_step(0, first_block, steps)
            acc, dscores = gradient_step(
                stationary, buffers, mbarriers, acc, dscores, count, row, row_statistics, GROUP, True, HAS_MASK
            )
            count += 1
            if HAS_MASK:
                for step in range(1, masked):
                    row = first_row_of_step(step, first_block, steps)
                    acc, dscores = gradient_step(
                        stationary, buffers, mbarriers, acc, dscores, count, row, row_statistics, GROUP, False, True
                    )
                    count += 1
            for step in range(gl.maximum(masked, 1), steps):
                acc, dscores = gradient_step(
                    stationary, buffers, mbarriers, acc, dscores, count, 0, row_statistics, GROUP, False, False
                )
                count += 1
            previous_stage = (count + (STAGES - 1)) % STAGES
            acc = warpgroup_mma(
                dscores, streamed_left.index(previous_stage).reshape([STEP, WIDTH]), acc, is_async=True
            )
            acc, dscores = warpgroup_mma_wait(0, deps=(acc, dscores))
            mbarrier.arrive(empty.index(previous_stage))
            acc = acc * GRADIENT_SCALE
            query_buffer.reshape([ROWS, WIDTH]).store(acc.to(DTYPE))
            fence_async_shared()
            store_block(all_dquery, [batch, head, start, 0], query_buffer)
            if LEFT_SUMS > 0:
                store_partial_sums(dquery_sums, acc, batch, head, start, LENGTH, LEFT_SUMS, LEFT)
            tma.store_wait(0)
            mbarrier.arrive(stationary_empty.index(stationary_stage))
            tiles += 1
"""


@dataclass(frozen=True)
class Side:
    """One of the two kernels.

    Attributes:
        stationary: the operands whose rows a consumer warp group keeps.
        streamed: the operands whose blocks the producer warp streams.
        results: the gradients.
        functions: the text of the kernel's functions.
    """

    stationary: tuple[str, str]
    streamed: tuple[str, str]
    results: tuple[str, ...]
    functions: str


KEY_SIDE = Side(("key", "value"), ("query", "dy"), ("dkey", "dvalue"), KEYS)
QUERY_SIDE = Side(("query", "dy"), ("key", "value"), ("dquery",), QUERIES)
#: The statistics: one f32 for each query.
STATISTICS = ("logsumexp", "delta")
#: The alignment of a TMA copy in elements of f32.
ALIGNMENT = TMA.alignment_bytes // 4


def gradients(instance: TemplateInstance, shape: AttentionShape, side: Side) -> Source | None:
    """The kernel of a call; None where only the plain kernel fits, or fills more SMs with its smaller blocks."""
    width = block_width(instance, shape)
    if width not in _configurations(side):
        return None
    kernel = _Gradients(instance, shape, side, width)
    has_unused_keys = kernel.by_key and kernel.causal and kernel.key_length > kernel.query_length
    # Statistics that are not copied by TMA take registers.
    spills = kernel.by_key and not (kernel.copies_statistics or kernel.config.in_registers)
    shortest = min(kernel.query_length, kernel.key_length)
    enough = kernel.parameters.min_gradient_tiles_per_sm * gpu_target().sms
    is_small = kernel.tiles < enough or shortest < kernel.groups * WGMMA.rows
    return None if has_unused_keys or spills or is_small else kernel.source()


def _configurations(side: Side) -> Mapping[int, WarpSpecializedAttentionGradient]:
    """The configurations of one of the two kernels, by the width of a block of heads."""
    parameters = gpu_target().kernels.attention
    return parameters.key_gradients if side is KEY_SIDE else parameters.query_gradients


class _Gradients(PersistentAttention):
    """A backward kernel of one call of static sizes."""

    def __init__(self, instance: TemplateInstance, shape: AttentionShape, side: Side, width: int) -> None:
        self.side, self.by_key = side, side is KEY_SIDE
        self.parameters, self.config = gpu_target().kernels.attention, _configurations(side)[width]
        self.groups = self.parameters.gradient_groups
        heads, rows = (shape.key_heads, shape.key_length) if self.by_key else (shape.heads, shape.query_length)
        super().__init__(instance, shape, heads, rows.static or 0, self.groups * WGMMA.rows)

    @property
    def copies_statistics(self) -> bool:
        """Whether the producer copies the statistics of queries by TMA: the statistics of each head are aligned."""
        return self.by_key and self.query_length % ALIGNMENT == 0

    def source(self) -> Source:
        """The source."""
        constants = "".join(f"{name} = gl.constexpr({value})\n" for name, value in self._constants())
        functions = f"\n\n{constants}{HEAD}{self.side.functions}"
        registers = self.parameters.gradient_average_registers
        return self.build_source(functions, [*self._tensors(), *self._start()], registers)

    def _constants(self) -> Iterator[tuple[str, object]]:
        """The names and values of the constants that the kernel's functions use."""
        share, scale = self.shape.heads_per_key, float(self.instance.attributes["scale"])
        streamed, step = self.query_length if self.by_key else self.key_length, self.config.step
        yield from {
            "BY_KEY": self.by_key, "TMA_STATISTICS": self.copies_statistics,
            "CAUSAL": self.causal, "PAIRED": self.paired, "IN_REGISTERS": self.config.in_registers,
            "HAS_MASK": self.causal or streamed % step != 0, "PING_PONG": step > WGMMA.rows and not self.causal,
            "GROUPS": self.groups, "ROWS": WGMMA.rows,
            "STATIONARY_STAGES": self.config.stationary_buffers, "STEP": step,
            "STAGES": self.config.stages, "LENGTH": self.query_length, "SIZE": self.key_length,
            "BLOCKS": self.blocks, "WORK_ITEMS": self.work_items, "ITERATIONS": self.iterations,
            "HEADS": self.heads, "HEADS_PER_KEY": share, "STREAMED_HEADS": share if self.by_key else 1,
            "SCALE": scale * LOG2E, "GRADIENT_SCALE": scale,
        }.items()  # fmt: skip
        yield from self._layouts()
        tensors = self.instance.tensors
        for side, name in zip(("LEFT", "RIGHT"), self.side.results, strict=False):
            yield f"{side}_SUMS", tensors[name].shape[3] if f"{name}_sums" in tensors else 0

    def _layouts(self) -> Iterator[tuple[str, object]]:
        """The widths of blocks, and the layouts of accumulators and of operands in registers."""
        width, out = padded_width(self.shape.width), padded_width(self.shape.value_width)
        yield from {"WIDTH": width, "OUT": out, "ROW_BYTES": 2 * (width + out)}.items()
        yield from (("DTYPE", f"gl.{TYPES[self.instance.tensors['query'].element]}"),)
        for name, columns in (("SCORES", self.config.step), ("LEFT", width), ("RIGHT", out)):
            yield name, ACCUMULATOR_LAYOUT.format(columns)
        for name, columns in (("WEIGHTS", out), ("DSCORES", width)):
            yield name, f"gl.DotOperandLayout(0, {ACCUMULATOR_LAYOUT.format(columns)}, 2)"

    def _tensors(self) -> Iterator[str | TensorDescriptor]:
        """TMA descriptors of the tensors, and their shared-memory buffers."""
        tensors, config = self.instance.tensors, self.config
        for name in self.side.stationary:
            buffers = config.stationary_buffers * self.groups
            yield from descriptor_lines(tensors[name], name, WGMMA.rows, buffers)
        for name in self.side.streamed:
            yield from descriptor_lines(tensors[name], name, config.step, config.stages)
        for name in self.side.results:
            yield from descriptor_lines(tensors[name], name, WGMMA.rows, self.groups if self.by_key else 0)
        for name in STATISTICS if self.copies_statistics else ():
            yield from self._statistics(name)

    def _statistics(self, name: str) -> list[str]:
        """The TMA descriptor of a statistic, flattened over the heads, and its shared-memory buffers."""
        tensor, stages, step = self.instance.tensors[name], self.config.stages, self.config.step
        return [
            f"{name}_layout: gl.constexpr = gl.NVMMASharedLayout(0, 32, 1)",
            f"all_{name} = tma.make_tensor_descriptor(",
            f"    {tensor.pointer}, [{tensor.count}], [1], [{self.config.step}], {name}_layout",
            ")",
            f"{name} = gl.allocate_shared_memory(gl.float32, [{stages}, {step}], {name}_layout)",
        ]

    def _start(self) -> list[str]:
        """Allocates barriers, and starts the consumer warp groups and the producer warp."""
        tensors, results = self.instance.tensors, self.side.results
        sums = [tensors[f"{name}_sums"].name if f"{name}_sums" in tensors else "0" for name in results]
        result_buffers = results if self.by_key else ()
        blocks = [*self.side.stationary, *self.side.streamed]
        statistics = list(STATISTICS) if self.copies_statistics else [tensors[name].name for name in STATISTICS]
        copied = [f"all_{name}" if self.copies_statistics else "0" for name in STATISTICS]
        inputs = [*(f"all_{name}" for name in blocks), *copied]
        stationary, stages = self.config.stationary_buffers, self.config.stages
        return [
            f"stationary_full, stationary_empty = barriers({stationary}, 1), barriers({stationary}, {self.groups})",
            f"full, empty = barriers({stages}, 1), barriers({stages}, {self.groups})",
            f"mbarriers = stationary_full, stationary_empty, full, empty, barriers({self.groups}, 1)",
            "fence_async_shared()",
            f"buffers = {', '.join(blocks)}",
            f"statistics = {', '.join(statistics)}",
            f"inputs = {', '.join(inputs)}",
            f"outputs = {', '.join([*(f'all_{name}' for name in results), *sums, *result_buffers])}",
            *warp_specialize(
                [f"(consumer, (outputs, buffers, statistics, mbarriers, {group}))" for group in range(self.groups)],
                "(producer, (inputs, buffers, statistics, mbarriers))", self.parameters.gradient_registers,
            ),
        ]  # fmt: skip
