"""The command line of oneflow-opt: one table of flags; every other flag names a pass.

Flags take one or two dashes, values as `--flag=value` or `--flag value`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oneflow.dialect.deprecated import current_name
from oneflow.dialect.record import suggestion
from oneflow.lowering.targets.selection import DEFAULT_GPU, gpu_target_named
from oneflow.passes.base import PipelineError, parse_bool
from oneflow.passes.registry import PASSES, PIPELINES, check_names
from oneflow.passes.upstream import UPSTREAM
from oneflow.tools import target
from oneflow.tools.command import UsageError
from oneflow.tools.files import LOAD_HELP


@dataclass(frozen=True)
class Flag:
    """A flag: the name of its value (None: no value), its help, whether the value is optional.

    `check` raises a `PipelineError` for a value that the flag does not accept.
    """

    name: str
    value: str | None
    text: str
    optional: bool = False
    check: Callable[[str], object] = str

    def __str__(self) -> str:
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name}"


#: The modes of `--verify-diagnostics`: unexpected diagnostics are errors, or ignored.
MODES = ("all", "only-expected")


def _check_mode(text: str) -> None:
    if text and text not in MODES:
        raise PipelineError(f"expected {' or '.join(MODES)}, got {text!r}{suggestion(text, MODES)}")


def _check_folder(text: str) -> None:
    if Path(text).exists() and not Path(text).is_dir():
        raise PipelineError(f"expected a folder, got the file {text!r}")


def _check_arch(text: str) -> None:
    try:
        gpu_target_named(text)
    except ValueError as error:
        raise PipelineError(str(error)) from None


def _check_passes(text: str) -> None:
    check_names(_split_names(text))


def _split_names(text: str) -> list[str]:
    """Today's names of passes separated by commas."""
    return [current_name("pass", name) for name in text.split(",") if name]


FLAGS = {
    flag.name: flag
    for flag in (
        Flag("o", "FILE", "write the program here instead of to standard output"),
        Flag("pass-pipeline", "TEXT", "run a pipeline such as builtin.module(canonicalize,oneflow-infer-types)"),
        Flag(
            "stage",
            "STAGE",
            "run the passes up to a stage: oneflow, linalg, kernels, llvm, gpu-linalg, gpu-kernels or triton",
        ),
        Flag("target", "TARGET", target.HELP),
        Flag(
            "dump-kernels",
            "FOLDER",
            "write the kernels of the triton stage: source, PTX and machine code",
        ),
        Flag(
            "gpu-arch",
            "ARCH",
            f"the GPU to choose and compile kernels for (default: {DEFAULT_GPU})",
            check=_check_arch,
        ),
        Flag(
            "autotune",
            None,
            "keep candidate configurations of kernels of the triton stage, for a device to time",
        ),
        Flag(
            "load-ops",
            "FILE",
            LOAD_HELP,
        ),
        Flag("split-input-file", "MARKER", "process the parts between lines `// -----` one by one", optional=True),
        Flag(
            "verify-diagnostics",
            "MODE",
            f"hold diagnostics against `expected-error` comments: {' or '.join(MODES)}",
            optional=True,
            check=_check_mode,
        ),
        Flag("verify-each", "BOOL", "verify after each pass (default: true)", optional=True, check=parse_bool),
        Flag("allow-unregistered-dialect", None, "accept operations of unknown dialects"),
        Flag("mlir-print-ir-before", "PASSES", "print the program before these passes", check=_check_passes),
        Flag("mlir-print-ir-after", "PASSES", "print the program after these passes", check=_check_passes),
        Flag("mlir-print-ir-before-all", None, "print the program before each pass"),
        Flag("mlir-print-ir-after-all", None, "print the program after each pass"),
        Flag("view-sbp", "FILE", "draw the layouts that oneflow-infer-sbp chose, as an HTML page"),
        Flag("mlir-timing", None, "print how long each pass took"),
        Flag("mlir-print-op-generic", None, "print operations in generic form"),
        Flag("mlir-print-debuginfo", None, "print locations"),
        Flag("reproducer-dir", "FOLDER", "where the program before a failing pass is written", check=_check_folder),
        Flag("list-targets", None, "list the CPUs and GPUs that programs can be compiled for and exit"),
        Flag("show-dialects", None, "list the dialects and exit"),
        Flag("list-passes", None, "list the passes and exit"),
        Flag("list-ops", None, "list the operators and exit"),
        Flag("show-op", "NAME", "print everything known of an operator and exit"),
        Flag("help", None, "print this and exit"),
        Flag("version", None, "print the versions and exit"),
    )
}


