"""The source of the backward kernels of attention for Hopper, in Gluon.

`hopper_attention_gradients` defines the constants. A consumer warp group keeps ROWS keys and values, or queries and
gradients of results: the stationary rows `left` and `right`. The producer warp streams the other operands in blocks
of STEP rows, `streamed_left` and `streamed_right`. The stationary rows are the left operand of the scores, so that
weights and score gradients (`slope`) are in registers in the layout of a left operand. The last product of a step is
started by the next step, so that tensor cores are busy while score gradients are computed. Masked and unmasked blocks
have loops of their own, so that no step tests for the mask.
"""

from __future__ import annotations

HEAD = """

@gluon.jit
def unit_of(turn):
    # The block of a program's turn, its batch and its head (of keys with BY_KEY), and whether the turn exists.
    block, number, there = place(turn, BLOCKS, UNITS, CAUSAL, PAIRS)
    if BY_KEY and CAUSAL:
        block = BLOCKS - 1 - block  # the first keys have most work
    return block, number // HEADS, number % HEADS, there


@gluon.jit
def steps_of(block):
    # The first streamed block, how many blocks are streamed, and how many of the first of these need a mask.
    if BY_KEY:
        first = 0
        masked = 0
        if CAUSAL:
            first = block * (GROUPS * ROWS) // STEP
            masked = gl.minimum(gl.cdiv((block + 1) * (GROUPS * ROWS), STEP), gl.cdiv(LENGTH, STEP)) - first
        steps = gl.cdiv(LENGTH, STEP) - first
        if LENGTH % STEP != 0:
            masked = steps
        return first, steps, masked
    else:
        steps, masked = seen(block, SIZE, GROUPS * ROWS, STEP, CAUSAL)
        return 0, steps, masked


@gluon.jit
def row_of(step, first, steps):
    # The first row of a step's block: blocks on the diagonal come first.
    if BY_KEY:
        return (first + step) * STEP
    else:
        return (steps - 1 - step) * STEP


@gluon.jit
def read(inputs, memory, numbers, bars):
    # The producer warp: loads the stationary rows of each tile, then its streamed blocks.
    all_left, all_right, all_streamed_left, all_streamed_right, all_totals, all_deltas = inputs
    left, right, streamed_left, streamed_right = memory
    totals, deltas = numbers
    own_full, own_empty, full, empty, starts = bars
    count = 0
    tiles = 0
    for turn in range(TURNS):
        block, batch, head, there = unit_of(turn)
        if there:
            slot = tiles % OWN
            mbarrier.wait(own_empty.index(slot), ((tiles // OWN) & 1) ^ 1)
            bar = own_full.index(slot)
            mbarrier.expect(bar, GROUPS * ROWS * ROW_BYTES)
            for group in gl.static_range(GROUPS):
                at = [batch, head, (block * GROUPS + group) * ROWS, 0]
                load_block(all_left, at, bar, left.index(slot * GROUPS + group))
                load_block(all_right, at, bar, right.index(slot * GROUPS + group))
            tiles += 1
            first, steps, masked = steps_of(block)
            for walked in range(steps * WALKS):
                row = row_of(walked % steps, first, steps)
                other = head * WALKS + walked // steps if BY_KEY else head // SHARE
                slot = count % STAGES
                mbarrier.wait(empty.index(slot), ((count // STAGES) & 1) ^ 1)
                bar = full.index(slot)
                mbarrier.expect(bar, STEP * (ROW_BYTES + 8 if COPIED else ROW_BYTES))
                load_block(all_streamed_left, [batch, other, row, 0], bar, streamed_left.index(slot))
                load_block(all_streamed_right, [batch, other, row, 0], bar, streamed_right.index(slot))
                if COPIED:
                    line = (batch * (HEADS * WALKS) + other) * LENGTH + row
                    load_block(all_totals, [line], bar, totals.index(slot))
                    load_block(all_deltas, [line], bar, deltas.index(slot))
                count += 1


@gluon.jit
def add_up(pointer, acc, batch, head, start, size, width, LAYOUT: gl.constexpr):
    # Stores the sums over a warp group's rows, where some of the rows exist.
    rows = start + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    lanes = gl.arange(0, acc.shape[1], gl.SliceLayout(0, LAYOUT))
    total = gl.sum(gl.where((rows < size)[:, None], acc, 0.0), 0)
    part = batch * ((size + (ROWS - 1)) // ROWS) + start // ROWS
    gl.store(pointer + (part * HEADS + head) * width + lanes, total, (lanes < width) & (start < size))
"""

