"""The records that `.td` files define: includes read, classes instantiated, fields computed.

Includes are looked for in the file's folder and in the folders above; what is not found, such as MLIR's own files, is
left out: MLIR's classes that OneFlow's files use are in `MLIR_CLASSES`. A class that a file uses and does not
include is one of the `OneFlowBase.td` in the same folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oneflow.dialect.record import suggestion
from oneflow.tools.command import CommandError
from oneflow.tools.ods_parser import Bang, Dag, Include, OdsError, Template, Term, parse

BASE_FILE = "OneFlowBase.td"
#: The base class of user operators without a `OneFlowBase.td`.
BASE_OP = "OneFlow_BaseOp"
BUILT_IN = "class OneFlow_BaseOp<string mnemonic, list<Trait> traits = []> : Op<OneFlow_Dialect, mnemonic, traits>;"
#: Classes of MLIR's own files. Only the arguments of `Op` describe operators.
MLIR_CLASSES = frozenset(
    """Op Dialect TypeDef AttrDef TensorOf TypedArrayAttrBase StringBasedAttr FloatElementsAttr I32EnumAttr
    I32EnumAttrCase NativeOpTrait OpInterface AttrInterface TypeInterface Pass InterfacePass Pat Pattern""".split()
)
#: The operations on values that definitions of operators need.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "!listconcat": lambda *lists: [item for one in lists for item in one],
    "!con": lambda first, *others: Dag(first.kind, sum((d.args for d in others), first.args)),
    "!strconcat": lambda *texts: "".join(texts),
}


@dataclass
class Record:
    """A definition: its classes with arguments, its fields, and the fields that the classes declare."""

    name: str
    where: str
    bases: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)

    def dag(self, name: str, kind: str) -> tuple[tuple[Any, str], ...]:
        """The types and names of a field such as `(ins OneFlow_Tensor:$x)`, none if the field is missing.

        Raises:
            OdsError: the field is something else.
        """
        value = self.fields.get(name, Dag(kind))
        if not isinstance(value, Dag) or (value.kind != kind and value.args):
            raise OdsError(f"{self.where}: expected {name} of {self.name} to be ({kind} ..)")
        return value.args


def read_records(text: str, file: str) -> tuple[list[Record], list[Record]]:
    """The definitions of a file and of the files that it includes, and the definitions of the base file if that file
    was needed.

    Raises:
        OdsError: a file is not well formed, or a class is unknown; file and line are named.
    """
    reader = _Reader(Path(file))
    try:
        reader.read(text, file)
    except RecursionError:
        raise OdsError(f"{file}: values or includes are nested too deeply") from None
    return reader.records, reader.predefined


class _Reader:
    """Reads files, each once."""

    def __init__(self, file: Path) -> None:
        self.classes: dict[str, Template] = {}
        self.records: list[Record] = []
        self.predefined: list[Record] = []
        self.started = {file.resolve()}
        self.base: Path | None = file.with_name(BASE_FILE)

    def read_file(self, path: Path) -> None:
        self.started.add(path.resolve())
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CommandError(f"cannot read {path}: {error}") from None
        self.read(text, str(path))

    def read_base(self, base: Path) -> None:
        """Reads the base file for classes that a file uses and neither defines nor includes."""
        self.base = None
        own, self.records = self.records, self.predefined
        if base.is_file() and base.resolve() not in self.started:
            self.read_file(base)
        if BASE_OP not in self.classes:
            self.read(BUILT_IN, BASE_FILE)
        self.records = own

    def read(self, text: str, file: str) -> None:
        for item in parse(text, file):
            if isinstance(item, Include):
                self.include(item, Path(file).resolve().parent)
                continue
            for base in item.bases:
                self.require(base.name, item)
            if item.keyword == "def":
                self.records.append(self.define(item))
            elif item.name in self.classes:
                first = self.classes[item.name].where
                raise OdsError(f"{item.where}: class {item.name} is defined already at {first}")
            else:
                self.classes[item.name] = item

    def include(self, item: Include, folder: Path) -> None:
        files = (f for f in (up / item.path for up in (folder, *folder.parents)) if f.is_file())
        path = next(files, None)
        if path is not None and path.resolve() not in self.started:
            self.read_file(path)

    def require(self, name: str, user: Template) -> None:
        """Checks that a class is defined before its use."""
        if name not in self.classes and name not in MLIR_CLASSES and self.base is not None:
            self.read_base(self.base)
        if name not in self.classes and name not in MLIR_CLASSES:
            advice = suggestion(name, [*self.classes, *MLIR_CLASSES])
            raise OdsError(f"{user.where}: {user.name} is of the unknown class {name}{advice}")

    def define(self, template: Template) -> Record:
        record = Record(template.name, template.where)
        self.inherit(record, template, {})
        record.fields = {name: evaluate(v, record.fields, env) for name, (v, env) in record.fields.items()}
        return record

    def inherit(self, record: Record, template: Template, env: Mapping[str, Any]) -> None:
        """Adds the fields of a class behind the fields of its base classes; all fields are evaluated last."""
        for base in template.bases:
            args = tuple(evaluate(a, {}, env) for a in base.args)
            record.bases[base.name] = args
            if base.name in self.classes:
                base_class = self.classes[base.name]
                self.inherit(record, base_class, _bind(base_class, args, template.where))
        record.declared |= template.declared
        record.fields.update({name: (value, env) for name, value in template.fields.items()})


def _bind(template: Template, args: tuple[Any, ...], where: str) -> dict[str, Any]:
    """The parameters of a class, bound to arguments."""
    if len(args) > len(template.parameters):
        raise OdsError(f"{where}: expected at most {len(template.parameters)} arguments of {template.name}")
    env: dict[str, Any] = {}
    for i, (name, default) in enumerate(template.parameters):
        if i >= len(args) and default is None:
            raise OdsError(f"{where}: expected the argument {name} of {template.name}")
        env[name] = args[i] if i < len(args) else evaluate(default, {}, env)
    return env


def evaluate(value: Any, fields: Mapping[str, Any], env: Mapping[str, Any]) -> Any:
    """A value with parameters (`env`) and fields substituted; other names stay."""
    if isinstance(value, Bang):
        return _operate(value, [evaluate(a, fields, env) for a in value.args])
    if isinstance(value, list):
        return [evaluate(item, fields, env) for item in value]
    if isinstance(value, Dag):
        return Dag(value.kind, tuple((evaluate(v, fields, env), name) for v, name in value.args))
    if not isinstance(value, Term):
        return value
    if value.name in env:
        return env[value.name]
    if value.name in fields:
        other, where = fields[value.name]
        return evaluate(other, {k: v for k, v in fields.items() if k != value.name}, where)
    return Term(value.name, tuple(evaluate(a, fields, env) for a in value.args))


def _operate(value: Bang, args: list[Any]) -> Any:
    operation = OPERATIONS.get(value.name)
    if operation is None:
        advice = suggestion(value.name, OPERATIONS)
        raise OdsError(
            f"{value.where}: unknown operation {value.name}{advice}; expected one of {', '.join(OPERATIONS)}"
        )
    try:
        return operation(*args)
    except (AttributeError, TypeError):
        raise OdsError(f"{value.where}: {value.name} does not take {', '.join(map(str, args))}") from None
