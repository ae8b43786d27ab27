"""Running pipelines of our passes and MLIR's, verified after each run.

    Pipeline.parse("builtin.module(canonicalize,oneflow-infer-types)", context).run(module)

MLIR's pass manager gets maximal runs of its own passes; when passes are timed or printed, each pass alone.
On failure the pipeline is replayed on a copy to find the pass that failed, the program before that pass is
written to a file, and the error ends with the command that reproduces the failure.
"""

from __future__ import annotations

import contextlib
import gc
import re
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TextIO

from oneflow.dialect import record
from oneflow.dialect._mlir import ir, passmanager
from oneflow.dialect.lazy import lazy
from oneflow.dialect.oneflow import Verifier
from oneflow.dialect.reader import Collector, Diagnostic, convert_diagnostic, file_line_column
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.passes.base import Pass, PassError
from oneflow.passes.pipeline_text import PipelineStep, format_steps, parse_flag, parse_pipeline

tempfile = lazy("tempfile")


class PipelineFailure(PassError):
    """A failed pass: its name, the diagnostics, and the command that reproduces the failure.

    The text has the locations of the diagnostics, `message` has none.
    """

    def __init__(self, step: PipelineStep, diagnostics: Sequence[Diagnostic], reproduce: str) -> None:
        errors = [d for d in diagnostics if d.severity == "error"]
        note = f"note: the pass {step.name} failed" + (f"; reproduce with: {reproduce}" if reproduce else "")
        super().__init__("\n".join([*map(str, errors), note]))
        self.message = "\n".join([*(d.message for d in errors), note])
        self.step, self.diagnostics, self.reproduce = step, list(diagnostics), reproduce


class MachineFailure(PassError):
    """A pass that the machine did not let finish: a file, memory or time was missing. The program is not at fault, so
    there is nothing to reproduce.
    """


@dataclass
class Watch:
    """The observers of a run.

    `verify_each` verifies after each pass. Of a program that is `lowered`, which has no operators any more, a run of
    MLIR's passes is verified at its end. `before` and `after` name passes to print the program at (`*` for all), on
    `stream` by `show`. `report` receives each diagnostic at once. `seconds` fills up with the time of each pass when
    `timing`, by `clock`. `reproducers` is the folder for the program before a failing pass; None writes none. `load`
    are files that a reproducer loads; the default is the files that define the program's operators.
    `flags` are further arguments of its command line.
    """

    verify_each: bool = True
    lowered: bool = False
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    timing: bool = False
    file: str = "-"
    report: Callable[[Diagnostic], None] = lambda diagnostic: None
    show: Callable[[ir.Module], str] = str
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    reproducers: Path | None = field(default_factory=lambda: Path(tempfile.gettempdir()))
    load: str = ""
    flags: str = ""
    seconds: list[tuple[str, float]] = field(default_factory=list)
    clock: Callable[[], float] = time.perf_counter

    @property
    def singly(self) -> bool:
        """Whether passes have to run one by one."""
        return bool(self.before or self.after or self.timing)

    def print(self, module: ir.Module, step: PipelineStep, when: str, names: frozenset[str]) -> None:
        """Prints the program under mlir-opt's heading if `step` is among `names`."""
        if names & {step.name, "*"}:
            self.stream.write(f"// -----// IR Dump {when} {step.text} //----- //\n{self.show(module)}\n\n")


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Turns garbage collection off: passes make many objects and few cycles, and each collection visits all objects.

    If garbage collection is off already, the caller that turned collection off turns it on again.
    """
    enabled = gc.isenabled()
    if enabled:
        gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True)
class Pipeline:
    """Passes in the order of execution."""

    steps: tuple[PipelineStep, ...]

    @classmethod
    def parse(cls, text: str, context: ir.Context) -> Pipeline:
        """The pipeline that `builtin.module(..)` writes.

        Raises:
            PipelineError: the text is malformed, or a pass or option unknown.
        """
        with context:
            return cls(tuple(parse_pipeline(text)))

    @classmethod
    def from_flags(cls, flags: Sequence[tuple[str, str]], context: ir.Context) -> Pipeline:
        """The pipeline of flags `--name="options"` in order.

        Raises:
            PipelineError: a pass or option is unknown.
        """
        with context:
            return cls(tuple(step for name, options in flags for step in parse_flag(name, options)))

    def __str__(self) -> str:
        return format_steps(self.steps)

    @without_garbage_collection()
    def run(self, module: ir.Module, registry: Registry = REGISTRY, watch: Watch | None = None) -> None:
        """Transforms `module` in place.

        Raises:
            PipelineFailure: a pass failed or left a program that does not verify.
            MachineFailure: a file, memory or time that a pass needs was missing.
        """
        watch = watch or Watch()
        original = module.operation.clone()
        verifier = Verifier(registry) if watch.verify_each else None
        with module.context, Collector(module.context, watch.file, report=watch.report) as collector:
            for group in _groups(self.steps, watch.singly):
                try:
                    _run_watched(group, module, registry, verifier, watch)
                except MachineFailure:
                    raise
                except PassError as error:
                    _emit(error, collector)
                    self._fail(original, registry, verifier, watch, collector.diagnostics)

    def _fail(
        self,
        original: ir.Operation,
        registry: Registry,
        verifier: Verifier | None,
        watch: Watch,
        diagnostics: list[Diagnostic],
    ) -> None:
        step, text = self._replay(original, registry, verifier)
        load = watch.load or _definitions(text, registry)
        raise PipelineFailure(step, diagnostics, _write_reproducer(step, text, watch, load, _stem(watch, original)))

    def _replay(
        self, original: ir.Operation, registry: Registry, verifier: Verifier | None
    ) -> tuple[PipelineStep, str]:
        """The step that fails, and the program before it."""
        module = ir.Module.parse(_text(original))
        with Collector(module.context):
            for step in self.steps:
                before = _text(module.operation)
                try:
                    _run([step], module, registry, verifier)
                except PassError:
                    return step, before
        return self.steps[-1], _text(original)


def _text(op: ir.Operation) -> str:
    return str(op.get_asm(enable_debug_info=True, assume_verified=True))


def _groups(steps: Sequence[PipelineStep], singly: bool) -> Iterator[list[PipelineStep]]:
    """Runs of MLIR's passes, and each of ours alone."""
    for upstream, group in groupby(steps, key=lambda step: step.ours is None):
        if upstream and not singly:
            yield list(group)
        else:
            yield from ([step] for step in group)


