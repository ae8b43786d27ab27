"""A kernel in Triton or Gluon as a value: its functions, its statements, and its launch parameters.

Stages that merge, lift or compare kernels read and replace fields. `Source.text` prints the value, for Triton and for
people; no stage reads that text.
"""

from __future__ import annotations

import functools
import json
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple

from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.symbolic_sizes import TileCount

#: The languages of kernels, and the decorators of their functions.
TRITON, GLUON = "triton", "gluon"
DECORATORS = {TRITON: "@triton.jit\n", GLUON: "@gluon.jit\n"}
#: The expression of the program id, and the placeholder for that expression in a statement. A merged launch prints
#: statements with a variable instead of the placeholder.
PROGRAM_ID, PROGRAM_PLACEHOLDER = "tl.program_id(0)", "$program"
#: The fields that are left out of plain data where they are empty.
OPTIONAL = frozenset(
    {"registers", "origins", "preamble", "functions", "descriptor_only", "has_dot", "specializations"}
)
#: The parameter for the records of failed run-time checks.
FAILURE = "failure"


class Parameter(NamedTuple):
    """A parameter of a kernel: its name, and its type in a Triton signature."""

    name: str
    type: str

    @property
    def is_pointer(self) -> bool:
        """Whether the parameter is a pointer."""
        return self.type.startswith("*")

    @property
    def is_tensor(self) -> bool:
        """Whether the parameter is the pointer of an operand or result."""
        return self.is_pointer and self.name != FAILURE


@dataclass(frozen=True)
class TensorDescriptor:
    """A statement of a kernel that creates the descriptor `name` of a tensor of static sizes.

    The tensor begins `offset` elements after the pointer that the parameter `pointer` holds. `shape` and `strides`
    are in elements, outermost dimension first. `block` is the shape of what one load or store copies. `layout` is the
    layout of a block in shared memory, a call of the module `module` of Gluon; both are empty in Triton.

        block5 = tl.make_tensor_descriptor(p0 + 64, [8192, 768], [768, 1], [128, 64])
    """

    name: str
    pointer: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    layout: str = ""
    module: str = ""

    @property
    def expression(self) -> str:
        """The call that creates the descriptor."""
        begin = f"{self.pointer} + {self.offset}" if self.offset else self.pointer
        lists = [str(list(sizes)) for sizes in (self.shape, self.strides, self.block)]
        layout = [f"{self.module}.{self.layout}"] if self.layout else []
        module = "tma" if self.layout else "tl"
        return f"{module}.make_tensor_descriptor({', '.join([begin, *lists, *layout])})"

    def __str__(self) -> str:
        return f"{self.name} = {self.expression}"

    def of_call(self, call: int) -> TensorDescriptor:
        """The descriptor of the call with index `call` of a grouped launch: the names end in the index."""
        return replace(self, name=f"{self.name}_{call}", pointer=f"{self.pointer}_{call}")


@dataclass(frozen=True)
class TileLoop:
    """A statement of a persistent kernel: the loop of each of `programs` programs over its tiles.

        for tile in tl.range(tl.program_id(0), 288, 132, flatten=True):

    The variable is the index of the tile where `rows` is 1, else the index of the first of `rows` rows; `end` is the
    upper bound of the variable. `flatten` flattens the loop and the loop in its body to one loop. Loads are pipelined
    in `stages` stages; 0 leaves the number of stages to the kernel.
    """

    variable: str
    end: TileCount
    programs: int
    body: tuple[str, ...]
    rows: int = 1
    flatten: bool = False
    stages: int = 0

    def __str__(self) -> str:
        first = f"{PROGRAM_PLACEHOLDER} * {self.rows}" if self.rows > 1 else PROGRAM_PLACEHOLDER
        arguments = [first, str(self.end), str(self.programs * self.rows)]
        arguments += ["flatten=True"] if self.flatten else []
        arguments += [f"num_stages={self.stages}"] if self.stages else []
        header = f"for {self.variable} in tl.range({', '.join(arguments)}):"
        return "\n".join([header, *nested(self.body)])


#: A statement of a kernel: lines of text, or a value that some stage reads.
Statement = str | TensorDescriptor | TileLoop


