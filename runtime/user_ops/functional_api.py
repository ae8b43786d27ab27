"""`functional_api.yaml`: Python functions described in text, bound to functors of C++ libraries.

    - name: "leaky"
      signature: "Tensor (Tensor x, Float alpha=0.1, *, Bool inplace=False) => Leaky"
      bind_python: True

A signature may be a list of overloads; calls convert the first that fits. `Int32List[2]` takes one number for both,
`=None` makes a parameter optional, what follows `*` is given by name, and `TensorTuple[a, b]` names the results. A
signature with a type that has no meaning here (`REFUSED_TYPES`, `REFUSED_RETURNS`) is read; no call fits it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneflow.dialect import dtypes
from oneflow.dialect.attributes import KINDS
from oneflow.dialect.lazy import lazy
from oneflow.dialect.record import suggestion
from oneflow.dialect.signature import split_commas

if TYPE_CHECKING:
    from oneflow.runtime.user_ops.functions import Argument

if TYPE_CHECKING:
    from oneflow.runtime.user_ops import functions
else:
    functions = lazy("oneflow.runtime.user_ops.functions")

if TYPE_CHECKING:
    import yaml
else:
    yaml = lazy("yaml")


class FunctionalApiError(ValueError):
    """A malformed file of functions; the message names file, line and what was expected."""


#: The attribute kinds of parameter types; tensors are no attributes.
_SCALARS = {
    "Scalar": "double", "Int": "int32", "Int32": "int32", "Int64": "int64", "Float": "float", "Double": "double",
    "String": "string", "Bool": "bool", "DataType": "data_type", "Shape": "shape", "Device": "string",
    "Generator": "int64",
}  # fmt: skip
_LISTS = {
    "IntList": "list_int32", "Int32List": "list_int32", "Int64List": "list_int64", "FloatList": "list_float",
    "DoubleList": "list_double", "BoolList": "list_bool", "ScalarList": "list_double",
    "StringList": "list_string", "DataTypeList": "list_data_type", "ShapeList": "list_shape",
}  # fmt: skip
#: The attribute kinds of types whose values may be integers, for integers.
_INTEGER_KINDS = {"Scalar": "int64", "ScalarList": "list_int64"}
TYPES: dict[str, str | None] = {"Tensor": None, "TensorTuple": None, **_SCALARS, **_LISTS}
#: Parameter types of OneFlow that are not supported, with the reason.
REFUSED_TYPES = {
    **dict.fromkeys(("Placement", "Sbp", "SbpList"), "functions compute on the devices of their tensors"),
    **dict.fromkeys(("Layout", "MemoryFormat"), "tensors are contiguous"),
    **dict.fromkeys(("PyObject*", "OpExpr", "TensorIndex"), "functors in C++ do not see Python's objects"),
}
#: Types of a sole parameter whose elements may also be passed as separate arguments.
UNPACKED = ("Shape", "TensorTuple", "IntList", "Int32List", "Int64List")
RETURNS = ("Tensor", "TensorTuple", "Void")
#: Return types of OneFlow that are not supported, with the reason.
REFUSED_RETURNS = dict.fromkeys(
    ("Bool", "Int", "Int32", "Int64", "Float", "Double", "String", "Shape"), "functors give tensors"
)
_CONSTANTS = {"True": True, "true": True, "False": False, "false": False, "None": None}
_DTYPE_WORDS = {"Float": "float32", "Double": "float64", "Int": "int32"}
_DEVICE = re.compile(r"(cpu|cuda)(:\d+)?")
_SIGNATURE = re.compile(r"(\w+)\s*(?:\[([^\]]*)\])?\s*\((.*)\)\s*=+>\s*(\w+)", re.DOTALL)
_PARAMETER = re.compile(r"(\w+\*?)\s*(?:\[(\d+)\])?\s+(\w+)\s*(?:=\s*(.+))?", re.DOTALL)
_MISSING = object()


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True)
class Parameter:
    """A parameter; `repeat` is the N of `List[N]`, `keyword` marks a keyword-only parameter."""

    name: str
    type: str
    repeat: int | None
    default: Any
    keyword: bool

    @property
    def is_optional(self) -> bool:
        """Whether the parameter accepts None."""
        return self.default is None

    def convert(self, value: Any, is_tensor: Callable[[Any], bool]) -> Argument:
        """Converts a value to an argument of the functor.

        Raises:
            TypeError: the value does not match the parameter.
        """
        kind = TYPES[self.type]
        if value is None and self.is_optional:
            return functions.Argument(kind, None)
        if kind is None:
            return self._tensors(value, is_tensor)
        if self.type == "Device" and not _DEVICE.fullmatch(value := str(value)):
            raise TypeError(f'{self.name}: expected a device such as "cpu" or "cuda:0", got {value!r}')
        if self.repeat is not None and not isinstance(value, (list, tuple)):
            value = (value,) * self.repeat
        if self.type in _INTEGER_KINDS and all(
            map(_is_integer, value if isinstance(value, (list, tuple)) else [value])
        ):
            kind = _INTEGER_KINDS[self.type]
        try:
            return functions.Argument(kind, KINDS[kind].check(value))
        except ValueError as error:
            raise TypeError(f"{self.name}: {error}") from None

    def _tensors(self, value: Any, is_tensor: Callable[[Any], bool]) -> Argument:
        is_list = self.type == "TensorTuple"
        items = value if isinstance(value, (list, tuple)) else None if is_list else [value]
        if items is None or not all(map(is_tensor, items)) or (not is_list and len(items) != 1):
            raise TypeError(
                f"{self.name}: expected {'tensors' if is_list else 'a tensor'}, got {type(value).__name__}"
            )
        return functions.Argument(None, tuple(items) if is_list else value)

    def __str__(self) -> str:
        repeat = "" if self.repeat is None else f"[{self.repeat}]"
        return f"{self.type}{repeat} {self.name}" + ("" if self.default is _MISSING else f"={self.default}")


@dataclass(frozen=True)
class FunctionSignature:
    """An overload of a function: return type, parameters, and the functor that it calls."""

    returns: str
    fields: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    functor: str

    @property
    def refusal(self) -> str:
        """The reason why no call can match (an unsupported type); "" if calls can match."""
        if self.returns in REFUSED_RETURNS:
            return f"the return type {self.returns} has no meaning here, {REFUSED_RETURNS[self.returns]}"
        for p in self.parameters:
            if p.type in REFUSED_TYPES:
                return f"{p.name}: the type {p.type} has no meaning here, {REFUSED_TYPES[p.type]}"
        return ""

    def bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], is_tensor: Callable[[Any], bool]
    ) -> list[Argument]:
        """The arguments of the functor for a call.

        Raises:
            TypeError: the call does not match.
        """
        if self.refusal:
            raise TypeError(self.refusal)
        positional = [p for p in self.parameters if not p.keyword]
        args = self._packed_sole_argument(args, positional)
        if len(args) > len(positional):
            raise TypeError(f"expected at most {len(positional)} positional arguments, got {len(args)}")
        values = {p.name: value for p, value in zip(positional, args, strict=False)}
        known = [p.name for p in self.parameters]
        for name, value in kwargs.items():
            if name in values:
                raise TypeError(f"the argument {name} is given twice")
            if name not in known:
                raise TypeError(f"unknown argument {name!r}{suggestion(name, known)}")
            values[name] = value
        return [p.convert(self._value(p, values), is_tensor) for p in self.parameters]

    @staticmethod
    def _value(parameter: Parameter, values: Mapping[str, Any]) -> Any:
        value = values.get(parameter.name, parameter.default)
        if value is _MISSING:
            raise TypeError(f"expected the argument {parameter.name}")
        return value

    @staticmethod
    def _packed_sole_argument(args: Sequence[Any], positional: Sequence[Parameter]) -> Sequence[Any]:
        """The arguments, packed into a tuple for a sole parameter of a list type."""
        gathers = len(positional) == 1 and positional[0].type in UNPACKED
        return [tuple(args)] if gathers and args and not isinstance(args[0], (list, tuple)) else args

    def __str__(self) -> str:
        return f"{self.returns} ({', '.join(map(str, self.parameters))}) => {self.functor}"


@dataclass(frozen=True)
class FunctionEntry:
    """A function of a file, with its overloads."""

    name: str
    signatures: tuple[FunctionSignature, ...]
    bind_python: bool
    where: str

    def bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], is_tensor: Callable[[Any], bool]
    ) -> tuple[FunctionSignature, list[Argument]]:
        """The first signature that matches a call, and the arguments of the functor.

        Raises:
            TypeError: no signature matches; the message lists all.
        """
        refusals = []
        for signature in self.signatures:
            try:
                return signature, signature.bind(args, kwargs, is_tensor)
            except TypeError as error:
                refusals.append(f"{signature}: {error}")
        if len(refusals) == 1:
            raise TypeError(f"{self.name}: {refusals[0].partition(': ')[2]}; expected {self.signatures[0]}")
        raise TypeError("\n  ".join([f"{self.name}: the arguments fit none of", *refusals]))


def read_functional_api(path: str | Path) -> list[FunctionEntry]:
    """The functions of a file.

    Raises:
        FunctionalApiError: the file cannot be read or is malformed; the message names the file and line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise FunctionalApiError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FunctionalApiError(f"cannot read {path}: expected UTF-8, got {error}") from None
    return parse_functional_api(text, str(path))


