"""Attention without its weights in memory: forward, and backward in one kernel by keys and one by queries.

Scores are kept in units of log 2, so that exponentials are one instruction. A program has a block of queries (or
keys) and goes over blocks of keys (or queries); with `causal` those that nothing is seen of are left out, and only
those on the diagonal and at the end are masked. Heads that share keys follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from oneflow.dialect.record import Call
from oneflow.lowering.triton.codegen.symbolic_sizes import power_of_two
from oneflow.lowering.triton.codegen.views import View
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.templates import hopper_attention
from oneflow.lowering.triton.templates.attention_blocks import BY_QUERY, LOG2E, Shape, Text, blocks_of, whole_of
from oneflow.lowering.triton.templates.gluon import ARCH
from oneflow.lowering.triton.templates.hopper_attention_gradients import KEY_SIDE, QUERY_SIDE, gradients
from oneflow.lowering.triton.templates.outline_templates import (
    Accepts,
    Filled,
    Part,
    Sums,
    Template,
    is_half,
    register_template,
)

#: The widths of heads that fit.
LEAST, MOST = 8, 256
#: The queries and the keys of a block of the backward kernels.
BLOCK = 64


def _fits(call: Call) -> bool:
    """Whether a call is one of the kernels': 16-bit floats, widths that are whole vectors, something to do."""
    (_, _, length, width), (_, _, size, out) = call.query.shape, call.value.shape
    whole = all(n is not None and n % 8 == 0 and LEAST <= n <= MOST for n in (width, out))
    return is_half(call.query) and whole and 0 not in (length, size, *call.query.shape[:2])


def _shape(filled: Filled, rows: int, columns: int) -> Shape:
    query, key, value = (filled.tensors[n].shape for n in ("query", "key", "value"))
    heads, groups, width, out = (size.static or 0 for size in (query[1], key[1], query[3], value[3]))
    return Shape(query[0], heads, groups, query[2], key[2], width, out, rows, columns)


def _program(text: Text, size: str, block: int, heads: int, head: str = "head") -> None:
    """Which of the blocks of `size` rows a program has, and of which head: those of one head together.

    So its keys stay in the cache. With `causal` the last blocks, which have most to do, come first.
    """
    text.add(
        f"blocks = {blocks_of(size, block)}",
        f"start = {'blocks - 1 - ' if text.causal and head == 'head' else ''}tl.program_id(0) % blocks",
        f"batch = tl.program_id(0) // (blocks * {heads})",
        f"{head} = tl.program_id(0) // blocks % {heads}",
    )


def _passes(text: Text, body: Callable[[bool, int], None], bounds: Sequence[tuple[str, str, int, bool]]) -> None:
    """A loop for each of `bounds` (first, end, step, whether scores are masked)."""
    for first, end, step, masked in bounds:
        if first != end:
            text.add(f"for at in range({first}, {end}, {step}):")
            body(masked, 1)


def _key_bounds(text: Text) -> list[tuple[str, str, int, bool]]:
    """The keys that a block of queries at `start * rows` sees: whole blocks, then those that are masked."""
    rows, columns, size = text.shape.rows, text.shape.columns, text.size
    whole = whole_of(size, columns)
    if not text.causal:
        return [("0", whole, columns, False), (whole, size, columns, True)]
    full = f"tl.minimum(start * {rows} // {columns} * {columns}, {whole})"
    return [("0", full, columns, False), (full, f"tl.minimum((start + 1) * {rows}, {size})", columns, True)]


