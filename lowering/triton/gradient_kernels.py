"""The text of the kernels of attention's gradients for Hopper, in Gluon. `hopper_gradients` defines their constants.

A group of four warps has ROWS keys and values, or queries and gradients of results: its own rows, `left` and `right`.
The others pass it in blocks of STEP rows, `passing` and `beside`. Scores are made with a group's own rows on the
left, so that weights and their slopes are in registers as products take them; a step's last product is started by the
next step, so that tensor cores have something to do while slopes are made. Imports nothing.
"""

from __future__ import annotations

HEAD = """

@gluon.jit
def unit_of(turn):
    # The block of a program's turn, its batch and its head, or group of heads, and whether there is one.
    block, number, there = place(turn, BLOCKS, UNITS, CAUSAL, PAIRS)
    if BY_KEY and CAUSAL:
        block = BLOCKS - 1 - block  # the first keys have most to do
    return block, number // HEADS, number % HEADS, there


@gluon.jit
def steps_of(block):
    # The first of the blocks that pass, for keys, how many pass, and how many of these, the first, are masked.
    if BY_KEY:
        first = 0
        masked = 0
        if CAUSAL:
            first = block * (GROUPS * ROWS) // STEP
            masked = gl.cdiv((block + 1) * (GROUPS * ROWS), STEP) - first
        return first, gl.cdiv(LENGTH, STEP) - first, masked
    else:
        steps, masked = seen(block, SIZE, GROUPS * ROWS, STEP, CAUSAL)
        return 0, steps, masked


@gluon.jit
def row_of(step, first, steps):
    # Where the block of a step begins: those on the diagonal come first.
    if BY_KEY:
        return (first + step) * STEP
    else:
        return (steps - 1 - step) * STEP


@gluon.jit
def read(inputs, memory, numbers, bars):
    # Reads the own rows of each turn, and what passes them.
    all_left, all_right, all_passing, all_beside, all_totals, all_deltas = inputs
    left, right, passing, beside = memory
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
                tma.async_copy_global_to_shared(all_left, at, bar, left.index(slot * GROUPS + group))
                tma.async_copy_global_to_shared(all_right, at, bar, right.index(slot * GROUPS + group))
            tiles += 1
            first, steps, masked = steps_of(block)
            for walked in range(steps * WALKS):
                row = row_of(walked % steps, first, steps)
                other = head * WALKS + walked // steps if BY_KEY else head // SHARE
                slot = count % STAGES
                mbarrier.wait(empty.index(slot), ((count // STAGES) & 1) ^ 1)
                bar = full.index(slot)
                mbarrier.expect(bar, STEP * (ROW_BYTES + 8 if BY_KEY else ROW_BYTES))
                tma.async_copy_global_to_shared(all_passing, [batch, other, row, 0], bar, passing.index(slot))
                tma.async_copy_global_to_shared(all_beside, [batch, other, row, 0], bar, beside.index(slot))
                if BY_KEY:
                    line = (batch * (HEADS * WALKS) + other) * LENGTH + row
                    tma.async_copy_global_to_shared(all_totals, [line], bar, totals.index(slot))
                    tma.async_copy_global_to_shared(all_deltas, [line], bar, deltas.index(slot))
                count += 1


@gluon.jit
def add_up(pointer, acc, batch, head, start, size, width, LAYOUT: gl.constexpr):
    # Writes the sums of a group's rows, where it has some.
    rows = start + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    lanes = gl.arange(0, acc.shape[1], gl.SliceLayout(0, LAYOUT))
    total = gl.sum(gl.where((rows < size)[:, None], acc, 0.0), 0)
    part = batch * ((size + (ROWS - 1)) // ROWS) + start // ROWS
    gl.store(pointer + (part * HEADS + head) * width + lanes, total, (lanes < width) & (start < size))
"""

