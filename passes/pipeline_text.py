"""Pipelines as text: `builtin.module(func.func(canonicalize,cse),oneflow-infer-types{keep-public=false})`.

The grammar is mlir-opt's; one list holds passes of this package and of MLIR. The parser returns a `PipelineStep` for
each pass, with the operations that the pass is nested in.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from oneflow.dialect._mlir import passmanager
from oneflow.dialect.deprecated import current_name
from oneflow.dialect.record import suggestion
from oneflow.dialect.signature import split_commas
from oneflow.passes.base import Pass, PipelineError
from oneflow.passes.registry import PASSES, PIPELINES, lookup_pass
from oneflow.passes.upstream import UPSTREAM

ROOT = "builtin.module"
#: The most parentheses that a pipeline may have: the parser is recursive.
MAX_NESTING = 200
_PART = re.compile(r"(?P<name>[\w.-]+)\s*(?:\((?P<nested>.*)\)|\{(?P<options>.*)\})?", re.DOTALL)
_RESTRICTED = re.compile(r"restricted to '([\w.]+)'")


@dataclass(frozen=True)
class PipelineStep:
    """A pass of a pipeline: the operations below the module that the pass is nested in, its name and its
    options.
    """

    name: str
    options: str = ""
    anchors: tuple[str, ...] = ()

    @functools.cached_property
    def ours(self) -> Pass | None:
        """The pass, where the pass belongs to this package."""
        return PASSES[self.name].from_options(split_options(self.options)) if self.name in PASSES else None

    @property
    def text(self) -> str:
        """The pass alone as pipeline text."""
        return f"{self.name}{{{self.options}}}" if self.options else self.name


def format_steps(steps: Iterable[PipelineStep]) -> str:
    """Steps as the text of a pipeline on the module."""
    return f"{ROOT}({','.join(_format_nested([(s.anchors, s.text) for s in steps]))})"


def _format_nested(parts: Sequence[tuple[tuple[str, ...], str]]) -> Iterator[str]:
    for anchor, group in groupby(parts, key=lambda part: part[0][:1]):
        if not anchor:
            yield from (text for _, text in group)
        else:
            yield f"{anchor[0]}({','.join(_format_nested([(a[1:], text) for a, text in group]))})"


def parse_pipeline(text: str) -> list[PipelineStep]:
    """The steps of a pipeline text, checked; a context has to be current.

    Raises:
        PipelineError: the text is malformed, or a pass or option unknown.
    """
    for left, right in ("()", "{}"):
        if text.count(left) != text.count(right):
            counts = f"{text.count(left)} and {text.count(right)}"
            raise PipelineError(f"expected as many {left} as {right} in a pipeline, got {counts} in {text!r}")
    match = _PART.fullmatch(text.strip())
    if match is None or match["name"] not in (ROOT, "any") or match["nested"] is None:
        raise PipelineError(f"expected a pipeline such as {ROOT}(canonicalize,cse), got {text!r}")
    if text.count("(") > MAX_NESTING:
        raise PipelineError(
            f"expected at most {MAX_NESTING} operations to be named in a pipeline, got {text.count('(')}"
        )
    steps = list(_parse_list(match["nested"], ()))
    for step in steps:
        check_step(step)
    return steps


def _parse_list(text: str, anchors: tuple[str, ...]) -> Iterator[PipelineStep]:
    parts = split_commas(text)
    if not parts and text.strip():
        raise PipelineError(f"expected passes between commas, got {text!r}")
    for part in parts:
        match = _PART.fullmatch(part)
        if match is None:
            raise PipelineError(f"expected a pass, `pass{{option=value}}` or `operation(passes)`, got {part!r}")
        if match["nested"] is not None:
            yield from _parse_list(match["nested"], (*anchors, match["name"]))
        else:
            yield from expand(PipelineStep(match["name"], match["options"] or "", anchors))


def expand(step: PipelineStep) -> Iterator[PipelineStep]:
    """The expansion of a step: the steps of a registered pipeline, or the step under its present name.

    Raises:
        PipelineError: a pipeline has options, or is nested in an operation.
    """
    step = replace(step, name=current_name("pass", step.name))
    if step.name not in PIPELINES:
        yield step
    elif step.options or step.anchors:
        raise PipelineError(f"pipeline {step.name}: expected no options and no nesting, got {step.text}")
    else:
        yield from _parse_list(PIPELINES[step.name], ())


def parse_flag(name: str, options: str) -> list[PipelineStep]:
    """The steps of `--name="options"`; passes of MLIR that want a function are nested in `func.func`.

    Raises:
        PipelineError: the pass or an option is unknown.
    """
    steps = list(expand(PipelineStep(name, options)))
    return [check_step(step) for step in steps]


def check_step(step: PipelineStep) -> PipelineStep:
    """`step`, nested in the operation that the pass of MLIR requires.

    Raises:
        PipelineError: the pass or an option is unknown, or one of our passes is not on the module.
    """
    if step.name.startswith("oneflow-"):
        lookup_pass(step.name)
    if step.name in PASSES:
        if step.anchors:
            inside = "(".join(step.anchors)
            raise PipelineError(
                f"pass {step.name}: expected the pass at the module, got the pass inside "
                f"{inside}(..); move the pass outside"
            )
        PASSES[step.name].from_options(split_options(step.options))
        return step
    try:
        passmanager.PassManager.parse(format_steps([step]))
    except ValueError as error:
        wanted = _RESTRICTED.search(str(error))
        if wanted and not step.anchors:
            return check_step(PipelineStep(step.name, step.options, (wanted[1],)))
        raise PipelineError(_explain(step, str(error))) from None
    return step


def _explain(step: PipelineStep, message: str) -> str:
    if "does not refer to a registered pass" in message:
        return f"unknown pass {step.name}{suggestion(step.name, [*PASSES, *PIPELINES, *UPSTREAM])}"
    return f"pass {step.name}: {' '.join(message.replace('<Pass-Options-Parser>: ', '').split())}"


def split_options(text: str) -> dict[str, str]:
    """`a=1 b="x y" c={z}` as a mapping; an option without `=` has the value ''.

    Raises:
        PipelineError: an option is given twice.
    """
    options: dict[str, str] = {}
    for match in re.finditer(r"""([^\s=]+)(?:=("[^"]*"|'[^']*'|\{[^}]*\}|\S*))?""", text):
        name, value = match[1], match[2] or ""
        if name in options:
            raise PipelineError(f"option {name}: given twice in {text!r}")
        quoted = len(value) > 1 and value[0] + value[-1] in ('""', "''", "{}")
        options[name] = value[1:-1] if quoted else value
    return options
