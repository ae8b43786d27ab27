"""Attention without its weights in memory: forward, and backward in one kernel by keys and one by queries.

Scores are kept in units of log 2, so that exponentials are one instruction. A program has a block of queries (or
keys) and goes over blocks of keys (or queries); with `causal` those that nothing is seen of are left out, and only
those on the diagonal and at the end are masked. Heads that share keys follow each other. Imports `templates`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect.philox import kept_scale
from oneflow.dialect.record import Call
from oneflow.lowering.triton.finish import origins
from oneflow.lowering.triton.kernel import TYPES
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.prelude import kernel_source
from oneflow.lowering.triton.sizes import power_of_two
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.templates import Accepts, Filled, Part, Sums, Template, is_half, register_template
from oneflow.lowering.triton.views import View

LOG2E = math.log2(math.e)
#: The widths of heads that fit.
LEAST, MOST = 8, 256
#: The queries and the keys of a block of the backward kernels.
BLOCK = 64


@dataclass(frozen=True)
class Shape:
    """Sizes of one call, and blocks: `rows` queries by `columns` keys."""

    batch: int
    heads: int
    groups: int
    length: int
    size: int
    width: int
    out: int
    rows: int
    columns: int

    @property
    def share(self) -> int:
        """The query heads of a group."""
        return self.heads // self.groups


def _fits(call: Call) -> bool:
    """Whether a call is one of the kernels': 16-bit floats, widths that are whole vectors, something to do."""
    (_, _, length, width), (_, _, size, out) = call.query.shape, call.value.shape
    whole = all(n % 8 == 0 and LEAST <= n <= MOST for n in (width, out))
    return is_half(call.query) and whole and min(length, size, *call.query.shape[:2]) > 0


def _shape(filled: Filled, rows: int, columns: int) -> Shape:
    query, key, value = (tuple(s.static or 0 for s in filled.tensors[n].shape) for n in ("query", "key", "value"))
    return Shape(query[0], query[1], key[1], query[2], key[2], query[3], value[3], rows, columns)