KEYS = """

@gluon.jit
def finish(outputs, memory, bars, sums, tile, at, GROUP: gl.constexpr):
    # Writes the results of a turn, from where its keys and values were.
    all_dkey, all_dvalue, dkey_sums, dvalue_sums = outputs
    dkey, dvalue = sums
    batch, head, start = at
    own_full, own_empty, full, empty, starts = bars
    dkey = dkey * WHOLE
    key_place = memory[0].index(tile % OWN * GROUPS + GROUP)
    value_place = memory[1].index(tile % OWN * GROUPS + GROUP)
    key_place.reshape([ROWS, WIDTH]).store(dkey.to(DTYPE))
    value_place.reshape([ROWS, OUT]).store(dvalue.to(DTYPE))
    fence_async_shared()
    tma.async_copy_shared_to_global(all_dkey, [batch, head, start, 0], key_place)
    tma.async_copy_shared_to_global(all_dvalue, [batch, head, start, 0], value_place)
    if LEFT_SUMS > 0:
        add_up(dkey_sums, dkey, batch, head, start, SIZE, LEFT_SUMS, LEFT)
    if RIGHT_SUMS > 0:
        add_up(dvalue_sums, dvalue, batch, head, start, SIZE, RIGHT_SUMS, RIGHT)
    tma.store_wait(0)
    mbarrier.arrive(own_empty.index(tile % OWN))


@gluon.jit
def work(outputs, memory, numbers, bars, GROUP: gl.constexpr):
    # The gradients of a group's keys and values in each turn.
    left, right, passing, beside = memory
    totals, deltas = numbers
    own_full, own_empty, full, empty, starts = bars
    none = gl.zeros((ROWS, STEP), gl.float32, SCORES)
    dkey = gl.zeros((ROWS, WIDTH), gl.float32, LEFT)
    dvalue = gl.zeros((ROWS, OUT), gl.float32, RIGHT)
    slope = gl.zeros((ROWS, STEP), DTYPE, SLOPES)
    count = 0
    tiles = 0
    for turn in range(TURNS):
        block, batch, head, there = unit_of(turn)
        if there:
            start = (block * GROUPS + GROUP) * ROWS
            columns = start + gl.arange(0, ROWS, gl.SliceLayout(1, SCORES))
            mbarrier.wait(own_full.index(tiles % OWN), (tiles // OWN) & 1)
            key = left.index(tiles % OWN * GROUPS + GROUP).reshape([ROWS, WIDTH])
            value = right.index(tiles % OWN * GROUPS + GROUP).reshape([ROWS, OUT])
            if HELD:
                key = key.load(gl.DotOperandLayout(0, SCORES, 2))
                value = value.load(gl.DotOperandLayout(0, SCORES, 2))
            first, steps, masked = steps_of(block)
            for walked in range(steps * WALKS):
                step = walked % steps
                row = row_of(step, first, steps)
                slot = count % STAGES
                old = (count + (STAGES - 1)) % STAGES
                # In the first step there are no slopes yet: what comes of that product is dropped by the next one.
                before = passing.index(old).reshape([STEP, WIDTH])
                dkey = warpgroup_mma(slope, before, dkey, use_acc=walked > 1, is_async=True)
                mbarrier.wait(full.index(slot), (count // STAGES) & 1)
                query = passing.index(slot).reshape([STEP, WIDTH])
                dy = beside.index(slot).reshape([STEP, OUT])
                scores = warpgroup_mma(key, query.permute((1, 0)), none, use_acc=False, is_async=True)
                direct = warpgroup_mma(value, dy.permute((1, 0)), none, use_acc=False, is_async=True)
                scores, dkey, slope = warpgroup_mma_wait(1, deps=(scores, dkey, slope))
                mbarrier.arrive(empty.index(old), pred=walked > 0)
                total = totals.index(slot).load(gl.SliceLayout(0, SCORES)) * 1.4426950408889634
                weights = gl.exp2(scores * SCALE - total[None, :])
                if MASKS:
                    if (step < masked) | (row + STEP > LENGTH):
                        rows = row + gl.arange(0, STEP, gl.SliceLayout(0, SCORES))
                        counts = (rows < LENGTH)[None, :]
                        if CAUSAL:
                            counts = counts & (columns[:, None] <= rows[None, :])
                        weights = gl.where(counts, weights, 0.0)
                kept = gl.convert_layout(weights.to(DTYPE), WEIGHTS)
                dvalue = warpgroup_mma(kept, dy, dvalue, use_acc=walked > 0, is_async=True)
                if HELD:
                    direct = warpgroup_mma_wait(1, deps=(direct,))
                else:
                    direct, weights = warpgroup_mma_wait(1, deps=(direct, weights))
                delta = deltas.index(slot).load(gl.SliceLayout(0, SCORES))
                slope = gl.convert_layout((weights * (direct - delta[None, :])).to(DTYPE), SLOPES)
                if HELD:
                    dvalue, kept = warpgroup_mma_wait(0, deps=(dvalue, kept))
                else:
                    dvalue, kept, slope = warpgroup_mma_wait(0, deps=(dvalue, kept, slope))
                count += 1
            old = (count + (STAGES - 1)) % STAGES
            before = passing.index(old).reshape([STEP, WIDTH])
            dkey = warpgroup_mma(slope, before, dkey, use_acc=steps * WALKS > 1, is_async=True)
            dkey, slope = warpgroup_mma_wait(0, deps=(dkey, slope))
            mbarrier.arrive(empty.index(old))
            finish(outputs, memory, bars, (dkey, dvalue), tiles, (batch, head, start), GROUP)
            tiles += 1
"""

