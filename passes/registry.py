"""Passes and pipelines by name.

`passes.all` and `lowering.pipelines` declare the modules of passes. A module is imported, and registers its pass,
when someone asks for the pass.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, MutableMapping
from typing import TypeVar

from oneflow.dialect.record import suggestion
from oneflow.passes.base import Pass, PipelineError
from oneflow.passes.upstream import UPSTREAM

P = TypeVar("P", bound=type[Pass])


class PassTable(MutableMapping[str, type[Pass]]):
    """Passes by their command-line names.

    The module of a declared pass is imported when the pass is asked for. A pass is registered before its module is
    complete, so that a thread that asks for the pass waits until another thread has imported the module.
    """

    def __init__(self) -> None:
        self._passes: dict[str, type[Pass] | None] = {}
        self._modules: dict[str, str] = {}

    def declare(self, package: str, modules: Iterable[str]) -> None:
        """Declares the passes of modules: the module `<words>` has the pass `oneflow-<words>`."""
        for module in modules:
            words = module.replace("_", "-")
            name = words if words.startswith("convert-") else f"oneflow-{words}"
            self._passes.setdefault(name, None)
            self._modules.setdefault(name, f"{package}.{module}")

    def module_of(self, name: str) -> str | None:
        """The module of a pass, which may not be imported; None for an unknown name."""
        cls = self._passes.get(name)
        return cls.__module__ if cls is not None else self._modules.get(name)

    def loaded(self) -> list[str]:
        """The names of the passes whose modules are imported."""
        return [name for name, cls in self._passes.items() if cls is not None]

    def __getitem__(self, name: str) -> type[Pass]:
        if name in self._modules:
            importlib.import_module(self._modules[name])
        cls = self._passes[name]
        if cls is None:
            raise LookupError(f"expected the module {self._modules[name]} to define the pass {name}")
        return cls

    def __setitem__(self, name: str, cls: type[Pass]) -> None:
        self._passes[name] = cls

    def __delitem__(self, name: str) -> None:
        del self._passes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._passes)

    def __contains__(self, name: object) -> bool:
        return name in self._passes

    def __len__(self) -> int:
        return len(self._passes)


#: Every pass by its command-line name.
PASSES = PassTable()
#: Named pipelines: the text of each, as in `--pass-pipeline` inside `builtin.module(..)`.
PIPELINES: dict[str, str] = {}
_SUMMARIES: dict[str, str] = {}


def register_pass(cls: P) -> P:
    """Makes a pass known by its name; a class decorator.

    Raises:
        ValueError: the name is taken, or the pass has no docstring.
    """
    registered = PASSES.module_of(cls.name)
    is_declared = registered == cls.__module__ and cls.name not in PASSES.loaded()
    if (registered is not None and not is_declared) or cls.name in PIPELINES:
        other = registered or "a pipeline"
        raise ValueError(f"pass {cls.name} is registered twice: in {other} and in {cls.__module__}; rename one")
    if not cls.summary():
        raise ValueError(f"pass {cls.name}: expected a docstring that states what the pass does")
    PASSES[cls.name] = cls
    return cls


def register_pipeline(name: str, text: str, summary: str) -> None:
    """Registers the pipeline `text` as `--name`.

    Raises:
        ValueError: the name is taken.
    """
    if name in PASSES or name in PIPELINES:
        raise ValueError(f"pipeline {name}: the name is taken; rename it")
    PIPELINES[name], _SUMMARIES[name] = text, summary


def pipeline_summary(name: str) -> str:
    """The summary of a registered pipeline, in one line."""
    return _SUMMARIES.get(name, "")


def lookup_pass(name: str) -> type[Pass]:
    """The pass called `name`.

    Raises:
        PipelineError: there is no such pass; the nearest name is suggested.
    """
    if name not in PASSES:
        raise PipelineError(f"unknown pass {name}{suggestion(name, [*PASSES, *PIPELINES])}")
    return PASSES[name]


def check_names(names: Iterable[str]) -> None:
    """Refuses names that are names of no pass, of ours or of MLIR.

    Raises:
        PipelineError: one is; the nearest name is suggested.
    """
    for name in names:
        if name in PIPELINES:
            raise PipelineError(f"expected passes, got the pipeline {name}; name one of its passes")
        if name not in PASSES and name not in UPSTREAM:
            raise PipelineError(f"expected passes, got {name!r}{suggestion(name, [*PASSES, *UPSTREAM])}")
