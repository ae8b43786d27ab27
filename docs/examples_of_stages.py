"""Runs the examples of `docs/architecture.md`: the block below a comment with a command is the output of the command.

    <!-- oneflow-opt --stage kernels | oneflow-opt --oneflow-emit-kernels | @layer_kernel_0 -->
    <!-- python layer.ir("oneflow") -->

`oneflow-opt` reads the nearest block of MLIR above that is not generated; a last part `@name` prints one function,
`kernels` the plan and the kernels of the stage `triton`. `python` runs the nearest block of Python
above and prints an expression.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.triton.launch.program import read_program
from oneflow.tools import oneflow_opt

BLOCK = re.compile(
    r"(?:<!-- (?P<command>(?:oneflow-opt|python) [^\n]*) -->\n\n)?```(?P<language>\w*)\n(?P<body>.*?)```", re.DOTALL
)
#: The file of the program of an example, which kernels name.
FILE = "layer.mlir"
#: The output must not depend on the machine.
TARGETS = ("--target", "x86-64-v3", "--gpu-arch", "sm_90")


def with_outputs(page: str, width: int) -> str:
    """Returns the page with the outputs of its commands, in lines of at most `width` characters where possible."""
    written: dict[str, str] = {}

    def block(match: re.Match[str]) -> str:
        command, language, body = match["command"], match["language"], match["body"]
        if command is None:
            written[language] = body
            return match[0]
        tool, _, argument = command.partition(" ")
        if tool == "python":
            output = evaluate(written["python"], argument)
        else:
            output = transform(written["mlir"], command.split(" | "))
        lines = [part for line in output.strip().splitlines() for part in folded(line, width)]
        return "\n".join([f"<!-- {command} -->", "", f"```{language}", *lines, "```"])

    return BLOCK.sub(block, page)


def evaluate(program: str, expression: str) -> str:
    """Returns the text of an expression after a program of Python, which has a process since it may add operators."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.py"
        path.write_text(f"{program}\nprint({expression})\n")
        return subprocess.run([sys.executable, path], check=True, capture_output=True, text=True).stdout


def transform(program: str, steps: list[str]) -> str:
    """Returns the output of calls of `oneflow-opt`, each of which reads the output of the call before."""
    *commands, last = steps
    if last.startswith("oneflow-opt"):
        commands, last = steps, ""
    for command in commands:
        program = run_opt(program, command.split()[1:])
    with create_context(REGISTRY):
        module = ir.Module.parse(program)
        if last == "kernels":
            return read_program(module).text
        if last:
            symbols = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in module.body.operations}
            return str(symbols[last.removeprefix("@")].get_asm())
        attributed = bool(list(module.operation.attributes))
        return str(module) if attributed else "\n".join(op.get_asm() for op in module.body.operations)


def run_opt(program: str, flags: list[str]) -> str:
    """Returns what `oneflow-opt` prints for a program."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(FILE).write_text(program)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            status = oneflow_opt.main([FILE, *flags, *TARGETS])
    assert status == 0, f"oneflow-opt {' '.join(flags)} fails on\n{program}"
    return output.getvalue()


def folded(line: str, width: int) -> list[str]:
    """Returns the lines of a long line of MLIR, which is broken between words."""
    if len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(
        line.strip(), width, initial_indent=indent, subsequent_indent=indent + "    ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
