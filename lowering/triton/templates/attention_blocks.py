"""What kernels of attention are written with: sizes of a call, and the text of what is done to blocks of its
tensors.

Sizes may be known only at run time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from oneflow.dialect.philox import kept_scale
from oneflow.lowering.triton.codegen.emission import origins
from oneflow.lowering.triton.codegen.kernel import TYPES
from oneflow.lowering.triton.codegen.prelude import kernel_source
from oneflow.lowering.triton.codegen.symbolic_sizes import Size, power_of_two
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import Source, TensorDescriptor
from oneflow.lowering.triton.templates.outline_templates import Filled

LOG2E = math.log2(math.e)
#: The tensors that have a row for each query; the others have one for each key.
BY_QUERY = frozenset({"query", "out", "dy", "dquery"})


@dataclass(frozen=True)
class Shape:
    """Sizes of one call, and blocks: `rows` queries by `columns` keys. Some may be known only at run time."""

    batch: Size
    heads: int
    groups: int
    length: Size
    size: Size
    width: int
    out: int
    rows: int
    columns: int

    @property
    def share(self) -> int:
        """The query heads of a group."""
        return self.heads // self.groups


class Text:
    """The lines of one kernel, with what its parts have in common."""

    def __init__(self, filled: Filled, shape: Shape) -> None:
        self.filled, self.shape = filled, shape
        self.lines: list[str] = []
        self.described: set[str] = set()
        self.descriptors: list[TensorDescriptor] = []
        self.causal = bool(filled.attributes["causal"])
        self.scale = float(filled.attributes["scale"]) * LOG2E
        self.rate = float(np.float32(filled.attributes["rate"]))
        self.element = f"tl.{TYPES[filled.tensors['query'].element]}"
        self.length, self.size = self._take("length", shape.length), self._take("size", shape.size)

    def _take(self, name: str, size: Size) -> str:
        """The text of a size; one that is a parameter is `name`, in 32 bits as blocks are counted in."""
        if size.static is None:
            self.add(f"{name} = {size.atom}.to(tl.int32)")
        return name if size.static is None else str(size)

    def add(self, *lines: str, indent: int = 0) -> None:
        """Writes lines."""
        self.lines += ["    " * indent + line for line in lines]

    def describe(self, name: str, rows: int) -> None:
        """The descriptor `block_<name>` of blocks of a tensor (batch, heads, length, width), for use in a loop."""
        self.described.add(name)
        tensor = self.filled.tensors[name]
        # In this order, however the tensor lies: a block's rows have to be beside their elements.
        block = (1, 1, rows, self._width(name))
        made = tensor.descriptor(f"block_{name}", block)
        if made is not None:
            self.descriptors.append(made)
            self.add(str(made))
            return
        lists = ", ".join(f"[{', '.join(map(str, part))}]" for part in (tensor.shape, tensor.strides, block))
        self.add(f"block_{name} = tl.make_tensor_descriptor({tensor.pointer}, {lists})")

    def load(self, name: str, head: str, start: str, rows: int) -> str:
        """The text of a block of a tensor, by its descriptor where it has one."""
        width = self._width(name)
        if name in self.described:
            return f"block_{name}.load([batch, {head}, {start}, 0]).reshape({rows}, {width})"
        place, inside = self._block(name, head, start, rows)
        return f"tl.load({place}, {inside}, 0.0)" if inside else f"tl.load({place})"

    def store(self, name: str, head: str, start: str, value: str, rows: int) -> str:
        """The text that writes a block of a tensor."""
        place, inside = self._block(name, head, start, rows)
        return f"tl.store({place}, {value}.to({self.element}){f', {inside}' if inside else ''})"

    def add_sums(self, name: str, head: str, rows: str, value: str) -> None:
        """Writes the sums of a block over its rows, where these are wanted; `rows` says which of them there are."""
        sums = self.filled.tensors.get(f"{name}_sums")
        if sums is None:
            return
        width, lanes = self.filled.tensors[name].shape[3], f"tl.arange(0, {self._width(name)})"
        parts, count = (size.static or 1 for size in sums.shape)
        first = f"(batch * {parts // (self.shape.batch.static or 1)} + start) * {count} + {head} * {width}"
        total = f"tl.sum(tl.where(({rows})[:, None], {value}, 0.0), 0)"
        self.add(f"tl.store({sums.name} + {first} + {lanes}, {total}, {lanes} < {width})")

    def _width(self, name: str) -> int:
        return max(16, power_of_two(self.filled.tensors[name].shape[3].static or 0))

    def _block(self, name: str, head: str, start: str, rows: int) -> tuple[str, str]:
        """Where the elements of a block are, and which of them there are."""
        tensor, full = self.filled.tensors[name], self._width(name)
        width, length = tensor.shape[3].static, self.length if name in BY_QUERY else self.size
        lines, lanes = f"({start} + tl.arange(0, {rows}))[:, None]", f"tl.arange(0, {full})[None, :]"
        by_batch, by_head, by_line, _ = (stride.factor for stride in tensor.strides)
        first = f"batch.to(tl.int64) * {by_batch} + ({head}).to(tl.int64) * {by_head}"
        inside = [] if are_whole(length, rows) else [f"({lines} < {length})"]
        inside += [] if width == full else [f"({lanes} < {width})"]
        return f"{tensor.pointer} + {first} + {lines}.to(tl.int64) * {by_line} + {lanes}", " & ".join(inside)

    def statistics(self, name: str, place: str) -> str:
        """The text of a number for each query of a block, 0 after the last; `place` are positions."""
        tensor = self.filled.tensors[name]
        inside = "" if self.whole_rows else f", {place} < {self.length}, 0.0"
        return f"tl.load({tensor.name} + {self.row} + {place}{inside})"

    def base(self, place: str) -> str:
        """The text of what weights are taken relative to, by query: 0 where a mask can hide all that one sees."""
        found = self.statistics("logsumexp", place)
        return f"base_of({found})" if "mask" in self.filled.tensors else found

    @property
    def whole_rows(self) -> bool:
        """Whether all blocks of queries are whole."""
        return are_whole(self.length, self.shape.rows)

    @property
    def row(self) -> str:
        """The text of the number of a head's first query among all."""
        return f"(batch * {self.shape.heads} + head) * {self.length}"

    def add_mask(self, target: str, rows: str, columns: str, indent: int) -> None:
        """Adds the mask's block, where there is one; `rows` and `columns` are positions that broadcast."""
        mask = self.filled.tensors.get("mask")
        if mask is None:
            return
        names = ("batch", "head", rows, columns)[4 - len(mask.shape) :]
        walked = zip(names, mask.shape, mask.strides, strict=True)
        parts = [f"{n} * {stride.factor}" for n, size, stride in walked if stride.static != 0 and size.static != 1]
        inside = f"({rows} < {self.length}) & ({columns} < {self.size})"
        place = " + ".join([mask.pointer, *parts, f"({rows} + {columns}) * 0"])
        self.add(f"{target} += tl.load({place}, {inside}, 0.0).to(tl.float32) * {LOG2E}", indent=indent)

    def hide(self, target: str, rows: str, columns: str, indent: int) -> None:
        """Makes scores that do not count -inf."""
        seen = f"{columns} < {self.size}"
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
        _, heads, length, size = attributes["logical_shape"] or (s.batch, s.heads, self.length, self.size)
        batch, head, row, column = attributes["logical_begin"] or (0, 0, 0, 0)
        first = f"((batch + {batch}).to(tl.int64) * {heads} + head + {head}) * {length}"
        place = f"({first} + {rows} + {row}) * {size} + {columns} + {column}"
        kept = f"drawn({place}, drawn_by) >= {math.ceil(self.rate * 2**24)}"
        self.add(f"{result} = tl.where({kept}, {target} * {kept_scale(self.rate)}, 0.0)", indent=indent)
        return result

    def finish(self, size: Size, block: int, heads: int, warps: int, stages: int) -> Source:
        """The source of the kernel, which has a program for each block of `size` rows of each of `heads`."""
        kernel, s = self.filled.kernel, self.shape
        blocks = Size.of(f"cdiv({size}, {block})" if size.static is None else -(-size.static // block))
        programs = str(blocks * s.batch * Size.of(heads))
        names = [n for n, _ in kernel.parameters]
        text = kernel_source(identifier(kernel.name), origins([kernel.func]), names, self.lines)
        parameters = tuple(kernel.parameters)
        return Source(kernel.name, text, parameters, programs, warps, stages, descriptors=tuple(self.descriptors))


def blocks_of(size: str, block: int) -> str:
    """The text of how many blocks have all of `size` rows."""
    return str(-(-int(size) // block)) if size.isdigit() else f"({size} + {block - 1}) // {block}"


def are_whole(size: str, block: int) -> bool:
    """Whether `size` rows are known to be whole blocks."""
    return size.isdigit() and int(size) % block == 0


def whole_of(size: str, block: int) -> str:
    """The text of how many of `size` rows are in whole blocks."""
    return str(int(size) // block * block) if size.isdigit() else f"{size} // {block} * {block}"
