"""Writing MLIR as text: names, constants, nesting.

The emitters write text, since the text reads like the program that it generates, and parsing is cheap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

#: A size or an index: a constant, or the SSA name of an `index` value.
Index = int | str

#: The type of memory arguments of kernels: bytes.
POINTER = "memref<1xi8>"


def reference(symbol: str) -> str:
    """A symbol in MLIR text; a symbol may have any characters."""
    escaped = re.sub(r'["\\\x00-\x1f\x7f]', lambda match: f"\\{ord(match[0]):02X}", symbol)
    return f'@"{escaped}"'


@dataclass
class Writer:
    """The lines of one function; constants go to `head`, everything else to the current block."""

    head: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    _constants: dict[tuple[str, str], str] = field(default_factory=dict)
    _count: int = 0

    def fresh(self) -> str:
        """A new SSA name."""
        self._count += 1
        return f"%{self._count}"

    def line(self, text: str) -> None:
        """Adds an operation without results."""
        self.lines.append(text)

    def op(self, text: str) -> str:
        """Adds an operation with one result; returns the result's name."""
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, value: str, type_text: str) -> str:
        """A constant of a type, written once per function."""
        key = (value, type_text)
        if key not in self._constants:
            self._constants[key] = self.fresh()
            typed = value if type_text == "i1" else f"{value} : {type_text}"
            self.head.append(f"{self._constants[key]} = arith.constant {typed}")
        return self._constants[key]

    def index(self, value: Index) -> str:
        """The name of an index value."""
        return value if isinstance(value, str) else self.constant(str(value), "index")

    def add(self, a: Index, b: Index) -> Index:
        """a + b, folded where possible."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if 0 in (a, b):
            return a if b == 0 else b
        return self.op(f"arith.addi {self.index(a)}, {self.index(b)} : index")

    def mul(self, a: Index, b: Index) -> Index:
        """a * b, folded where possible."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if 1 in (a, b):
            return a if b == 1 else b
        return self.op(f"arith.muli {self.index(a)}, {self.index(b)} : index")

    def binary(self, kind: str, a: Index, b: Index) -> str:
        """An `arith` operation on indices, such as `subi`, `ceildivui`, `remui` or `minui`."""
        return self.op(f"arith.{kind} {self.index(a)}, {self.index(b)} : index")

    def ceildiv(self, a: Index, b: int) -> Index:
        """a / b rounded up."""
        return -(-a // b) if isinstance(a, int) else self.binary("ceildivui", a, b)

    def floor_to(self, a: Index, b: int) -> Index:
        """The largest multiple of b that is at most a."""
        return a // b * b if isinstance(a, int) else self.binary("subi", a, self.binary("remui", a, b))

    def product(self, sizes: Sequence[Index]) -> Index:
        """The product of sizes."""
        result: Index = 1
        for size in sizes:
            result = self.mul(result, size)
        return result

    @contextmanager
    def block(self, opening: str, closing: str = "}") -> Iterator[None]:
        """Nests lines between `opening` and `closing`."""
        self.lines.append(opening)
        yield
        self.lines.append(closing)

    @contextmanager
    def buffered(self) -> Iterator[list[str]]:
        """Collects the lines written inside instead of adding them."""
        enclosing, self.lines = self.lines, []
        try:
            yield self.lines
        finally:
            self.lines = enclosing

    @contextmanager
    def at_head(self) -> Iterator[None]:
        """Moves the lines written inside to the head of the function."""
        with self.buffered() as lines:
            yield
        self.head.extend(lines)

    def text(self) -> str:
        """All lines."""
        return "\n".join([*self.head, *self.lines])


def memory_type(element: str) -> str:
    """The type of an element in memory: a bool is one byte."""
    return "i8" if element == "i1" else element


@dataclass(frozen=True)
class MemRef:
    """A memref in the text: its SSA name and its type."""

    name: str
    type: str

    def at(self, indices: Sequence[str]) -> str:
        """The operand of a load or store: the memref with its indices."""
        return f"{self.name}[{', '.join(indices)}]"


def memref_type(shape: Sequence[Index], element: str) -> str:
    """The memref type of a shape; sizes that are SSA names are dynamic."""
    dims = "".join(f"{'?' if isinstance(s, str) else s}x" for s in shape)
    return f"memref<{dims}{element}>"


def view(writer: Writer, pointer: str, shape: Sequence[Index], element: str) -> MemRef:
    """A contiguous memref of the memory at `pointer`."""
    kind = memref_type(shape, element)
    sizes = ", ".join(s for s in shape if isinstance(s, str))
    return MemRef(writer.op(f"memref.view {pointer}[{writer.index(0)}][{sizes}] : {POINTER} to {kind}"), kind)
