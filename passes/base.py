"""What a pass is: a frozen dataclass whose fields are its options.

    @register_pass
    @dataclass(frozen=True)
    class FoldThings(Pass):
        '''Folds things into one.

            %0 = "oneflow.thing"(%x)      ->   %0 = "oneflow.one"(%x)
        '''
        name: ClassVar[str] = "oneflow-fold-things"
        limit: int = 8
        def run(self, module, registry): ...

On the command line it is `--oneflow-fold-things="limit=4"`. Imports the registry of operators and the MLIR seam.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry, suggestion


class PassError(Exception):
    """A pass that cannot do its work: what was expected, what came, and where in the program."""

    def __init__(self, message: str, location: ir.Location | None = None) -> None:
        super().__init__(message)
        self.message, self.location = message, location


class PipelineError(ValueError):
    """A pipeline text or a pass option that cannot be understood."""


@dataclass(frozen=True)
class Option:
    """One option of a pass: its command-line name (dashes), field, Python type and default."""

    name: str
    field: str
    type: Any
    default: Any

    def parse(self, text: str) -> Any:
        """The value that `text` writes.

        Raises:
            PipelineError: it is not a value of the option's type.
        """
        if self.type is bool:
            return self._one_of(text, {"true": True, "1": True, "": True, "false": False, "0": False})
        if self.type in (int, float):
            try:
                return self.type(text)
            except ValueError:
                raise PipelineError(f"option {self.name}: expected {self.type.__name__}, got {text!r}") from None
        if self.type is str:
            return text
        items = [t.strip() for t in text.split(",") if t.strip()]
        return typing.get_origin(self.type)(items)

    def _one_of(self, text: str, values: Mapping[str, bool]) -> bool:
        if text not in values:
            raise PipelineError(f"option {self.name}: expected true or false, got {text!r}")
        return values[text]

    def format(self, value: Any) -> str:
        """`value` as `parse` reads it."""
        if isinstance(value, bool):
            return str(value).lower()
        return ",".join(value) if isinstance(value, (tuple, list)) else str(value)


@dataclass(frozen=True)
class Pass(ABC):
    """One transformation of a module; its fields are its options (bool, int, float, str, list or tuple of str).

    The docstring's first line is the summary; the rest shows IR before and after.
    """

    name: ClassVar[str]

    @abstractmethod
    def run(self, module: ir.Module, registry: Registry) -> None:
        """Transforms `module` in place; its context is current.

        Raises:
            PassError: the work cannot be done. A pass that has emitted diagnostics raises it as well.
        """

    @classmethod
    def options(cls) -> dict[str, Option]:
        """The options by command-line name."""
        types = typing.get_type_hints(cls)
        options = [
            Option(f.name.replace("_", "-"), f.name, types[f.name], _default(f)) for f in dataclasses.fields(cls)
        ]
        return {o.name: o for o in options}

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> Self:
        """The pass with options as the command line writes them.

        Raises:
            PipelineError: one is unknown or not of its type.
        """
        options = cls.options()
        values = {}
        for name, text in given.items():
            option = options.get(name.replace("_", "-"))
            if option is None:
                known = f"; it has {', '.join(options)}" if options else "; it has none"
                raise PipelineError(f"pass {cls.name}: unknown option {name!r}{suggestion(name, options) or known}")
            try:
                values[option.field] = option.parse(text)
            except PipelineError as error:
                raise PipelineError(f"pass {cls.name}: {error}") from None
        return cls(**values)

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    def __str__(self) -> str:
        """The pass as pipeline text, options that are not defaults included."""
        given = [
            f"{o.name}={o.format(getattr(self, o.field))}"
            for o in self.options().values()
            if getattr(self, o.field) != o.default
        ]
        return f"{self.name}{{{' '.join(given)}}}" if given else self.name


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