QUERIES = """

@gluon.jit
def finish(outputs, memory, bars, acc, tile, at, GROUP: gl.constexpr):
    # Writes the result of a turn, from where its queries were.
    all_dquery, dquery_sums = outputs
    batch, head, start = at
    own_full, own_empty, full, empty, starts = bars
    acc = acc * WHOLE
    place = memory[0].index(tile % OWN * GROUPS + GROUP)
    place.reshape([ROWS, WIDTH]).store(acc.to(DTYPE))
    fence_async_shared()
    tma.async_copy_shared_to_global(all_dquery, [batch, head, start, 0], place)
    if LEFT_SUMS > 0:
        add_up(dquery_sums, acc, batch, head, start, LENGTH, LEFT_SUMS, LEFT)
    tma.store_wait(0)
    mbarrier.arrive(own_empty.index(tile % OWN))


@gluon.jit
def work(outputs, memory, numbers, bars, GROUP: gl.constexpr):
    # The gradients of a group's queries in each turn. The last product of one is made in the first step of the next.
    left, right, passing, beside = memory
    totals, deltas = numbers
    own_full, own_empty, full, empty, starts = bars
    none = gl.zeros((ROWS, STEP), gl.float32, SCORES)
    acc = gl.zeros((ROWS, WIDTH), gl.float32, LEFT)
    slope = gl.zeros((ROWS, STEP), DTYPE, SLOPES)
    count = 0
    tiles = 0
    last = 0
    at = 0, 0, 0
    for turn in range(TURNS):
        block, batch, head, there = unit_of(turn)
        if there:
            start = (block * GROUPS + GROUP) * ROWS
            rows = start + gl.arange(0, ROWS, gl.SliceLayout(1, SCORES))
            line = (batch * HEADS + head) * LENGTH + rows
            total = gl.load(totals + line, rows < LENGTH, 0.0) * 1.4426950408889634
            delta = gl.load(deltas + line, rows < LENGTH, 0.0)
            mbarrier.wait(own_full.index(tiles % OWN), (tiles // OWN) & 1)
            query = left.index(tiles % OWN * GROUPS + GROUP).reshape([ROWS, WIDTH])
            dy = right.index(tiles % OWN * GROUPS + GROUP).reshape([ROWS, OUT])
            first, steps, masked = steps_of(block)
            for step in range(steps):
                row = row_of(step, first, steps)
                slot = count % STAGES
                old = (count + (STAGES - 1)) % STAGES
                mbarrier.wait(full.index(slot), (count // STAGES) & 1)
                key = passing.index(slot).reshape([STEP, WIDTH])
                value = beside.index(slot).reshape([STEP, OUT])
                before = passing.index(old).reshape([STEP, WIDTH])
                if ALTERNATE:
                    mbarrier.wait(starts.index(GROUP), (count & 1) ^ (GROUP == 0))
                scores = warpgroup_mma(query, key.permute((1, 0)), none, use_acc=False, is_async=True)
                direct = warpgroup_mma(dy, value.permute((1, 0)), none, use_acc=False, is_async=True)
                # In the very first step there are no slopes yet: what comes of that product is dropped by the next.
                acc = warpgroup_mma(slope, before, acc, use_acc=last > 0, is_async=True)
                if ALTERNATE:
                    mbarrier.arrive(starts.index((GROUP + 1) % GROUPS))
                scores = warpgroup_mma_wait(2, deps=(scores,))
                weights = gl.exp2(scores * SCALE - total[:, None])
                if MASKS:
                    if step < masked:
                        columns = row + gl.arange(0, STEP, gl.SliceLayout(0, SCORES))
                        counts = (columns < SIZE)[None, :]
                        if CAUSAL:
                            counts = counts & (columns[None, :] <= rows[:, None])
                        weights = gl.where(counts, weights, 0.0)
                direct, weights = warpgroup_mma_wait(1, deps=(direct, weights))
                slopes = gl.convert_layout((weights * (direct - delta[:, None])).to(DTYPE), SLOPES)
                acc, slope, slopes = warpgroup_mma_wait(0, deps=(acc, slope, slopes))
                mbarrier.arrive(empty.index(old), pred=count > 0)
                if (step == 0) & (count > 0):
                    finish(outputs, memory, bars, acc, tiles - 1, at, GROUP)
                slope = slopes
                last = step
                count += 1
            tiles += 1
            at = batch, head, start
    old = (count + (STAGES - 1)) % STAGES
    before = passing.index(old).reshape([STEP, WIDTH])
    acc = warpgroup_mma(slope, before, acc, use_acc=last > 0, is_async=True)
    acc, slope = warpgroup_mma_wait(0, deps=(acc, slope))
    mbarrier.arrive(empty.index(old))
    finish(outputs, memory, bars, acc, tiles - 1, at, GROUP)
"""