def _forward(filled: Filled) -> Source:
    """out and logsumexp of a block of queries."""
    shape = _shape(filled, 64, 64 if _widest(filled) <= 128 else 32)
    text, s = Text(filled, shape), shape
    text.take_key()
    out = max(16, power_of_two(s.out))
    for name in ("key", "value"):
        text.describe(name, s.columns)
    _program(text, text.length, s.rows, s.heads)
    text.add(
        f"rows = start * {s.rows} + tl.arange(0, {s.rows})",
        f"query = {text.load('query', 'head', f'start * {s.rows}', s.rows)}",
        f'most = tl.full(({s.rows},), float("-inf"), tl.float32)',
        f"total = tl.full(({s.rows},), 0.0, tl.float32)",
        f"acc = tl.full(({s.rows}, {out}), 0.0, tl.float32)",
    )

    def body(masked: bool, indent: int) -> None:
        text.add(
            f"key = {text.load('key', f'head // {s.share}', 'at', s.columns)}",
            f"scores = tl.dot(query, key.T) * {text.scale}",
            f"columns = at + tl.arange(0, {s.columns})",
            indent=indent,
        )
        text.add_mask("scores", "rows[:, None]", "columns[None, :]", indent)
        if masked:
            text.hide("scores", "rows[:, None]", "columns[None, :]", indent)
        guard = masked or "mask" in filled.tensors
        text.add("grown = tl.maximum(most, tl.max(scores, 1))", indent=indent)
        text.add(
            f"base = {'base_of(grown)' if guard else 'grown'}",
            "weights = tl.exp2(scores - base[:, None])",
            "shrink = tl.exp2(most - base)",
            "total = total * shrink + tl.sum(weights, 1)",
            f"value = {text.load('value', f'head // {s.share}', 'at', s.columns)}",
            indent=indent,
        )
        kept = text.drop("weights", "kept", "rows[:, None]", "columns[None, :]", indent)
        text.add(
            f"acc = tl.dot({kept}.to({text.element}), value, acc * shrink[:, None])",
            "most = grown",
            indent=indent,
        )

    _passes(text, body, _key_bounds(text))
    statistics, divisor = filled.tensors["logsumexp"], "total"
    if s.size.static is None or "mask" in filled.tensors:
        divisor = "divisor"
        text.add("divisor = tl.where(total == 0.0, 1.0, total)  # of a row that sees nothing")
    text.add(
        text.store("out", "head", f"start * {s.rows}", f"(acc / {divisor}[:, None])", s.rows),
        f"place = {text.row} + rows",
        f"tl.store({statistics.name} + place, most * {math.log(2)} + tl.log(total), rows < {text.length})",
    )
    return _also(text.finish(s.length, s.rows, s.heads, 4, 3), hopper_attention.forward(filled, s))


def _also(plain: Source, special: Source | None) -> Source:
    """A kernel with its form for Hopper, where it has one."""
    return replace(plain, special={ARCH: special}) if special else plain


def _widest(filled: Filled) -> int:
    return max(filled.tensors[n].shape[3].static or 0 for n in ("query", "value"))


def _by_key(filled: Filled) -> Source:
    """The gradients by a block of keys and values, over the queries of every head that shares them."""
    shape, warps = _shape(filled, BLOCK, BLOCK), 4 if _widest(filled) <= 128 else 8
    text, s = Text(filled, shape), shape
    text.take_key()
    width, out = (max(16, power_of_two(n)) for n in (s.width, s.out))
    for name in ("query", "dy", "key", "value"):
        text.describe(name, s.rows if name in BY_QUERY else s.columns)
    _program(text, text.size, s.columns, s.groups, "group")
    text.add(
        f"columns = start * {s.columns} + tl.arange(0, {s.columns})",
        f"key = {text.load('key', 'group', f'start * {s.columns}', s.columns)}",
        f"value = {text.load('value', 'group', f'start * {s.columns}', s.columns)}",
        f"dkey = tl.full(({s.columns}, {width}), 0.0, tl.float32)",
        f"dvalue = tl.full(({s.columns}, {out}), 0.0, tl.float32)",
        f"for head in range(group * {s.share}, (group + 1) * {s.share}):" if s.share > 1 else "head = group",
    )
    inside = int(s.share > 1)

    def body(masked: bool, indent: int) -> None:
        text.add(
            f"rows = at + tl.arange(0, {s.rows})",
            f"query = {text.load('query', 'head', 'at', s.rows)}",
            f"scores = tl.dot(key, query.T) * {text.scale}",
            indent=indent,
        )
        text.add_mask("scores", "rows[None, :]", "columns[:, None]", indent)
        if masked:
            text.hide("scores", "rows[None, :]", "columns[:, None]", indent)
        weights = "tl.exp2(scores - total[None, :])"
        weights = weights if text.whole_rows else f"tl.where(rows[None, :] < {text.length}, {weights}, 0.0)"
        text.add(
            f"total = {text.base('rows')} * {LOG2E}",
            f"weights = {weights}",
            f"dy = {text.load('dy', 'head', 'at', s.rows)}",
            indent=indent,
        )
        kept = text.drop("weights", "kept", "rows[None, :]", "columns[:, None]", indent)
        direct = text.drop("tl.dot(value, dy.T)", "direct", "rows[None, :]", "columns[:, None]", indent)
        delta = text.statistics("delta", "rows")  # read late: it would take registers
        text.add(
            f"dvalue = tl.dot({kept}.to({text.element}), dy, dvalue)",
            f"slope = weights * ({direct} - {delta}[None, :])",
            f"dkey = tl.dot(slope.to({text.element}), query, dkey)",
            indent=indent,
        )

    for first, end, masked in _row_bounds(text):
        text.add(f"for at in range({first}, {end}, {s.rows}):", indent=inside)
        body(masked, inside + 1)
    for name, value in (("dkey", f"(dkey * {text.scale / LOG2E})"), ("dvalue", "dvalue")):
        text.add(text.store(name, "group", f"start * {s.columns}", value, s.columns))
        text.add_sums(name, "group", f"columns < {text.size}", value)
    return _also(text.finish(s.size, s.columns, s.groups, warps, 2), gradients(filled, s, KEY_SIDE))


