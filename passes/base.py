"""The base class of passes: a frozen dataclass whose fields are the options of the pass.

    @register_pass
    @dataclass(frozen=True)
    class FoldThings(Pass):
        '''Folds nested scales.

            %0 = "oneflow.scale"(%x)      ->   %0 = "oneflow.mul"(%x)
        '''
        name: ClassVar[str] = "oneflow-fold-scales"
        limit: int = 8
        def run(self, module, registry): ...

The command line option of this pass is `--oneflow-fold-scales="limit=4"`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from oneflow.dialect._mlir import ir
from oneflow.dialect.deprecated import current_options
from oneflow.dialect.record import Registry, suggestion


class PassError(Exception):
    """The failure of a pass: the text states what was expected, what was given, and where in the program."""

    def __init__(self, message: str, location: ir.Location | None = None) -> None:
        super().__init__(message)
        self.message, self.location = message, location


class PipelineError(ValueError):
    """A pipeline text or a pass option that cannot be understood."""


_BOOLS = {"true": True, "1": True, "": True, "false": False, "0": False}


def parse_bool(text: str) -> bool:
    """The value of a boolean option; an option without a value is true.

    Raises:
        PipelineError: the text is neither `true` nor `false`.
    """
    if text.lower() not in _BOOLS:
        raise PipelineError(f"expected true or false, got {text!r}")
    return _BOOLS[text.lower()]


@dataclass(frozen=True)
class Option:
    """An option of a pass: its command-line name (dashes), field, Python type and default."""

    name: str
    field: str
    type: Any
    default: Any

    def parse(self, text: str) -> Any:
        """The value that `text` writes.

        Raises:
            PipelineError: the text is not a value of the option's type.
        """
        if self.type is bool:
            return self._named(parse_bool, text)
        numeric_type = next((t for t in (self.type, *typing.get_args(self.type)) if t in (int, float)), None)
        if numeric_type is not None:
            try:
                return numeric_type(text)
            except ValueError:
                raise PipelineError(f"option {self.name}: expected {numeric_type.__name__}, got {text!r}") from None
        if self.type is str:
            return text
        items = [t.strip() for t in text.split(",") if t.strip()]
        return typing.get_origin(self.type)(items)

    def _named(self, parse: Callable[[str], Any], text: str) -> Any:
        try:
            return parse(text)
        except PipelineError as error:
            raise PipelineError(f"option {self.name}: {error}") from None

    @property
    def required(self) -> bool:
        """Whether a pass requires the option."""
        return self.default is dataclasses.MISSING

    @property
    def default_text(self) -> str:
        """The text for the default in lists of options."""
        if self.required:
            return "required"
        return f"default {text}" if (text := self.format(self.default)) else "optional"

    def format(self, value: Any) -> str:
        """The text of `value` that `parse` reads."""
        if value is None or isinstance(value, bool):
            return "" if value is None else str(value).lower()
        return ",".join(value) if isinstance(value, (tuple, list)) else str(value)


@dataclass(frozen=True)
class Pass(ABC):
    """A transformation of a module; its fields are its options (bool, int, float, str, list or tuple of str).
    A number may be None by default.

    The docstring's first line is the summary; the rest shows IR before and after.
    """

    name: ClassVar[str]

    @abstractmethod
    def run(self, module: ir.Module, registry: Registry) -> None:
        """Transforms `module` in place; its context is current.

        Raises:
            PassError: the pass fails. A pass that has emitted diagnostics raises `PassError` too.
        """

    @classmethod
    def options(cls) -> dict[str, Option]:
        """The options by command-line name."""
        return _options(cls)

    @classmethod
    def from_options(cls, texts: Mapping[str, str]) -> Self:
        """The pass with options as the command line writes them.

        Raises:
            PipelineError: one is unknown or not of its type.
        """
        options, values = cls.options(), {}
        for name, text in cls._current(texts).items():
            option = options.get(name)
            if option is None:
                known = f"; expected one of {', '.join(options)}" if options else "; the pass has no options"
                raise PipelineError(f"pass {cls.name}: unknown option {name!r}{suggestion(name, options) or known}")
            try:
                values[option.field] = option.parse(text)
            except PipelineError as error:
                raise PipelineError(f"pass {cls.name}: {error}") from None
        missing = [o.name for o in options.values() if o.required and o.field not in values]
        if missing:
            raise PipelineError(f"pass {cls.name}: expected the option {missing[0]}, as in {missing[0]}=..")
        return cls(**values)

    @classmethod
    def _current(cls, texts: Mapping[str, str]) -> dict[str, str]:
        """The texts of options by today's names."""
        try:
            return current_options(f"option of {cls.name}", {n.replace("_", "-"): text for n, text in texts.items()})
        except TypeError as error:
            raise PipelineError(str(error)) from None

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    def __str__(self) -> str:
        """The pass as pipeline text, options that are not defaults included."""
        options = [
            f"{o.name}={o.format(getattr(self, o.field))}"
            for o in self.options().values()
            if getattr(self, o.field) != o.default
        ]
        return f"{self.name}{{{' '.join(options)}}}" if options else self.name


@functools.cache
def _options(cls: type[Pass]) -> dict[str, Option]:
    """The options of a pass, read from the annotations of the class; reading takes as long as a short pass."""
    types = typing.get_type_hints(cls)
    fields = dataclasses.fields(cls)
    options = [Option(f.name.replace("_", "-"), f.name, types[f.name], _default(f)) for f in fields]
    return {o.name: o for o in options}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
