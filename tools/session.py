"""A run of oneflow-opt over one input file: reading, passes, diagnostics, printing."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from oneflow.dialect._mlir import ir
from oneflow.dialect.lazy import lazy
from oneflow.dialect.reader import Diagnostic, ProgramError, read_module
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.options import AUTOTUNE
from oneflow.lowering.targets.selection import gpu_target
from oneflow.passes.base import parse_bool
from oneflow.passes.pipeline import Pipeline, PipelineFailure, Watch
from oneflow.tools.arguments import Arguments
from oneflow.tools.command import UsageError
from oneflow.tools.diagnostics import Expectations, Source
from oneflow.tools.files import write_text

program = lazy("oneflow.lowering.triton.launch.program")
compiler = lazy("oneflow.runtime.cuda.compiler")
dump = lazy("oneflow.runtime.cuda.dump")
compilation = lazy("oneflow.frontend.core.compilation")
MARKER = "// -----"


@dataclass
class Session:
    """A run over one input file."""

    arguments: Arguments
    context: ir.Context
    pipeline: Pipeline
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def run(self, text: str) -> int:
        """Processes the file; returns the exit status."""
        self.source = Source("<stdin>" if self.arguments.input == "-" else self.arguments.input, text)
        self.verifying = self.arguments.is_on("verify-diagnostics")
        self.watch = self._watch()
        outputs = [self._process(chunk) for chunk in self._chunks(text)]
        ok = None not in outputs
        if self.verifying:
            unexpected = self.arguments.flags["verify-diagnostics"] != "only-expected"
            problems = Expectations(self.source, unexpected).check(self.diagnostics)
            print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
            ok = not problems
        self._report_times()
        target = self.arguments.flags.get("o", "-")
        if ok or target == "-":
            write_text(target, f"\n{MARKER}\n".join(o or "" for o in outputs))
        return 0 if ok else 1

    def _chunks(self, text: str) -> list[str]:
        """The parts of a split file, each preceded by empty lines so that line numbers stay."""
        if "split-input-file" not in self.arguments.flags:
            return [text]
        marker = self.arguments.flags["split-input-file"] or MARKER
        chunks, lines, start = [], text.split("\n"), 0
        for index, line in enumerate([*lines, marker]):
            if line.rstrip() == marker:
                chunks.append("\n" * start + "\n".join(lines[start:index]))
                start = index + 1
        return chunks

    def _process(self, text: str) -> str | None:
        """The text of the program after all passes; None after an error, which is reported."""
        try:
            module = read_module(text, self.context, self.source.name)
            if self.arguments.is_on("autotune"):
                compilation.set_compile_option(module, AUTOTUNE, True)
            self.pipeline.run(module, REGISTRY, self.watch)
        except ProgramError as error:
            for diagnostic in error.diagnostics:
                self._report(diagnostic)
            return None
        except PipelineFailure as error:
            if not self.verifying:
                print(f"note: the pass {error.step.name} failed; reproduce with: {error.reproduce}", file=sys.stderr)
            return None
        if "dump-kernels" in self.arguments.flags:
            self._dump(module)
        return self._print(module) + "\n"

    def _dump(self, module: ir.Module) -> None:
        folder = Path(self.arguments.flags["dump-kernels"])
        try:
            dump.dump_kernels(program.read_program(module), folder, gpu_target().arch)
        except (compiler.CompileError, ValueError) as error:
            raise UsageError(f"--dump-kernels: {error}") from error
        except OSError as error:
            raise UsageError(f"--dump-kernels: cannot write to {folder}: {error.strerror}") from error

    def _report(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)
        if not self.verifying:
            print(self.source.render(diagnostic), file=sys.stderr)

    def _watch(self) -> Watch:
        flags = self.arguments.flags
        watch = Watch(
            verify_each=parse_bool(self.arguments.flags.get("verify-each", "true")),
            before=self.arguments.names("before"),
            after=self.arguments.names("after"),
            timing=self.arguments.is_on("mlir-timing"),
            file=self.source.name,
            report=self._report,
            show=self._print,
            load=self.arguments.flags.get("load-ops", ""),
            flags=" ".join(f"--{name}={flags[name]}" for name in ("target", "gpu-arch") if name in flags),
        )
        if self.verifying:
            watch.reproducers = None
        elif "reproducer-dir" in self.arguments.flags:
            watch.reproducers = Path(self.arguments.flags["reproducer-dir"])
        return watch

    def _print(self, module: ir.Module) -> str:
        return str(
            module.operation.get_asm(
                print_generic_op_form=self.arguments.is_on("mlir-print-op-generic"),
                enable_debug_info=self.arguments.is_on("mlir-print-debuginfo"),
                assume_verified=True,
            )
        )

    def _report_times(self) -> None:
        if self.watch.timing:
            total = sum(seconds for _, seconds in self.watch.seconds)
            rows = [*self.watch.seconds, ("Total", total)]
            lines = [f"  {s:8.4f} ({100 * s / (total or 1):5.1f}%)  {name}" for name, s in rows]
            head = ["... Execution time report ...", "  ---Wall Time---  ---Name---"]
            print(*head, *lines, sep="\n", file=sys.stderr)