def _row_bounds(text: Text) -> list[tuple[str, str, bool]]:
    """The queries that see something of a block of keys at `start * columns`: whole blocks, then masked ones.

    In the other order products wait for each other: the machine code of the second loop then moves sums about.
    """
    rows, columns, length = text.shape.rows, text.shape.columns, text.length
    if not text.causal:
        return [("0", length, False)]
    full = (
        f"tl.minimum((start + 1) * {columns} + {rows - 1}, ({blocks_of(length, rows)}) * {rows}) // {rows} * {rows}"
    )
    return [(full, length, False), (f"start * {columns} // {rows} * {rows}", full, True)]


def _by_query(filled: Filled) -> Source:
    """The gradient by a block of queries."""
    shape, warps = _shape(filled, BLOCK, BLOCK), 4 if _widest(filled) <= 128 else 8
    text, s = Text(filled, shape), shape
    text.take_key()
    width = max(16, power_of_two(s.width))
    for name in ("query", "dy", "key", "value"):
        text.describe(name, s.rows if name in ("query", "dy") else s.columns)
    _program(text, text.length, s.rows, s.heads)
    text.add(
        f"rows = start * {s.rows} + tl.arange(0, {s.rows})",
        f"query = {text.load('query', 'head', f'start * {s.rows}', s.rows)}",
        f"dy = {text.load('dy', 'head', f'start * {s.rows}', s.rows)}",
        f"total = {text.base('rows')} * {LOG2E}",
        f"delta = {text.statistics('delta', 'rows')}",
        f"acc = tl.full(({s.rows}, {width}), 0.0, tl.float32)",
    )

    def body(masked: bool, indent: int) -> None:
        text.add(
            f"key = {text.load('key', f'head // {s.share}', 'at', s.columns)}",
            f"scores = tl.dot(query, key.T) * {text.scale}",
            f"columns = at + tl.arange(0, {s.columns})",
            indent=indent,
        )
        text.add_mask("scores", "rows[:, None]", "columns[None, :]", indent)
        if masked:
            text.hide("scores", "rows[:, None]", "columns[None, :]", indent)
        text.add(
            "weights = tl.exp2(scores - total[:, None])",
            f"value = {text.load('value', f'head // {s.share}', 'at', s.columns)}",
            indent=indent,
        )
        direct = text.drop("tl.dot(dy, value.T)", "direct", "rows[:, None]", "columns[None, :]", indent)
        text.add(
            f"slope = weights * ({direct} - delta[:, None])",
            f"acc = tl.dot(slope.to({text.element}), key, acc)",
            indent=indent,
        )

    _passes(text, body, _key_bounds(text))
    text.add(text.store("dquery", "head", f"start * {s.rows}", f"(acc * {text.scale / LOG2E})", s.rows))
    text.add_sums("dquery", "head", f"rows < {text.length}", f"(acc * {text.scale / LOG2E})")
    return _also(text.finish(s.length, s.rows, s.heads, warps, 2), gradients(filled, s, QUERY_SIDE))


#: How operands and results may lie in memory: rows in vectors; a mask, which is read by elements, in any way.
VIEWS: dict[str, Accepts] = {
    **dict.fromkeys(("query", "key", "value", "out", "dy", "dquery", "dkey", "dvalue"), View.is_vectorizable),
    "mask": lambda view, width: True,
}
#: What sizes of results are, by operands.
SIZES = {
    "out": [("query", 0), ("query", 1), ("query", 2), ("value", 3)],
    "logsumexp": [("query", i) for i in range(3)],
    **{f"d{name}": [(name, i) for i in range(4)] for name in ("query", "key", "value")},
}
FORWARD = (Part("", ("out", "logsumexp"), _forward),)
register_template("attention", Template(_fits, FORWARD, VIEWS, sizes=SIZES))
#: Gradients added up over batch and positions, a part for each block.
SUMS = dict.fromkeys(("dquery", "dkey", "dvalue"), Sums((1, 3), lambda shape: shape[0] * -(-shape[2] // BLOCK)))
BACKWARD = (Part("key", ("dkey", "dvalue"), _by_key), Part("query", ("dquery",), _by_query))
register_template("attention_grad", Template(_fits, BACKWARD, VIEWS, SUMS, SIZES))