@dataclass
class Arguments:
    """A parsed command line: flags by name, passes in order, and the input file."""

    flags: dict[str, str] = field(default_factory=dict)
    passes: list[tuple[str, str]] = field(default_factory=list)
    input: str = "-"

    def is_on(self, name: str) -> bool:
        """Whether a flag is given."""
        return name in self.flags

    def names(self, when: str) -> frozenset[str]:
        """The passes at which the program is printed; `*` for all."""
        if f"mlir-print-ir-{when}-all" in self.flags:
            return frozenset("*")
        return frozenset(_split_names(self.flags.get(f"mlir-print-ir-{when}", "")))


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """The arguments of a command line.

    Raises:
        UsageError: a flag is unknown, lacks its value or is given twice, or there are two input files.
    """
    arguments, inputs, rest = Arguments(), [], list(argv)
    while rest:
        word = rest.pop(0)
        if word == "-" or not word.startswith("-"):
            inputs.append(word)
            continue
        name, has_value, value = word.removeprefix("-").removeprefix("-").partition("=")
        if name in FLAGS:
            _add_flag(arguments, FLAGS[name], value if has_value else None, rest)
        else:
            arguments.passes.append((_pass_name(name), value))
    if len(inputs) > 1:
        raise UsageError(f"expected one input file, got {', '.join(inputs)}")
    arguments.input = inputs[0] if inputs else "-"
    if arguments.passes and arguments.flags.keys() & {"pass-pipeline", "stage"}:
        raise UsageError("expected either --pass-pipeline, --stage or flags of passes, got several of these")
    return arguments


def _add_flag(arguments: Arguments, flag: Flag, value: str | None, rest: list[str]) -> None:
    if flag.name in arguments.flags:
        raise UsageError(f"{flag}: given twice")
    if flag.value is None and value is not None:
        raise UsageError(f"{flag}: expected no value, got {value!r}")
    if flag.value is not None and not flag.optional:
        value = (rest.pop(0) if rest else "") if value is None else value
        if not value:
            raise UsageError(f"{flag}: expected {flag.value}, got nothing")
    try:
        flag.check(value or "")
    except PipelineError as error:
        raise UsageError(f"{flag}: {error}") from None
    arguments.flags[flag.name] = value or ""


def _pass_name(name: str) -> str:
    name = current_name("pass", name)
    known = {*PASSES, *PIPELINES, *UPSTREAM}
    if name not in known:
        advice = suggestion(name.lstrip("-"), [*known, *FLAGS], "--")
        raise UsageError(f"unknown option or pass --{name}{advice}; see --help")
    return name


def help_text() -> str:
    """The text of `--help`: the flags, and the passes of this project with their options."""
    lines = ["usage: oneflow-opt [FILE] [flags and passes]", "", "Flags:"]
    lines += [_row(f"{f}" + _value(f), f.text) for f in FLAGS.values()]
    lines += ["", "Passes and pipelines of oneflow (MLIR's are named by --list-passes):"]
    for name, cls in sorted(PASSES.items()):
        lines.append(_row(f"--{name}", cls.summary()))
        for option in cls.options().values():
            kind = getattr(option.type, "__name__", str(option.type))
            lines.append(_row(f"    {option.name}=<{kind}>", option.default_text))
    lines += [_row(f"--{name}", "the pipeline " + text) for name, text in sorted(PIPELINES.items())]
    return "\n".join(lines)


def _value(flag: Flag) -> str:
    if flag.value is None:
        return ""
    return f"[={flag.value}]" if flag.optional else f"={flag.value}"


def _row(left: str, right: str) -> str:
    return f"  {left:<38} {right}"
