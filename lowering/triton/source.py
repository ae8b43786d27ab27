"""A kernel in Triton or Gluon: its text, the parts of it that other stages use, and how it is launched."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from oneflow.lowering.triton.names import identifier

#: The languages of kernels, and the decorators of their functions.
TRITON, GLUON = "triton", "gluon"
DECORATORS = {TRITON: "@triton.jit\n", GLUON: "@gluon.jit\n"}
#: The expression of a program's number in Triton.
PROGRAM_ID = "tl.program_id(0)"


@dataclass(frozen=True)
class TensorDescriptor:
    """A statement of a kernel that makes the descriptor `name` of a tensor, all of whose sizes are known.

    The tensor begins `offset` elements after the pointer that the parameter `pointer` holds. `shape` and `strides`
    are in elements, outermost dimension first. `block` is the shape of what one load or store copies. `layout` is the
    layout of a block in shared memory as an expression of Gluon, empty in Triton.

        block5 = tl.make_tensor_descriptor(p0 + 64, [8192, 768], [768, 1], [128, 64])
    """

    name: str
    pointer: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    layout: str = ""

    @property
    def expression(self) -> str:
        """The call that makes the descriptor."""
        begin = f"{self.pointer} + {self.offset}" if self.offset else self.pointer
        lists = [str(list(sizes)) for sizes in (self.shape, self.strides, self.block)]
        module = "tma" if self.layout else "tl"
        return f"{module}.make_tensor_descriptor({', '.join([begin, *lists, *filter(None, [self.layout])])})"

    def __str__(self) -> str:
        return f"{self.name} = {self.expression}"

    def of_call(self, call: int) -> TensorDescriptor:
        """The descriptor of call number `call` of a grouped launch: the names end in the number of the call."""
        return replace(self, name=f"{self.name}_{call}", pointer=f"{self.pointer}_{call}")


@dataclass(frozen=True)
class TileLoop:
    """The loop of a persistent kernel: `programs` programs take `tiles` tiles in turn."""

    tiles: int
    programs: int


#: Fields that few sources have, and their defaults.
RARE: dict[str, Any] = {
    "registers": 0, "language": TRITON, "special": {}, "descriptors": (), "tile_loop": None,
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """The Triton form of a kernel.

    The kernel is the last function of `text`. `parameters` are (name, type of a Triton signature). `grid` is the
    number of programs as a Python expression over parameter names (`cdiv` rounds up). `updates[i]` is the operand
    that result `i` overwrites, if any, and `fills[i]` the literal that result `i` has to hold before the launch.
    `registers` is the most registers of a thread, on average; 0 sets no limit. `special` holds forms of the kernel by
    architecture.

    `descriptors` are the statements at the top level of the kernel that make descriptors of parameters, in order.
    Where there is a `tile_loop`, everything after these statements is in that loop. A kernel of a user has neither.
    """

    name: str
    text: str
    parameters: tuple[tuple[str, str], ...]
    grid: str
    warps: int = 4
    stages: int = 3
    updates: dict[int, int] = field(default_factory=dict)
    fills: dict[int, str] = field(default_factory=dict)
    registers: int = 0
    language: str = TRITON
    special: dict[str, Source] = field(default_factory=dict)
    descriptors: tuple[TensorDescriptor, ...] = ()
    tile_loop: TileLoop | None = None

    def on(self, arch: str) -> Source:
        """The form for an architecture."""
        return self.special.get(arch, self)

    @property
    def signature(self) -> str:
        """The lines that begin the kernel: its decorator and its parameters."""
        return signature(self.name, (name for name, _ in self.parameters), self.language)

    @property
    def prelude(self) -> str:
        """The text before the kernel: comments, imports and the functions that it calls."""
        return self.text.rpartition(self.signature)[0]

    @property
    def body(self) -> str:
        """The statements of the kernel, without those that make `descriptors`."""
        body = self.text.rpartition(self.signature)[2]
        for descriptor in self.descriptors:
            body = body.replace(indented([descriptor]), "", 1)
        return body

    def body_for(self, number: str) -> str:
        """`body` with the variable `number` in place of the program's number."""
        return self.body.replace(PROGRAM_ID, number)

    @property
    def tile_body(self) -> str:
        """The statements of the tile loop, as those of a function: one level less deep."""
        _, *statements = self.body.splitlines(keepends=True)
        return "".join(statement.removeprefix("    ") for statement in statements)

    @property
    def meaning(self) -> str:
        """What sources of one binary have in common: all but the name, and the comments on where they come from."""
        text = re.sub("(?m)^#.*", "", self.text).replace(identifier(self.name), "kernel")
        return json.dumps(replace(self, name="", text=text).to_dict())

    def programs(self, arguments: dict[str, int]) -> int:
        """The number of programs for the values of the parameters."""
        return int(eval(self.grid, {"cdiv": cdiv, "max": max}, arguments))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, without those of `RARE` that have their default."""
        return {k: v for k, v in asdict(self).items() if k not in RARE or v != RARE[k]}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Source:
        """The source that `to_dict` described."""
        fields = dict(data)
        fields["parameters"] = tuple((n, t) for n, t in data["parameters"])
        for name in ("updates", "fills"):
            fields[name] = {int(k): v for k, v in data[name].items()}
        fields["special"] = {arch: Source.from_dict(form) for arch, form in data.get("special", {}).items()}
        fields["descriptors"] = tuple(map(_descriptor, data.get("descriptors", ())))
        loop = data.get("tile_loop")
        return Source(**{**fields, "tile_loop": TileLoop(**loop) if loop else None})


def _descriptor(fields: dict[str, Any]) -> TensorDescriptor:
    lists = {name: tuple(fields[name]) for name in ("shape", "strides", "block")}
    return TensorDescriptor(**{**fields, **lists})


def signature(name: str, parameters: Iterable[str], language: str = TRITON) -> str:
    """The decorator of a function and the line that begins its definition."""
    return f"{DECORATORS[language]}def {identifier(name)}({', '.join(parameters)}):\n"


def indented(statements: Sequence[object]) -> str:
    """Statements as the lines of a function."""
    return "".join(f"    {statement}\n" for statement in statements)


def cdiv(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)