def _run_watched(
    group: list[PipelineStep], module: ir.Module, registry: Registry, verifier: Verifier | None, watch: Watch
) -> None:
    watch.print(module, group[0], "Before", watch.before)
    start = watch.clock()
    _run(group, module, registry, verifier, watch.lowered)
    watch.seconds.append((group[0].name, watch.clock() - start))
    watch.print(module, group[-1], "After", watch.after)


def _run(
    group: list[PipelineStep], module: ir.Module, registry: Registry, verifier: Verifier | None, lowered: bool = False
) -> None:
    ours, verifies = group[0].ours, verifier is not None
    if ours is not None:
        _run_ours(ours, module, registry)
    else:
        _run_upstream(group, module, verifies and not lowered)
    if verifies and (lowered or ours is not None) and not _verifies(module):
        raise PassError("")
    if verifier is not None and not lowered and not verifier.verify(module.operation):
        raise PassError("")


def _run_ours(ours: Pass, module: ir.Module, registry: Registry) -> None:
    """Runs a pass of this package; an unexpected exception is reported as an error of the pass."""
    try:
        ours.run(module, registry)
    except (OSError, MemoryError) as error:
        raise MachineFailure(
            f"{ours.name}: expected the files, memory and time that the pass needs, got {_named(error)}; the program "
            "is not at fault: make these available, and run again"
        ) from error
    except Exception as error:
        if type(error).__module__ != "builtins" and not isinstance(error, ir.MLIRError):
            raise
        raise PassError(f"{ours.name}: {unforeseen(error)}") from error


def unforeseen(error: BaseException) -> str:
    """The text for an exception that is no `PassError`: its type and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    what = _named(error)
    return f"did not foresee this program ({what}{where}); if the program is at the right stage, please report it"


def _named(error: BaseException) -> str:
    """The type and the text of an exception, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _run_upstream(group: list[PipelineStep], module: ir.Module, verify: bool) -> None:
    manager = passmanager.PassManager.parse(format_steps(group))
    manager.enable_verifier(verify)
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        raise UpstreamError(error) from None


def _verifies(module: ir.Module) -> bool:
    try:
        return bool(module.operation.verify())
    except ir.MLIRError as error:
        raise UpstreamError(error) from None


class UpstreamError(PassError):
    """The diagnostics of MLIR."""

    def __init__(self, error: ir.MLIRError) -> None:
        super().__init__(str(error))
        self.diagnostics = error.error_diagnostics


def _emit(error: PassError, collector: Collector) -> None:
    """Hands the error to `collector`.

    An empty message has been emitted before; a message without a location is a diagnostic of the file.
    """
    if isinstance(error, UpstreamError):
        for diagnostic in error.diagnostics:
            collector.add(convert_diagnostic(diagnostic, collector.name))
    elif error.message and error.location is not None:
        error.location.emit_error(error.message)
    elif error.message:
        collector.add(Diagnostic("error", error.message, collector.name))


def _stem(watch: Watch, program: ir.Operation) -> str:
    """The start of the names of files about a program: the name of the program's own file, or the file of its
    location.
    """
    file = re.sub(r":\d+:\d+$", "", file_line_column(program.location)) if watch.file == "-" else watch.file
    if file in ("-", "<stdin>"):
        return "stdin"
    return "program" if file.startswith("<") else Path(file).stem


def _definitions(text: str, registry: Registry) -> str:
    """The files outside of the package that define operators of a program, as arguments of `--load-ops`.

    A Python file may be a whole script: the names of the operators state how far the script is run.
    """
    files: dict[str, list[str]] = {}
    for name in dict.fromkeys(re.findall(r"oneflow\.(\w+)", text)):
        if name in registry:
            files.setdefault(registry[name].where.rpartition(":")[0], []).append(name)
    own = Path(record.__file__).resolve().parent
    loaded = [f for f in files if Path(f).is_file() and own not in Path(f).resolve().parents]
    named = [":".join([f, *files[f]]) if f.endswith(".py") else f for f in loaded if f.endswith((".py", ".td"))]
    return ",".join(named)


def _write_reproducer(step: PipelineStep, text: str, watch: Watch, load: str, stem: str) -> str:
    """Writes the program before `step`; returns the command that runs the step, or why there is no such command."""
    if watch.reproducers is None:
        return ""
    path = watch.reproducers / f"{stem}.{step.name}.reproducer.mlir"
    loaded = f" --load-ops={shlex.quote(load)}" if load else ""
    flags = f"{loaded} {watch.flags}".rstrip()
    command = f"oneflow-opt {shlex.quote(str(path))}{flags} --pass-pipeline={shlex.quote(format_steps([step]))}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"// {command}\n{text}\n", encoding="utf-8")
    except OSError as error:
        return f"--pass-pipeline={shlex.quote(format_steps([step]))} (the program could not be written: {error})"
    return command