KEYS = """

@gluon.jit
def add_before(dkey, slope, streamed_left, count, walked):
    # The score gradients of the step before times its queries. The first step has none: the next step discards
    # the accumulator.
    before = streamed_left.index((count + (STAGES - 1)) % STAGES).reshape([STEP, WIDTH])
    return warpgroup_mma(slope, before, dkey, use_acc=walked > 1, is_async=True)


@gluon.jit
def number_of(numbers, slot, line, row):
    # A statistic of each query of a block: from shared memory where it was copied, else from `line` on in memory;
    # 0 after the last query.
    if COPIED:
        return numbers.index(slot).load(gl.SliceLayout(0, SCORES))
    else:
        rows = row + gl.arange(0, STEP, gl.SliceLayout(0, SCORES))
        return gl.load(numbers + (line + rows), rows < LENGTH, 0.0)


@gluon.jit
def advance(own, memory, numbers, bars, sums, slope, count, walked, line, row, columns, MASKED: gl.constexpr):
    # A step: accumulates weights times gradients of results, and the score gradients of the step before times its
    # queries.
    key, value = own
    left, right, streamed_left, streamed_right = memory
    totals, deltas = numbers
    own_full, own_empty, full, empty, starts = bars
    dkey, dvalue = sums
    slot = count % STAGES
    old = (count + (STAGES - 1)) % STAGES
    none = gl.zeros((ROWS, STEP), gl.float32, SCORES)
    if not COPIED:  # loaded while tensor cores multiply
        total = number_of(totals, slot, line, row) * 1.4426950408889634
    if HELD:
        dkey = add_before(dkey, slope, streamed_left, count, walked)
    mbarrier.wait(full.index(slot), (count // STAGES) & 1)
    query = streamed_left.index(slot).reshape([STEP, WIDTH])
    dy = streamed_right.index(slot).reshape([STEP, OUT])
    scores = warpgroup_mma(key, query.permute((1, 0)), none, use_acc=False, is_async=True)
    if not HELD:  # this product overlaps the exponentials
        dkey = add_before(dkey, slope, streamed_left, count, walked)
    direct = warpgroup_mma(value, dy.permute((1, 0)), none, use_acc=False, is_async=True)
    if HELD:
        scores, dkey, slope = warpgroup_mma_wait(1, deps=(scores, dkey, slope))
        mbarrier.arrive(empty.index(old), pred=walked > 0)
    else:
        scores = warpgroup_mma_wait(2, deps=(scores,))
    if COPIED:
        total = number_of(totals, slot, line, row) * 1.4426950408889634
    weights = gl.exp2(scores * SCALE - total[None, :])
    if not COPIED:
        delta = number_of(deltas, slot, line, row)
    if MASKED:
        rows = row + gl.arange(0, STEP, gl.SliceLayout(0, SCORES))
        if LENGTH % STEP != 0:
            weights = gl.where((rows < LENGTH)[None, :], weights, 0.0)
        if CAUSAL:
            weights = gl.where(columns[:, None] <= rows[None, :], weights, 0.0)
    kept = gl.convert_layout(weights.to(DTYPE), WEIGHTS)
    if not HELD:
        dkey, slope, weights, kept = warpgroup_mma_wait(1, deps=(dkey, slope, weights, kept))
        mbarrier.arrive(empty.index(old), pred=walked > 0)
    dvalue = warpgroup_mma(kept, dy, dvalue, use_acc=walked > 0, is_async=True)
    if HELD:
        direct = warpgroup_mma_wait(1, deps=(direct,))
    else:
        direct, weights = warpgroup_mma_wait(1, deps=(direct, weights))
    if COPIED:
        delta = number_of(deltas, slot, line, row)
    slope = gl.convert_layout((weights * (direct - delta[None, :])).to(DTYPE), SLOPES)
    if HELD:
        dvalue, kept = warpgroup_mma_wait(0, deps=(dvalue, kept))
    else:
        dvalue, kept, slope = warpgroup_mma_wait(0, deps=(dvalue, kept, slope))
    return (dkey, dvalue), slope


@gluon.jit
def work(outputs, memory, numbers, bars, GROUP: gl.constexpr):
    # A consumer warp group: the gradients of its keys and values in each tile.
    all_dkey, all_dvalue, dkey_sums, dvalue_sums, dkeys, dvalues = outputs
    left, right, streamed_left, streamed_right = memory
    own_full, own_empty, full, empty, starts = bars
    count = 0
    tiles = 0
    for turn in range(TURNS):
        block, batch, head, there = unit_of(turn)
        if there:
            start = (block * GROUPS + GROUP) * ROWS
            columns = start + gl.arange(0, ROWS, gl.SliceLayout(1, SCORES))
            place = tiles % OWN
            mbarrier.wait(own_full.index(place), (tiles // OWN) & 1)
            key = left.index(place * GROUPS + GROUP).reshape([ROWS, WIDTH])
            value = right.index(place * GROUPS + GROUP).reshape([ROWS, OUT])
            if HELD:
                key = key.load(gl.DotOperandLayout(0, SCORES, 2))
                value = value.load(gl.DotOperandLayout(0, SCORES, 2))
            own = key, value
            first, steps, masked = steps_of(block)
            sums = gl.zeros((ROWS, WIDTH), gl.float32, LEFT), gl.zeros((ROWS, OUT), gl.float32, RIGHT)
            slope = gl.zeros((ROWS, STEP), DTYPE, SLOPES)
            begin = count
            for walk in range(WALKS):
                line = (batch * (HEADS * WALKS) + head * WALKS + walk) * LENGTH
                if MASKS:
                    for step in range(masked):
                        row = row_of(step, first, steps)
                        sums, slope = advance(
                            own, memory, numbers, bars, sums, slope, count, count - begin, line, row, columns, True
                        )
                        count += 1
                for step in range(masked, steps):
                    sums, slope = advance(
                        own, memory, numbers, bars, sums, slope, count, count - begin, line, 0, columns, False
                    )
                    count += 1
            mbarrier.arrive(own_empty.index(place))
            dkey, dvalue = sums
            dkey = add_before(dkey, slope, streamed_left, count, steps * WALKS)
            dkey, slope = warpgroup_mma_wait(0, deps=(dkey, slope))
            mbarrier.arrive(empty.index((count + (STAGES - 1)) % STAGES))
            dkey = dkey * WHOLE
            tma.store_wait(0)
            dkeys.index(GROUP).reshape([ROWS, WIDTH]).store(dkey.to(DTYPE))
            dvalues.index(GROUP).reshape([ROWS, OUT]).store(dvalue.to(DTYPE))
            fence_async_shared()
            store_block(all_dkey, [batch, head, start, 0], dkeys.index(GROUP))
            store_block(all_dvalue, [batch, head, start, 0], dvalues.index(GROUP))
            if LEFT_SUMS > 0:
                add_up(dkey_sums, dkey, batch, head, start, SIZE, LEFT_SUMS, LEFT)
            if RIGHT_SUMS > 0:
                add_up(dvalue_sums, dvalue, batch, head, start, SIZE, RIGHT_SUMS, RIGHT)
            tiles += 1
    tma.store_wait(0)
"""