@dataclass(frozen=True)
class Function:
    """A function that kernels call.

    Attributes:
        name: the name.
        parameters: the parameters.
        body: the statements.
        program_id: the expression that replaces the placeholder of the program id in the statements.
        calls: the names of the functions of `codegen.prelude` that the function calls.
    """

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]
    program_id: str = PROGRAM_ID
    calls: tuple[str, ...] = ()

    def text(self, language: str) -> str:
        """The text of the function in a file."""
        head = f"{DECORATORS[language]}def {self.name}({', '.join(self.parameters)}):\n"
        lines = "".join(f"{line}\n" for line in nested(self.body or ["pass"]))
        return f"\n\n{head}{lines.replace(PROGRAM_PLACEHOLDER, self.program_id)}"

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        return {**vars(self), "body": _plain_statements(self.body)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Function:
        """The function that `to_dict` described."""
        lists = {name: tuple(data[name]) for name in ("parameters", "calls")}
        return Function(**{**data, **lists, "body": _statements(data["body"])})


@dataclass(frozen=True)
class Source:
    """The Triton form of a kernel.

    Attributes:
        name: the symbol of the kernel.
        parameters: the parameters.
        grid: the number of programs.
        body: the statements of the kernel.
        warps: the warps of a program.
        stages: the stages of pipelined loops.
        updates: the operand that each result overwrites, if any.
        fills: the literals that results have to hold before the launch.
        registers: the most registers of a thread, on average; 0 sets no limit.
        language: Triton or Gluon.
        origins: the operators that the kernel computes, printed as comments.
        preamble: the beginning of the kernel's file: imports, constants, functions written by hand.
        functions: the functions that the kernel calls.
        descriptor_only: the parameters that no statement but a descriptor uses.
        has_dot: whether the kernel multiplies matrices by `tl.dot`.
        specializations: other forms of the kernel for single architectures.
    """

    name: str
    parameters: tuple[Parameter, ...]
    grid: TileCount
    body: tuple[Statement, ...]
    warps: int = 4
    stages: int = 3
    updates: dict[int, int] = field(default_factory=dict)
    fills: dict[int, str] = field(default_factory=dict)
    registers: int = 0
    language: str = TRITON
    origins: tuple[str, ...] = ()
    preamble: tuple[str, ...] = ()
    functions: tuple[Function, ...] = ()
    descriptor_only: tuple[str, ...] = ()
    has_dot: bool = False
    specializations: dict[str, Source] = field(default_factory=dict)

    def on(self, arch: str) -> Source:
        """The form for an architecture."""
        return self.specializations.get(arch, self)

    @property
    def descriptors(self) -> tuple[TensorDescriptor, ...]:
        """The statements that create descriptors, in order."""
        return tuple(s for s in self.body if isinstance(s, TensorDescriptor))

    @property
    def without_descriptors(self) -> tuple[str | TileLoop, ...]:
        """The other statements."""
        return tuple(s for s in self.body if not isinstance(s, TensorDescriptor))

    @property
    def tile_loop(self) -> TileLoop | None:
        """The tile loop of a persistent kernel."""
        return next((s for s in self.body if isinstance(s, TileLoop)), None)

    @functools.cached_property
    def text(self) -> str:
        """The kernel as a file, whose last function is the kernel."""
        comments = "".join(f"# {origin}\n" for origin in self.origins)
        kernel = Function(identifier(self.name), tuple(name for name, _ in self.parameters), self.body)
        functions = (function.text(self.language) for function in (*self.functions, kernel))
        return "".join([comments, *self.preamble, *functions])

    @property
    def binary_key(self) -> str:
        """The common part of sources of one binary: all but the name, the origins and the forms of other GPUs."""
        return json.dumps(replace(self, name="", origins=(), specializations={}).to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, without empty fields of `OPTIONAL`."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data["grid"] = self.grid.to_plain()
        data["body"] = _plain_statements(self.body)
        data["functions"] = [function.to_dict() for function in self.functions]
        data["specializations"] = {arch: form.to_dict() for arch, form in self.specializations.items()}
        return {name: value for name, value in data.items() if value or name not in OPTIONAL}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Source:
        """The source that `to_dict` described."""
        fields = dict(data)
        fields["parameters"] = tuple(Parameter(*parameter) for parameter in data["parameters"])
        fields["grid"] = TileCount.from_plain(data["grid"])
        fields["body"] = _statements(data["body"])
        for name in ("updates", "fills"):
            fields[name] = {int(result): value for result, value in data[name].items()}
        for name in ("origins", "preamble", "descriptor_only"):
            fields[name] = tuple(data.get(name, ()))
        fields["functions"] = tuple(map(Function.from_dict, data.get("functions", ())))
        forms = data.get("specializations", {})
        fields["specializations"] = {arch: Source.from_dict(form) for arch, form in forms.items()}
        return Source(**fields)


def _plain_statements(statements: Iterable[Statement]) -> list[Any]:
    """Statements as plain data: their text, or the fields of their value."""
    return [s if isinstance(s, str) else _plain_fields(s) for s in statements]


def _plain_fields(statement: TensorDescriptor | TileLoop) -> dict[str, Any]:
    data = asdict(statement)
    return {**data, "end": statement.end.to_plain()} if isinstance(statement, TileLoop) else data


def _statements(data: Iterable[Any]) -> tuple[Statement, ...]:
    """The statements that `_plain_statements` described."""
    return tuple(s if isinstance(s, str) else _statement(s) for s in data)


def _statement(data: Mapping[str, Any]) -> Statement:
    if "variable" in data:
        return TileLoop(**{**data, "end": TileCount.from_plain(data["end"]), "body": tuple(data["body"])})
    return TensorDescriptor(**{**data, **{name: tuple(data[name]) for name in ("shape", "strides", "block")}})


def nested(statements: Iterable[Statement]) -> list[str]:
    """The text of statements one level deeper."""
    return [textwrap.indent(str(statement), "    ") for statement in statements]