class Text:
    """The lines of one kernel, with what its parts have in common."""

    def __init__(self, filled: Filled, shape: Shape) -> None:
        self.filled, self.shape = filled, shape
        self.lines: list[str] = []
        self.described: set[str] = set()
        self.causal = bool(filled.attributes["causal"])
        self.scale = float(filled.attributes["scale"]) * LOG2E
        self.rate = float(np.float32(filled.attributes["rate"]))
        self.element = f"tl.{TYPES[filled.tensors['query'].element]}"

    def add(self, *lines: str, indent: int = 0) -> None:
        """Writes lines."""
        self.lines += ["    " * indent + line for line in lines]

    def describe(self, name: str, rows: int) -> None:
        """The descriptor `block_<name>` of blocks of a tensor (batch, heads, length, width), for use in a loop."""
        self.described.add(name)
        tensor = self.filled.tensors[name]
        parts = (tensor.shape, tensor.strides, ("1", "1", rows, self._width(name)))
        lists = ", ".join(self._in_memory(name, part) for part in parts)
        self.add(f"block_{name} = tl.make_tensor_descriptor({tensor.pointer}, {lists})")

    def load(self, name: str, head: str, start: str, rows: int) -> str:
        """The text of a block of a tensor, by its descriptor where it has one."""
        width = self._width(name)
        if name in self.described:
            place = self._in_memory(name, ("batch", head, start, "0"))
            return f"block_{name}.load({place}).reshape({rows}, {width})"
        place, inside = self._block(name, head, start, rows)
        return f"tl.load({place}, {inside}, 0.0)"

    def store(self, name: str, head: str, start: str, value: str, rows: int) -> str:
        """The text that writes a block of a tensor."""
        place, inside = self._block(name, head, start, rows)
        return f"tl.store({place}, {value}.to({self.element}), {inside})"

    def add_sums(self, name: str, head: str, rows: str, value: str) -> None:
        """Writes the sums of a block over its rows, where these are wanted; `rows` says which of them there are."""
        sums = self.filled.tensors.get(f"{name}_sums")
        if sums is None:
            return
        width, lanes = self.filled.tensors[name].shape[3], f"tl.arange(0, {self._width(name)})"
        parts, count = (size.static or 1 for size in sums.shape)
        first = f"(batch * {parts // self.shape.batch} + start) * {count} + {head} * {width}"
        total = f"tl.sum(tl.where(({rows})[:, None], {value}, 0.0), 0)"
        self.add(f"tl.store({sums.name} + {first} + {lanes}, {total}, {lanes} < {width})")

    def _width(self, name: str) -> int:
        return max(16, power_of_two(self.filled.tensors[name].shape[3].static or 0))

    def _in_memory(self, name: str, parts: Sequence[Any]) -> str:
        """The text of a list with one part for each dimension of a tensor, in the order of memory."""
        view = self.filled.tensors[name].view
        return f"[{', '.join(str(parts[i]) for i in (view.order if view is not None else range(4)))}]"

    def _block(self, name: str, head: str, start: str, rows: int) -> tuple[str, str]:
        """Where the elements of a block are, and which of them there are."""
        tensor = self.filled.tensors[name]
        (*_, length, width), full = (s.static or 0 for s in tensor.shape), self._width(name)
        lines, lanes = f"({start} + tl.arange(0, {rows}))[:, None]", f"tl.arange(0, {full})[None, :]"
        by_batch, by_head, by_line, _ = tensor.strides
        first = f"batch.to(tl.int64) * {by_batch} + ({head}).to(tl.int64) * {by_head}"
        inside = f"{lines} < {length}" if width == full else f"({lines} < {length}) & ({lanes} < {width})"
        return f"{tensor.pointer} + {first} + {lines}.to(tl.int64) * {by_line} + {lanes}", inside

    def statistics(self, name: str, place: str) -> str:
        """The text of a number for each query of a block, 0 after the last; `place` are positions."""
        tensor = self.filled.tensors[name]
        heads, length = self.shape.heads, self.shape.length
        first = f"(batch * {heads} + head) * {length}"
        return f"tl.load({tensor.name} + {first} + {place}, {place} < {length}, 0.0)"

    def add_mask(self, target: str, rows: str, columns: str, indent: int) -> None:
        """Adds the mask's block, where there is one; `rows` and `columns` are positions that broadcast."""
        mask = self.filled.tensors.get("mask")
        if mask is None:
            return
        names = ("batch", "head", rows, columns)[4 - len(mask.shape) :]
        walked = zip(names, mask.shape, (s.static for s in mask.strides), strict=True)
        parts = [f"{n} * {stride}" for n, size, stride in walked if stride and size.static != 1]
        inside = f"({rows} < {self.shape.length}) & ({columns} < {self.shape.size})"
        place = " + ".join([mask.pointer, *parts, f"({rows} + {columns}) * 0"])
        self.add(f"{target} += tl.load({place}, {inside}, 0.0).to(tl.float32) * {LOG2E}", indent=indent)

    def hide(self, target: str, rows: str, columns: str, indent: int) -> None:
        """Makes scores that do not count -inf."""
        seen = f"{columns} < {self.shape.size}"
        seen = f"({seen}) & ({columns} <= {rows})" if self.causal else seen
        self.add(f'{target} = tl.where({seen}, {target}, float("-inf"))', indent=indent)

    def take_key(self) -> None:
        """Reads the key of what is drawn, where weights are dropped."""
        if not self.rate:
            return
        seed = f"tl.full((), {int(self.filled.attributes['seed'])}, tl.int64)"
        offset = self.filled.tensors.get("offset")
        self.add(f"drawn_by = {seed}" + (f" + tl.load({offset.name})" if offset is not None else ""))

    def drop(self, target: str, result: str, rows: str, columns: str, indent: int) -> str:
        """The text of `target` without what is dropped of a block of weights, the rest multiplied: by `result`."""
        if not self.rate:
            return target
        s, attributes = self.shape, self.filled.attributes
        _, heads, length, size = attributes["logical_shape"] or (s.batch, s.heads, s.length, s.size)
        batch, head, row, column = attributes["logical_begin"] or (0, 0, 0, 0)
        first = f"((batch + {batch}).to(tl.int64) * {heads} + head + {head}) * {length}"
        place = f"({first} + {rows} + {row}) * {size} + {columns} + {column}"
        kept = f"drawn({place}, drawn_by) >= {math.ceil(self.rate * 2**24)}"
        self.add(f"{result} = tl.where({kept}, {target} * {kept_scale(self.rate)}, 0.0)", indent=indent)
        return result

    def finish(self, programs: int, warps: int, stages: int) -> Source:
        """The source of the kernel."""
        kernel = self.filled.kernel
        names = [n for n, _ in kernel.parameters]
        text = kernel_source(identifier(kernel.name), origins([kernel.func]), names, self.lines)
        return Source(kernel.name, text, tuple(kernel.parameters), str(programs), warps, stages)