def parse_functional_api(text: str, file: str = "functional_api.yaml") -> list[FunctionEntry]:
    """The functions that `text` describes.

    Raises:
        FunctionalApiError: the text is malformed.
    """
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise FunctionalApiError(f"{file}{line}: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise FunctionalApiError(f"{file}: lists are nested too deeply") from None
    return [_entry(node, file) for node in _items(root, file)] if root is not None else []


def _where(node: yaml.Node, file: str) -> str:
    return f"{file}:{node.start_mark.line + 1}"


def _items(root: yaml.Node, file: str) -> list[yaml.Node]:
    if not isinstance(root, yaml.SequenceNode):
        raise FunctionalApiError(f"{_where(root, file)}: expected a list of functions, `- name: ..`")
    return list(root.value)


def _entry(node: yaml.Node, file: str) -> FunctionEntry:
    where = _where(node, file)
    if not isinstance(node, yaml.MappingNode):
        raise FunctionalApiError(f"{where}: expected `name: ..`, a function")
    values = {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}
    if not {"name", "signature"} <= values.keys() <= {"name", "signature", "bind_python"}:
        raise FunctionalApiError(
            f"{where}: expected the keys name, signature and bind_python, got {', '.join(values) or 'none'}"
        )
    name = _text(values["name"], "name", file)
    if not name.isidentifier():
        raise FunctionalApiError(f"{where}: expected the name of a Python function, got {name!r}")
    signature = values["signature"]
    forms = signature.value if isinstance(signature, yaml.SequenceNode) else [signature]
    signatures = tuple(
        parse_function_signature(" ".join(_text(form, "signature", file).split()), where) for form in forms
    )
    bind = _text(values["bind_python"], "bind_python", file) if "bind_python" in values else "False"
    if bind.lower() not in ("true", "false"):
        raise FunctionalApiError(f"{where}: bind_python: expected True or False, got {bind!r}")
    return FunctionEntry(name, signatures, bind.lower() == "true", where)


def _text(node: yaml.Node, key: str, file: str) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise FunctionalApiError(f"{_where(node, file)}: {key}: expected text")
    return str(node.value)


def parse_function_signature(text: str, where: str = "signature") -> FunctionSignature:
    """The signature that `text` writes.

    Raises:
        FunctionalApiError: the text is malformed.
    """
    match = _SIGNATURE.fullmatch(text)
    if match is None:
        raise FunctionalApiError(f"{where}: expected `Type (Type name, ..) => Functor`, got {text!r}")
    returns, fields, parameters, functor = match.groups()
    if returns not in RETURNS and returns not in REFUSED_RETURNS:
        raise FunctionalApiError(f"{where}: expected one of {', '.join(RETURNS)} to be returned, got {returns}")
    parts = split_commas(parameters)
    star = parts.index("*") if "*" in parts else len(parts)
    parsed = [_parameter(p, i > star, where) for i, p in enumerate(parts) if i != star]
    return FunctionSignature(returns, tuple(split_commas(fields or "")), tuple(parsed), functor)


def _parameter(text: str, keyword: bool, where: str) -> Parameter:
    match = _PARAMETER.fullmatch(text)
    if match is None:
        raise FunctionalApiError(f"{where}: expected `Type name` or `Type name=default`, got {text!r}")
    kind, repeat, name, default = match.groups()
    if kind in REFUSED_TYPES:
        return Parameter(name, kind, None, _MISSING if default is None else default.strip(), keyword)
    if kind not in TYPES:
        raise FunctionalApiError(
            f"{where}: {name}: unknown type {kind}{suggestion(kind, TYPES)}; expected one of {', '.join(TYPES)}"
        )
    count = None if repeat is None else int(repeat)
    value = _MISSING if default is None else parse_constant(default.strip(), name, where)
    return Parameter(name, kind, count, value, keyword)


def parse_constant(text: str, name: str, where: str) -> Any:
    """The value of the default of `name`: a number, a text, True, None, or a data type such as kFloat.

    Raises:
        FunctionalApiError: the value is none of these.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text.startswith("k"):
        dtype = dtypes.BY_NAME.get(_DTYPE_WORDS.get(text[1:], text[1:].lower()))
        if dtype is not None:
            return dtype
    try:
        return ast.literal_eval(text.rstrip("f") if text[:1] in "+-.0123456789" else text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise FunctionalApiError(f"{where}: {name}: expected a constant after =, got {text!r}") from None