QUERIES = """

@gluon.jit
def advance(own, memory, bars, acc, slope, count, row, about, GROUP: gl.constexpr, FIRST: gl.constexpr,
            MASKED: gl.constexpr):
    # A step: accumulates the score gradients of the step before times its keys, and computes its own.
    query, dy = own
    left, right, streamed_left, streamed_right = memory
    own_full, own_empty, full, empty, starts = bars
    rows, total, delta = about
    slot = count % STAGES
    old = (count + (STAGES - 1)) % STAGES
    none = gl.zeros((ROWS, STEP), gl.float32, SCORES)
    mbarrier.wait(full.index(slot), (count // STAGES) & 1)
    if ALTERNATE:
        mbarrier.wait(starts.index(GROUP), (count & 1) ^ (GROUP == 0))
    key = streamed_left.index(slot).reshape([STEP, WIDTH])
    value = streamed_right.index(slot).reshape([STEP, OUT])
    scores = warpgroup_mma(query, key.permute((1, 0)), none, use_acc=False, is_async=True)
    direct = warpgroup_mma(dy, value.permute((1, 0)), none, use_acc=False, is_async=True)
    if not FIRST:
        acc = warpgroup_mma(slope, streamed_left.index(old).reshape([STEP, WIDTH]), acc, is_async=True)
    if ALTERNATE:
        mbarrier.arrive(starts.index((GROUP + 1) % GROUPS))
    scores = warpgroup_mma_wait(1 if FIRST else 2, deps=(scores,))
    weights = gl.exp2(scores * SCALE - total[:, None])
    if MASKED:
        columns = row + gl.arange(0, STEP, gl.SliceLayout(0, SCORES))
        if CAUSAL:
            weights = gl.where(columns[None, :] <= gl.minimum(rows, SIZE - 1)[:, None], weights, 0.0)
        else:
            weights = gl.where((columns < SIZE)[None, :], weights, 0.0)
    direct, weights = warpgroup_mma_wait(0 if FIRST else 1, deps=(direct, weights))
    slopes = gl.convert_layout((weights * (direct - delta[:, None])).to(DTYPE), SLOPES)
    if not FIRST:
        acc, slope, slopes = warpgroup_mma_wait(0, deps=(acc, slope, slopes))
        mbarrier.arrive(empty.index(old))
    return acc, slopes


@gluon.jit
def work(outputs, memory, numbers, bars, GROUP: gl.constexpr):
    # A consumer warp group: the gradients of its queries in each tile.
    all_dquery, dquery_sums = outputs
    left, right, streamed_left, streamed_right = memory
    totals, deltas = numbers
    own_full, own_empty, full, empty, starts = bars
    count = 0
    tiles = 0
    for turn in range(TURNS):
        block, batch, head, there = unit_of(turn)
        if there:
            start = (block * GROUPS + GROUP) * ROWS
            rows = start + gl.arange(0, ROWS, gl.SliceLayout(1, SCORES))
            line = (batch * HEADS + head) * LENGTH + rows
            total = gl.load(totals + line, rows < LENGTH, 0.0) * 1.4426950408889634
            about = rows, total, gl.load(deltas + line, rows < LENGTH, 0.0)
            place = tiles % OWN
            mbarrier.wait(own_full.index(place), (tiles // OWN) & 1)
            query_place = left.index(place * GROUPS + GROUP)
            dy_place = right.index(place * GROUPS + GROUP)
            own = query_place.reshape([ROWS, WIDTH]), dy_place.reshape([ROWS, OUT])
            first, steps, masked = steps_of(block)
            acc = gl.zeros((ROWS, WIDTH), gl.float32, LEFT)
            slope = gl.zeros((ROWS, STEP), DTYPE, SLOPES)
            row = row_of(0, first, steps)
            acc, slope = advance(own, memory, bars, acc, slope, count, row, about, GROUP, True, MASKS)
            count += 1
            if MASKS:
                for step in range(1, masked):
                    row = row_of(step, first, steps)
                    acc, slope = advance(own, memory, bars, acc, slope, count, row, about, GROUP, False, True)
                    count += 1
            for step in range(gl.maximum(masked, 1), steps):
                acc, slope = advance(own, memory, bars, acc, slope, count, 0, about, GROUP, False, False)
                count += 1
            old = (count + (STAGES - 1)) % STAGES
            acc = warpgroup_mma(slope, streamed_left.index(old).reshape([STEP, WIDTH]), acc, is_async=True)
            acc, slope = warpgroup_mma_wait(0, deps=(acc, slope))
            mbarrier.arrive(empty.index(old))
            acc = acc * WHOLE
            query_place.reshape([ROWS, WIDTH]).store(acc.to(DTYPE))
            fence_async_shared()
            store_block(all_dquery, [batch, head, start, 0], query_place)
            if LEFT_SUMS > 0:
                add_up(dquery_sums, acc, batch, head, start, LENGTH, LEFT_SUMS, LEFT)
            tma.store_wait(0)
            mbarrier.arrive(own_empty.index(place))
            tiles += 1
"""
