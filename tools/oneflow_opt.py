"""`oneflow-opt`: reads a program, runs passes on it and prints it, as mlir-opt does.

Operators, passes and lowerings are imported when the program or the command line names them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import oneflow
from oneflow.dialect._mlir import ir
from oneflow.dialect.lazy import lazy
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, OperatorError, suggestion
from oneflow.lowering.pipelines import STAGES, pipeline_between
from oneflow.passes.pipeline import Pipeline
from oneflow.tools.arguments import Arguments, help_text, parse_arguments
from oneflow.tools.command import UsageError, run_command
from oneflow.tools.files import load_operators, read_text
from oneflow.tools.session import Session
from oneflow.tools.target import for_targets

if TYPE_CHECKING:
    from oneflow.tools import describe
else:
    describe = lazy("oneflow.tools.describe")
operations = lazy("oneflow.runtime.user_ops.operations")
#: The pass that chooses layouts.
INFER_SBP = "oneflow-infer-sbp"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0, or 1 after an error, which is printed on standard error."""
    return run_command("oneflow-opt", lambda: _run(parse_arguments(sys.argv[1:] if argv is None else argv)))


def _run(arguments: Arguments) -> int:
    if "load-ops" in arguments.flags:
        load_operators(arguments.flags["load-ops"])
    text = _show(arguments)
    if text is not None:
        print(text)
        return 0
    context = create_context(REGISTRY, operators=())
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = arguments.is_on("allow-unregistered-dialect")
    with for_targets(arguments.flags.get("target"), arguments.flags.get("gpu-arch")):
        return Session(arguments, context, _pipeline(arguments, context)).run(read_text(arguments.input))


def _show(arguments: Arguments) -> str | None:
    """The text of a flag that only prints; None without such a flag."""
    flags = arguments.flags
    if "show-op" in flags:
        name = flags["show-op"].removeprefix("oneflow.")
        try:
            return describe.show_operator(operations.find_operator(REGISTRY, name)[0])
        except OperatorError as error:
            raise UsageError(str(error)) from None
    printers: dict[str, Callable[[], str]] = {
        "help": help_text,
        "version": lambda: describe.version_text(oneflow.__version__),
        "list-passes": describe.list_passes,
        "list-ops": lambda: describe.list_operators(REGISTRY),
        "list-targets": describe.list_targets,
        "show-dialects": lambda: describe.show_dialects(create_context(REGISTRY)),
    }
    return next((show() for name, show in printers.items() if name in flags), None)


def _pipeline(arguments: Arguments, context: ir.Context) -> Pipeline:
    if "pass-pipeline" in arguments.flags:
        return Pipeline.parse(arguments.flags["pass-pipeline"], context)
    if "stage" in arguments.flags:
        stage = arguments.flags["stage"]
        if stage not in STAGES:
            advice = suggestion(stage, STAGES)
            raise UsageError(f"--stage: expected one of {', '.join(STAGES)}, got {stage!r}{advice}")
        return Pipeline.parse(pipeline_between(None, stage), context)
    pipeline = Pipeline.from_flags(arguments.passes, context)
    return _drawing(pipeline, arguments.flags["view-sbp"]) if "view-sbp" in arguments.flags else pipeline


def _drawing(pipeline: Pipeline, file: str) -> Pipeline:
    """The pipeline, whose SBP inference writes a drawing to `file`."""
    inferring = [step.name == INFER_SBP for step in pipeline.steps]
    if not any(inferring):
        raise UsageError(f"--view-sbp: expected the pass --{INFER_SBP}, whose choice is drawn")
    drawn = zip(pipeline.steps, inferring, strict=True)
    return Pipeline(tuple(replace(s, options=f"{s.options} view={file}".strip()) if i else s for s, i in drawn))


if __name__ == "__main__":
    sys.exit(main())