def _program(text: Text, blocks: int, heads: int, head: str = "head") -> None:
    """Which block of which head a program has: those of one head together, so that its keys stay in the cache.

    With `causal` the last blocks, which have most to do, come first.
    """
    number = f"tl.program_id(0) % {blocks}"
    text.add(
        f"start = {f'{blocks - 1} - {number}' if text.causal and head == 'head' else number}",
        f"batch = tl.program_id(0) // {blocks * heads}",
        f"{head} = tl.program_id(0) // {blocks} % {heads}",
    )


def _passes(text: Text, body: Callable[[bool, int], None], bounds: Sequence[tuple[str, str, int, bool]]) -> None:
    """A loop for each of `bounds` (first, end, step, whether scores are masked)."""
    for first, end, step, masked in bounds:
        if first != end:
            text.add(f"for at in range({first}, {end}, {step}):")
            body(masked, 1)


def _key_bounds(shape: Shape, causal: bool) -> list[tuple[str, str, int, bool]]:
    """The keys that a block of queries at `start * rows` sees: whole blocks, then those that are masked."""
    rows, columns = shape.rows, shape.columns
    whole = shape.size // columns * columns
    if not causal:
        return [("0", str(whole), columns, False), (str(whole), str(shape.size), columns, True)]
    full = f"tl.minimum(start * {rows} // {columns} * {columns}, {whole})"
    return [("0", full, columns, False), (full, f"tl.minimum((start + 1) * {rows}, {shape.size})", columns, True)]


