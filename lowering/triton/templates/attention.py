"""Flash attention (online softmax): a forward kernel, and a backward kernel each for key and query gradients.

The attention weights are never in memory. Scores are scaled by log2(e), so that an exponential is one `exp2`. A
program has a block of queries (or keys) and loops over blocks of keys (or queries). With `causal` the loops leave
out fully masked blocks; only blocks on the diagonal and at the end are masked by element. The query heads that share
a key head (grouped-query attention) are adjacent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from oneflow.dialect.record import Call
from oneflow.lowering.targets.gpu_parameters import AttentionBlocks
from oneflow.lowering.targets.instructions import MIN_DOT_SIDE, VECTOR_BYTES
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.views import View
from oneflow.lowering.triton.source import PROGRAM_PLACEHOLDER, Source
from oneflow.lowering.triton.symbolic_sizes import Size, power_of_two
from oneflow.lowering.triton.templates import hopper_attention
from oneflow.lowering.triton.templates.attention_writer import (
    BY_QUERY,
    LOG2E,
    AttentionShape,
    AttentionWriter,
    block_count,
    round_down,
)
from oneflow.lowering.triton.templates.hopper_attention_gradients import KEY_SIDE, QUERY_SIDE, gradients
from oneflow.lowering.triton.templates.outline_templates import (
    AcceptsView,
    PartialSums,
    Template,
    TemplateInstance,
    TemplateKernel,
    is_half,
    register_template,
)
from oneflow.lowering.triton.templates.warp_specialization import target_form

#: The elements of the narrowest heads: a vector.
MIN_WIDTH = VECTOR_BYTES // 2


def _fits(call: Call) -> bool:
    """Whether the kernels support a call: 16-bit floats, widths that are whole vectors, no empty tensor."""
    (_, _, length, width), (_, _, size, out) = call.query.shape, call.value.shape
    widest = gpu_target().kernels.attention.max_width
    fits = all(n is not None and n % MIN_WIDTH == 0 and MIN_WIDTH <= n <= widest for n in (width, out))
    return is_half(call.query) and fits and 0 not in (length, size, *call.query.shape[:2])


def _shape(instance: TemplateInstance, rows: int, columns: int) -> AttentionShape:
    query, key, value = (instance.tensors[n].shape for n in ("query", "key", "value"))
    heads, groups, width, out = (size.static or 0 for size in (query[1], key[1], query[3], value[3]))
    return AttentionShape(query[0], heads, groups, query[2], key[2], width, out, rows, columns)


def _assign_blocks(writer: AttentionWriter, size: Size, block: int, heads: int, head: str = "head") -> None:
    """Assigns a block of the `size` rows of one head to each program.

    The blocks of one head are adjacent, so that its keys stay in the L2 cache. With `causal` the last blocks, which
    have most work, are scheduled first.
    """
    first = "block_count - 1 - " if writer.causal and head == "head" else ""
    writer.add(
        f"block_count = {block_count(size, block)}",
        f"block_index = {first}{PROGRAM_PLACEHOLDER} % block_count",
        f"batch = {PROGRAM_PLACEHOLDER} // (block_count * {heads})",
        f"{head} = {PROGRAM_PLACEHOLDER} // block_count % {heads}",
    )


def _add_loops(
    writer: AttentionWriter, body: Callable[[bool, int], None], bounds: Sequence[tuple[str, str, int, bool]]
) -> None:
    """Adds a loop for each of `bounds`: first, end, step, and whether its scores are masked."""
    for first, end, step, masked in bounds:
        if first != end:
            writer.add(f"for block_start in range({first}, {end}, {step}):")
            body(masked, 1)


def _key_bounds(writer: AttentionWriter) -> list[tuple[str, str, int, bool]]:
    """The keys that the query block at `block_index * rows` attends to: whole blocks, then masked blocks."""
    rows, columns, size = writer.shape.query_block, writer.shape.key_block, writer.key_length
    end = round_down(size, columns)
    if not writer.causal:
        return [("0", end, columns, False), (end, str(size), columns, True)]
    full = f"tl.minimum(block_index * {rows} // {columns} * {columns}, {end})"
    return [("0", full, columns, False), (full, f"tl.minimum((block_index + 1) * {rows}, {size})", columns, True)]


def _load_keys(writer: AttentionWriter, name: str) -> str:
    """The statement that loads a block of the keys or values of a query head."""
    block = writer.load(name, f"head // {writer.shape.heads_per_key}", "block_start", writer.shape.key_block)
    return f"{name} = {block}"


def _add_scores(writer: AttentionWriter, masked: bool, indent: int) -> None:
    """Adds the scores of the block of queries with a block of keys."""
    writer.add(
        _load_keys(writer, "key"),
        f"scores = tl.dot(query, key.T) * {writer.scale}",
        f"columns = block_start + tl.arange(0, {writer.shape.key_block})",
        indent=indent,
    )
    writer.add_mask("scores", "rows[:, None]", "columns[None, :]", indent)
    if masked:
        writer.mask_scores("scores", "rows[:, None]", "columns[None, :]", indent)


def _forward_blocks(instance: TemplateInstance) -> AttentionBlocks:
    """The blocks of the forward kernel."""
    width, target = _max_width(instance), gpu_target()
    candidates = target.kernels.attention
    if width <= candidates.max_narrow_width:
        return candidates.narrow
    tall = candidates.wide_tall
    batch, heads, length, _ = (size.static or 0 for size in instance.tensors["query"].shape)
    is_filling = batch * heads * (length // tall.queries) >= target.sms
    fits = tall.shared_bytes(power_of_two(width)) <= target.usable_shared_bytes
    return tall if is_filling and fits else candidates.wide


def _gradient_blocks(width: int) -> AttentionBlocks:
    """The blocks of the backward kernels for heads of `width`."""
    candidates = gpu_target().kernels.attention
    return candidates.narrow_gradients if width <= candidates.max_narrow_width else candidates.wide_gradients


def _forward(instance: TemplateInstance) -> Source:
    """The forward kernel: `out` and `logsumexp` of a block of queries."""
    config = _forward_blocks(instance)
    shape = _shape(instance, config.queries, config.keys)
    writer, s = AttentionWriter(instance, shape), shape
    writer.load_seed()
    out = max(MIN_DOT_SIDE, power_of_two(s.value_width))
    for name in ("key", "value"):
        writer.add_descriptor(name, s.key_block)
    _assign_blocks(writer, writer.query_length, s.query_block, s.heads)
    writer.add(
        f"rows = block_index * {s.query_block} + tl.arange(0, {s.query_block})",
        f"query = {writer.load('query', 'head', f'block_index * {s.query_block}', s.query_block)}",
        f'row_max = tl.full(({s.query_block},), float("-inf"), tl.float32)',
        f"row_sum = tl.full(({s.query_block},), 0.0, tl.float32)",
        f"acc = tl.full(({s.query_block}, {out}), 0.0, tl.float32)",
    )

    def body(masked: bool, indent: int) -> None:
        _add_scores(writer, masked, indent)
        guard = masked or "mask" in instance.tensors
        writer.add("new_max = tl.maximum(row_max, tl.max(scores, 1))", indent=indent)
        writer.add(
            f"base = {writer.call('softmax_base')}(new_max)" if guard else "base = new_max",
            "weights = tl.exp2(scores - base[:, None])",
            "rescale = tl.exp2(row_max - base)",
            "row_sum = row_sum * rescale + tl.sum(weights, 1)",
            _load_keys(writer, "value"),
            indent=indent,
        )
        dropped = writer.apply_dropout("weights", "dropped_weights", "rows[:, None]", "columns[None, :]", indent)
        writer.add(
            f"acc = tl.dot({dropped}.to({writer.element}), value, acc * rescale[:, None])",
            "row_max = new_max",
            indent=indent,
        )

    _add_loops(writer, body, _key_bounds(writer))
    statistics, divisor = instance.tensors["logsumexp"], "row_sum"
    if s.key_length.static is None or "mask" in instance.tensors:
        divisor = "divisor"
        writer.add("divisor = tl.where(row_sum == 0.0, 1.0, row_sum)  # a row whose scores are all masked")
    logsumexp = f"row_max * {math.log(2)} + tl.log(row_sum)"
    writer.add(
        writer.store("out", "head", f"block_index * {s.query_block}", f"(acc / {divisor}[:, None])", s.query_block),
        f"offsets = {writer.row} + rows",
        f"tl.store({statistics.name} + offsets, {logsumexp}, rows < {writer.query_length})",
    )
    plain = writer.to_source(s.query_length, s.query_block, s.heads, config.warps, config.stages)
    return _with_hopper_form(plain, hopper_attention.forward(instance, s))


def _with_hopper_form(plain: Source, special: Source | None) -> Source:
    """A kernel with its form for Hopper, where there is one."""
    return replace(plain, specializations=target_form(special))


def _max_width(instance: TemplateInstance) -> int:
    """The wider of the query and value heads."""
    return max(instance.tensors[n].shape[3].static or 0 for n in ("query", "value"))


def _key_gradients(instance: TemplateInstance) -> Source:
    """The backward kernel of keys and values: their gradients, summed over the query heads that share them."""
    config = _gradient_blocks(_max_width(instance))
    shape = _shape(instance, config.queries, config.keys)
    writer, s = AttentionWriter(instance, shape), shape
    writer.load_seed()
    share, (width, out) = s.heads_per_key, (max(MIN_DOT_SIDE, power_of_two(n)) for n in (s.width, s.value_width))
    for name in ("query", "dy", "key", "value"):
        writer.add_descriptor(name, s.query_block if name in BY_QUERY else s.key_block)
    _assign_blocks(writer, writer.key_length, s.key_block, s.key_heads, "key_head")
    writer.add(
        f"columns = block_index * {s.key_block} + tl.arange(0, {s.key_block})",
        f"key = {writer.load('key', 'key_head', f'block_index * {s.key_block}', s.key_block)}",
        f"value = {writer.load('value', 'key_head', f'block_index * {s.key_block}', s.key_block)}",
        f"dkey = tl.full(({s.key_block}, {width}), 0.0, tl.float32)",
        f"dvalue = tl.full(({s.key_block}, {out}), 0.0, tl.float32)",
        f"for head in range(key_head * {share}, (key_head + 1) * {share}):" if share > 1 else "head = key_head",
    )
    inside = int(share > 1)

    def body(masked: bool, indent: int) -> None:
        writer.add(
            f"rows = block_start + tl.arange(0, {s.query_block})",
            f"query = {writer.load('query', 'head', 'block_start', s.query_block)}",
            f"scores = tl.dot(key, query.T) * {writer.scale}",
            indent=indent,
        )
        writer.add_mask("scores", "rows[None, :]", "columns[:, None]", indent)
        if masked:
            writer.mask_scores("scores", "rows[None, :]", "columns[:, None]", indent)
        weights = "tl.exp2(scores - logsumexp[None, :])"
        if not writer.has_whole_query_blocks:
            weights = f"tl.where(rows[None, :] < {writer.query_length}, {weights}, 0.0)"
        writer.add(
            f"logsumexp = {writer.softmax_base('rows')} * {LOG2E}",
            f"weights = {weights}",
            f"dy = {writer.load('dy', 'head', 'block_start', s.query_block)}",
            indent=indent,
        )
        dropped = writer.apply_dropout("weights", "dropped_weights", "rows[None, :]", "columns[:, None]", indent)
        dweights = writer.apply_dropout(
            "tl.dot(value, dy.T)", "dweights", "rows[None, :]", "columns[:, None]", indent
        )
        delta = writer.row_statistics("delta", "rows")  # loaded late, so that it holds no registers before
        writer.add(
            f"dvalue = tl.dot({dropped}.to({writer.element}), dy, dvalue)",
            f"dscores = weights * ({dweights} - {delta}[None, :])",
            f"dkey = tl.dot(dscores.to({writer.element}), query, dkey)",
            indent=indent,
        )

    for first, end, masked in _query_bounds(writer):
        writer.add(f"for block_start in range({first}, {end}, {s.query_block}):", indent=inside)
        body(masked, inside + 1)
    for name, value in (("dkey", f"(dkey * {writer.scale / LOG2E})"), ("dvalue", "dvalue")):
        writer.add(writer.store(name, "key_head", f"block_index * {s.key_block}", value, s.key_block))
        writer.add_partial_sums(name, "key_head", f"columns < {writer.key_length}", value)
    plain = writer.to_source(s.key_length, s.key_block, s.key_heads, config.warps, config.stages)
    return _with_hopper_form(plain, gradients(instance, s, KEY_SIDE))


def _query_bounds(writer: AttentionWriter) -> list[tuple[str, str, bool]]:
    """The queries that attend to the key block at `block_index * columns`: whole blocks, then masked blocks.

    In the other order the products wait for each other: the compiler then moves accumulators between registers in
    the second loop.
    """
    rows, columns, length = writer.shape.query_block, writer.shape.key_block, writer.query_length
    if not writer.causal:
        return [("0", str(length), False)]
    end = f"({block_count(length, rows)}) * {rows}"
    full = f"tl.minimum((block_index + 1) * {columns} + {rows - 1}, {end}) // {rows} * {rows}"
    return [(full, str(length), False), (f"block_index * {columns} // {rows} * {rows}", full, True)]


def _query_gradients(instance: TemplateInstance) -> Source:
    """The backward kernel of queries."""
    config = _gradient_blocks(_max_width(instance))
    shape = _shape(instance, config.queries, config.keys)
    writer, s = AttentionWriter(instance, shape), shape
    writer.load_seed()
    width = max(MIN_DOT_SIDE, power_of_two(s.width))
    for name in ("query", "dy", "key", "value"):
        writer.add_descriptor(name, s.query_block if name in ("query", "dy") else s.key_block)
    _assign_blocks(writer, writer.query_length, s.query_block, s.heads)
    writer.add(
        f"rows = block_index * {s.query_block} + tl.arange(0, {s.query_block})",
        f"query = {writer.load('query', 'head', f'block_index * {s.query_block}', s.query_block)}",
        f"dy = {writer.load('dy', 'head', f'block_index * {s.query_block}', s.query_block)}",
        f"logsumexp = {writer.softmax_base('rows')} * {LOG2E}",
        f"delta = {writer.row_statistics('delta', 'rows')}",
        f"acc = tl.full(({s.query_block}, {width}), 0.0, tl.float32)",
    )

    def body(masked: bool, indent: int) -> None:
        _add_scores(writer, masked, indent)
        writer.add(
            "weights = tl.exp2(scores - logsumexp[:, None])",
            _load_keys(writer, "value"),
            indent=indent,
        )
        dweights = writer.apply_dropout(
            "tl.dot(dy, value.T)", "dweights", "rows[:, None]", "columns[None, :]", indent
        )
        writer.add(
            f"dscores = weights * ({dweights} - delta[:, None])",
            f"acc = tl.dot(dscores.to({writer.element}), key, acc)",
            indent=indent,
        )

    _add_loops(writer, body, _key_bounds(writer))
    gradient = f"(acc * {writer.scale / LOG2E})"
    writer.add(writer.store("dquery", "head", f"block_index * {s.query_block}", gradient, s.query_block))
    writer.add_partial_sums("dquery", "head", f"rows < {writer.query_length}", gradient)
    plain = writer.to_source(s.query_length, s.query_block, s.heads, config.warps, config.stages)
    return _with_hopper_form(plain, gradients(instance, s, QUERY_SIDE))


#: The views that operands and results may be: rows are read in vectors; a mask is read by elements, in any layout.
VIEWS: dict[str, AcceptsView] = {
    **dict.fromkeys(("query", "key", "value", "out", "dy", "dquery", "dkey", "dvalue"), View.is_vectorizable),
    "mask": lambda view, width: True,
}
#: The operand and dimension whose size each dimension of a result has.
SIZES = {
    "out": [("query", 0), ("query", 1), ("query", 2), ("value", 3)],
    "logsumexp": [("query", i) for i in range(3)],
    **{f"d{name}": [(name, i) for i in range(4)] for name in ("query", "key", "value")},
}
FORWARD = (TemplateKernel("", ("out", "logsumexp"), _forward),)
register_template("attention", Template(_fits, FORWARD, VIEWS, sizes=SIZES))


def _sum_count(shape: Sequence[int]) -> int:
    """The partial sums of a gradient over batch and positions, one for each block: the gradient of a bias."""
    return shape[0] * -(-shape[2] // _gradient_blocks(shape[3]).keys)


SUMS = dict.fromkeys(("dquery", "dkey", "dvalue"), PartialSums((1, 3), _sum_count))
BACKWARD = (
    TemplateKernel("key", ("dkey", "dvalue"), _key_gradients),
    TemplateKernel("query", ("dquery",), _query_gradients),
)
register_template("attention_grad", Template(_fits, BACKWARD, VIEWS, SUMS, SIZES))
