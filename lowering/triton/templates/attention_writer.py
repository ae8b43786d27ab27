"""The sizes of an attention call, and a writer of Triton source for operations on blocks of its tensors.

Sizes may be dynamic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from oneflow.dialect.philox import kept_scale
from oneflow.lowering.targets.instructions import MIN_DOT_SIDE
from oneflow.lowering.triton.codegen.emission import origins
from oneflow.lowering.triton.codegen.kernel import TYPES
from oneflow.lowering.triton.codegen.prelude import definitions, preamble
from oneflow.lowering.triton.source import Source, Statement
from oneflow.lowering.triton.symbolic_sizes import Size, TileCount, cdiv, power_of_two
from oneflow.lowering.triton.templates.outline_templates import TemplateInstance

LOG2E = math.log2(math.e)
#: The tensors that have a row for each query; the others have a row for each key.
BY_QUERY = frozenset({"query", "out", "dy", "dquery"})


@dataclass(frozen=True)
class AttentionShape:
    """The sizes of one call, some of which may be dynamic, and of its blocks.

    Attributes:
        batch, heads, key_heads: fewer key heads than heads are grouped-query attention.
        query_length, key_length: the sequence lengths.
        width, value_width: of a query and key head, and of a value head.
        query_block, key_block: the queries and the keys of a block.
    """

    batch: Size
    heads: int
    key_heads: int
    query_length: Size
    key_length: Size
    width: int
    value_width: int
    query_block: int
    key_block: int

    @property
    def heads_per_key(self) -> int:
        """The query heads that share a key head."""
        return self.heads // self.key_heads


class AttentionWriter:
    """Writes the source of one attention kernel. Methods that return `str` return Triton expressions."""

    def __init__(self, instance: TemplateInstance, shape: AttentionShape) -> None:
        self.instance, self.shape = instance, shape
        self.lines: list[Statement] = []
        self.calls: set[str] = set()
        self.with_descriptor: set[str] = set()
        self.causal = bool(instance.attributes["causal"])
        self.scale = float(instance.attributes["scale"]) * LOG2E
        self.rate = float(np.float32(instance.attributes["rate"]))
        self.element = f"tl.{TYPES[instance.tensors['query'].element]}"
        self.query_length = self._size("length", shape.query_length)
        self.key_length = self._size("size", shape.key_length)

    def _size(self, name: str, size: Size) -> Size:
        """A size; a dynamic size becomes the variable `name`, in 32 bits like block indices."""
        if size.static is None:
            self.add(f"{name} = {size.atom}.to(tl.int32)")
        return Size.of(name) if size.static is None else size

    def add(self, *lines: str, indent: int = 0) -> None:
        """Adds lines."""
        self.lines += ["    " * indent + line for line in lines]

    def call(self, function: str) -> str:
        """The name of a function of the prelude, for a line that calls it."""
        self.calls.add(function)
        return function

    def add_descriptor(self, name: str, rows: int) -> None:
        """Adds the descriptor `block_<name>` of blocks of a tensor (batch, heads, length, width)."""
        self.with_descriptor.add(name)
        tensor = self.instance.tensors[name]
        # The order is the order of the logical dimensions, whatever the strides: a block has to be (rows, width).
        block = (1, 1, rows, self._width(name))
        descriptor = tensor.descriptor(f"block_{name}", block)
        if descriptor is not None:
            self.lines.append(descriptor)
            return
        lists = ", ".join(f"[{', '.join(map(str, part))}]" for part in (tensor.shape, tensor.strides, block))
        self.add(f"block_{name} = tl.make_tensor_descriptor({tensor.pointer}, {lists})")

    def load(self, name: str, head: str, start: str, rows: int) -> str:
        """Loads a block of a tensor, by its descriptor where it has one."""
        width = self._width(name)
        if name in self.with_descriptor:
            return f"block_{name}.load([batch, {head}, {start}, 0]).reshape({rows}, {width})"
        addresses, inside = self._block(name, head, start, rows)
        return f"tl.load({addresses}, {inside}, 0.0)" if inside else f"tl.load({addresses})"

    def store(self, name: str, head: str, start: str, value: str, rows: int) -> str:
        """Stores `value` to a block of a tensor."""
        addresses, inside = self._block(name, head, start, rows)
        return f"tl.store({addresses}, {value}.to({self.element}){f', {inside}' if inside else ''})"

    def add_partial_sums(self, name: str, head: str, rows: str, value: str) -> None:
        """Adds the store of a block's sums over its rows, if the call has such sums; `rows` is the mask of rows."""
        sums = self.instance.tensors.get(f"{name}_sums")
        if sums is None:
            return
        width, lanes = self.instance.tensors[name].shape[3], f"tl.arange(0, {self._width(name)})"
        parts, count = (size.static or 1 for size in sums.shape)
        first = f"(batch * {parts // (self.shape.batch.static or 1)} + block_index) * {count} + {head} * {width}"
        total = f"tl.sum(tl.where(({rows})[:, None], {value}, 0.0), 0)"
        self.add(f"tl.store({sums.name} + {first} + {lanes}, {total}, {lanes} < {width})")

    def _width(self, name: str) -> int:
        return max(MIN_DOT_SIDE, power_of_two(self.instance.tensors[name].shape[3].static or 0))

    def _block(self, name: str, head: str, start: str, rows: int) -> tuple[str, str]:
        """The addresses of a block's elements, and the mask of the elements that exist (empty: all)."""
        tensor, full = self.instance.tensors[name], self._width(name)
        width, length = tensor.shape[3].static, self.query_length if name in BY_QUERY else self.key_length
        lines, lanes = f"({start} + tl.arange(0, {rows}))[:, None]", f"tl.arange(0, {full})[None, :]"
        by_batch, by_head, by_line, _ = (stride.factor for stride in tensor.strides)
        first = f"batch.to(tl.int64) * {by_batch} + ({head}).to(tl.int64) * {by_head}"
        inside = [] if is_divisible(length, rows) else [f"({lines} < {length})"]
        inside += [] if width == full else [f"({lanes} < {width})"]
        return f"{tensor.pointer} + {first} + {lines}.to(tl.int64) * {by_line} + {lanes}", " & ".join(inside)

    def row_statistics(self, name: str, positions: str) -> str:
        """Loads a statistic (logsumexp, delta) of the queries at `positions`, 0 after the last query."""
        tensor = self.instance.tensors[name]
        inside = "" if self.has_whole_query_blocks else f", {positions} < {self.query_length}, 0.0"
        return f"tl.load({tensor.name} + {self.row} + {positions}{inside})"

    def softmax_base(self, positions: str) -> str:
        """The logsumexp of the queries at `positions`, to which weights are relative; 0 for fully masked queries."""
        logsumexp = self.row_statistics("logsumexp", positions)
        return f"{self.call('softmax_base')}({logsumexp})" if "mask" in self.instance.tensors else logsumexp

    @property
    def has_whole_query_blocks(self) -> bool:
        """Whether the blocks of queries are known to be whole."""
        return is_divisible(self.query_length, self.shape.query_block)

    @property
    def row(self) -> str:
        """The index of a head's first query among the queries of all heads."""
        return f"(batch * {self.shape.heads} + head) * {self.query_length}"

    def add_mask(self, target: str, rows: str, columns: str, indent: int) -> None:
        """Adds the mask, if any, to the scores `target`; `rows` and `columns` are positions that broadcast."""
        mask = self.instance.tensors.get("mask")
        if mask is None:
            return
        names = ("batch", "head", rows, columns)[4 - len(mask.shape) :]
        dims = zip(names, mask.shape, mask.strides, strict=True)
        parts = [f"{n} * {stride.factor}" for n, size, stride in dims if stride.static != 0 and size.static != 1]
        inside = f"({rows} < {self.query_length}) & ({columns} < {self.key_length})"
        addresses = " + ".join([mask.pointer, *parts, f"({rows} + {columns}) * 0"])
        self.add(f"{target} += tl.load({addresses}, {inside}, 0.0).to(tl.float32) * {LOG2E}", indent=indent)

    def mask_scores(self, target: str, rows: str, columns: str, indent: int) -> None:
        """Sets scores beyond the last key, and with `causal` those after the diagonal, to -inf."""
        visible = f"{columns} < {self.key_length}"
        visible = f"({visible}) & ({columns} <= {rows})" if self.causal else visible
        self.add(f'{target} = tl.where({visible}, {target}, float("-inf"))', indent=indent)

    def load_seed(self) -> None:
        """Adds the load of the random seed, where there is dropout."""
        if not self.rate:
            return
        seed = f"tl.full((), {int(self.instance.attributes['seed'])}, tl.int64)"
        offset = self.instance.tensors.get("offset")
        self.add(f"philox_key = {seed}" + (f" + tl.load({offset.name})" if offset is not None else ""))

    def apply_dropout(self, target: str, result: str, rows: str, columns: str, indent: int) -> str:
        """Adds dropout of `target`, scaled by 1 / (1 - rate), as the variable `result`; without dropout `target`."""
        if not self.rate:
            return target
        s, attributes = self.shape, self.instance.attributes
        _, heads, length, size = attributes["logical_shape"] or (s.batch, s.heads, self.query_length, self.key_length)
        batch, head, row, column = attributes["logical_begin"] or (0, 0, 0, 0)
        first = f"((batch + {batch}).to(tl.int64) * {heads} + head + {head}) * {length}"
        positions = f"({first} + {rows} + {row}) * {size} + {columns} + {column}"
        kept = f"{self.call('philox_bits')}({positions}, philox_key) >= {math.ceil(self.rate * 2**24)}"
        self.add(f"{result} = tl.where({kept}, {target} * {kept_scale(self.rate)}, 0.0)", indent=indent)
        return result

    def to_source(self, size: Size, block: int, heads: int, warps: int, stages: int) -> Source:
        """The source of the kernel, which has a program for each `block` of the `size` rows of each of `heads`."""
        kernel, s = self.instance.kernel, self.shape
        programs = TileCount.of(size, block) * TileCount.of(s.batch) * TileCount.of(heads)
        return Source(
            kernel.name, tuple(kernel.parameters), programs, tuple(self.lines), warps, stages,
            origins=origins([kernel.func]), preamble=preamble(self.calls), functions=definitions(self.calls),
            has_dot=True,
        )  # fmt: skip


def block_count(size: Size, block: int) -> str:
    """The expression of `size` / `block`, rounded up."""
    return f"({size} + {block - 1}) // {block}" if size.static is None else str(cdiv(size.static, block))


def is_divisible(size: Size, block: int) -> bool:
    """Whether `size` is known to be a multiple of `block`."""
    return size.static is not None and size.static % block == 0


def round_down(size: Size, block: int) -> str:
    """The expression of the largest multiple of `block` that is at most `size`."""
    return f"{size} // {block} * {block}" if size.static is None else str(size.static // block * block)