def _forward(filled: Filled) -> Source:
    """out and logsumexp of a block of queries."""
    shape = _shape(filled, 64, 64 if _widest(filled) <= 128 else 32)
    text, s = Text(filled, shape), shape
    text.take_key()
    blocks = -(-s.length // s.rows)
    out = max(16, power_of_two(s.out))
    for name in ("key", "value"):
        text.describe(name, s.columns)
    _program(text, blocks, s.heads)
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
        safe = 'tl.where(grown == float("-inf"), 0.0, grown)' if guard else "grown"
        text.add(
            f"base = {safe}",
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

    _passes(text, body, _key_bounds(s, text.causal))
    statistics = filled.tensors["logsumexp"]
    text.add(
        text.store("out", "head", f"start * {s.rows}", "(acc / total[:, None])", s.rows),
        f"place = (batch * {s.heads} + head) * {s.length} + rows",
        f"tl.store({statistics.name} + place, most * {math.log(2)} + tl.log(total), rows < {s.length})",
    )
    return text.finish(blocks * s.batch * s.heads, 4, 3)


def _widest(filled: Filled) -> int:
    return max(filled.tensors[n].shape[3].static or 0 for n in ("query", "value"))


def _by_key(filled: Filled) -> Source:
    """The gradients by a block of keys and values, over the queries of every head that shares them."""
    shape, warps = _shape(filled, BLOCK, BLOCK), 4 if _widest(filled) <= 128 else 8
    text, s = Text(filled, shape), shape
    text.take_key()
    blocks = -(-s.size // s.columns)
    width, out = (max(16, power_of_two(n)) for n in (s.width, s.out))
    for name in ("query", "dy"):
        text.describe(name, s.rows)
    _program(text, blocks, s.groups, "group")
    text.add(
        f"columns = start * {s.columns} + tl.arange(0, {s.columns})",
        f"key = {text.load('key', 'group', f'start * {s.columns}', s.columns)}",
        f"value = {text.load('value', 'group', f'start * {s.columns}', s.columns)}",
        f"dkey = tl.full(({s.columns}, {width}), 0.0, tl.float32)",
        f"dvalue = tl.full(({s.columns}, {out}), 0.0, tl.float32)",
        f"for head in range(group * {s.share}, (group + 1) * {s.share}):",
    )

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
        text.add(
            f"total = {text.statistics('logsumexp', 'rows')} * {LOG2E}",
            f"weights = tl.where(rows[None, :] < {s.length}, tl.exp2(scores - total[None, :]), 0.0)",
            f"dy = {text.load('dy', 'head', 'at', s.rows)}",
            f"delta = {text.statistics('delta', 'rows')}",
            indent=indent,
        )
        kept = text.drop("weights", "kept", "rows[None, :]", "columns[:, None]", indent)
        direct = text.drop("tl.dot(value, dy.T)", "direct", "rows[None, :]", "columns[:, None]", indent)
        text.add(
            f"dvalue = tl.dot({kept}.to({text.element}), dy, dvalue)",
            f"slope = weights * ({direct} - delta[None, :])",
            f"dkey = tl.dot(slope.to({text.element}), query, dkey)",
            indent=indent,
        )

    for first, end, masked in _row_bounds(s, text.causal):
        text.add(f"for at in range({first}, {end}, {s.rows}):", indent=1)
        body(masked, 2)
    for name, value in (("dkey", f"(dkey * {text.scale / LOG2E})"), ("dvalue", "dvalue")):
        text.add(text.store(name, "group", f"start * {s.columns}", value, s.columns))
        text.add_sums(name, "group", f"columns < {s.size}", value)
    return text.finish(blocks * s.batch * s.groups, warps, 2)


def _row_bounds(shape: Shape, causal: bool) -> list[tuple[str, str, bool]]:
    """The queries that see something of a block of keys at `start * columns`: masked blocks, then whole ones."""
    rows, columns = shape.rows, shape.columns
    if not causal:
        return [("0", str(shape.length), False)]
    full = f"tl.minimum((start + 1) * {columns} + {rows - 1}, {-(-shape.length // rows) * rows}) // {rows} * {rows}"
    return [(f"start * {columns} // {rows} * {rows}", full, True), (full, str(shape.length), False)]


def _by_query(filled: Filled) -> Source:
    """The gradient by a block of queries."""
    shape, warps = _shape(filled, BLOCK, BLOCK), 4 if _widest(filled) <= 128 else 8
    text, s = Text(filled, shape), shape
    text.take_key()
    blocks, width = -(-s.length // s.rows), max(16, power_of_two(s.width))
    for name in ("query", "dy", "key", "value"):
        text.describe(name, s.rows if name in ("query", "dy") else s.columns)
    _program(text, blocks, s.heads)
    text.add(
        f"rows = start * {s.rows} + tl.arange(0, {s.rows})",
        f"query = {text.load('query', 'head', f'start * {s.rows}', s.rows)}",
        f"dy = {text.load('dy', 'head', f'start * {s.rows}', s.rows)}",
        f"total = {text.statistics('logsumexp', 'rows')} * {LOG2E}",
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

    _passes(text, body, _key_bounds(s, text.causal))
    text.add(text.store("dquery", "head", f"start * {s.rows}", f"(acc * {text.scale / LOG2E})", s.rows))
    text.add_sums("dquery", "head", f"rows < {s.length}", f"(acc * {text.scale / LOG2E})")
    return text.finish(blocks * s.batch * s.heads, warps, 3 if warps == 4 else 2)


#: How operands and results may lie in memory: rows in vectors; a mask, which is read by elements, in any way.
VIEWS: dict[str, Accepts] = {
    **dict.fromkeys(("query", "key", "value", "out", "dy", "dquery", "dkey", "dvalue"), View.in_vectors),
    "mask": lambda view, width: True,
}
register_template("attention", Template(_fits, (Part("", ("out", "logsumexp"), _forward),), VIEWS))
#: Gradients added up over batch and positions, a part for each block.
SUMS = dict.fromkeys(("dquery", "dkey", "dvalue"), Sums((1, 3), lambda shape: shape[0] * -(-shape[2] // BLOCK)))
BACKWARD = (Part("key", ("dkey", "dvalue"), _by_key), Part("query", ("dquery",), _by_query))
register_template("attention_grad", Template(_fits, BACKWARD, VIEWS, SUMS))
