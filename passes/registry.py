"""Passes and pipelines by name.

Modules register their passes when imported; `passes.all` and `lowering.pipelines` import them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from oneflow.dialect.record import suggestion
from oneflow.passes.base import Pass, PipelineError
from oneflow.passes.upstream import UPSTREAM

P = TypeVar("P", bound=type[Pass])

#: Every pass by its command-line name.
PASSES: dict[str, type[Pass]] = {}
#: Named pipelines: the text each stands for, as `--pass-pipeline` takes it inside `builtin.module(..)`.
PIPELINES: dict[str, str] = {}
_SUMMARIES: dict[str, str] = {}


def register_pass(cls: P) -> P:
    """Makes a pass known by its name; a class decorator.

    Raises:
        ValueError: the name is taken, or the pass says nothing of what it does.
    """
    registered = PASSES.get(cls.name)
    if registered is not None or cls.name in PIPELINES:
        other = registered.__module__ if registered else "a pipeline"
        raise ValueError(f"pass {cls.name} is registered twice: in {other} and in {cls.__module__}; rename one")
    if not cls.summary():
        raise ValueError(f"pass {cls.name}: expected a docstring that says what it does")
    PASSES[cls.name] = cls
    return cls


def register_pipeline(name: str, text: str, summary: str) -> None:
    """Makes `--name` stand for the pipeline `text`.

    Raises:
        ValueError: the name is taken.
    """
    if name in PASSES or name in PIPELINES:
        raise ValueError(f"pipeline {name}: the name is taken; rename it")
    PIPELINES[name], _SUMMARIES[name] = text, summary


def pipeline_summary(name: str) -> str:
    """What a registered pipeline does, in one line."""
    return _SUMMARIES.get(name, "")


def lookup_pass(name: str) -> type[Pass]:
    """The pass called `name`.

    Raises:
        PipelineError: there is none; the nearest name is suggested.
    """
    if name not in PASSES:
        raise PipelineError(f"unknown pass {name}{suggestion(name, [*PASSES, *PIPELINES])}")
    return PASSES[name]


def check_names(names: Iterable[str]) -> None:
    """Refuses names that are those of no pass, of ours or of MLIR.

    Raises:
        PipelineError: one is; the nearest name is suggested.
    """
    for name in names:
        if name in PIPELINES:
            raise PipelineError(f"expected passes, got {name}, which stands for several; name one of them")
        if name not in PASSES and name not in UPSTREAM:
            raise PipelineError(f"expected passes, got {name!r}{suggestion(name, [*PASSES, *UPSTREAM])}")
