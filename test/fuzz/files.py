"""Mutated programs through all stages: `python test/fuzz/files.py --count 100000`.

A case is a program of the repository (a lit test or example) with some tokens and lines changed. The case is parsed,
verified and run through each of `STAGES`. The expected outcome is an error with a message or a valid program.
Faults are a crash, a hang, an unintended exception, and a pass whose result MLIR's verifier refuses.
"""

from __future__ import annotations

import functools
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from common import main, without_lines

from oneflow.dialect import ops  # noqa: F401  registers the operators
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import ProgramError, read_module
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.passes.pipeline import Pipeline, PipelineFailure, UpstreamError, Watch
from oneflow.tools.files import FileError, read_text

ROOT = Path(__file__).resolve().parents[2]
RANKS = "oneflow-insert-boxing,oneflow-join-boxing,oneflow-to-physical"
AUTO = "builtin.module(oneflow-infer-types,oneflow-infer-sbp{{strategy=auto time-limit=2 mesh={}}}," + RANKS + ")"
#: Pipelines of the compiler, each from the parsed program. If `oneflow` fails, later pipelines fail likewise. `llvm`
#: begins with the passes of the stages `linalg` and `kernels`.
STAGES = {
    "oneflow": pipeline_between(None, "oneflow"),
    "autodiff": "builtin.module(oneflow-infer-types,oneflow-autodiff,canonicalize)",
    "sbp": f"builtin.module(oneflow-infer-types,oneflow-infer-sbp,{RANKS})",
    "mesh": f"builtin.module(oneflow-infer-types,oneflow-infer-sbp{{mesh=2,2}},{RANKS})",
    "auto": AUTO.format("2,3"),
    "llvm": pipeline_between(None, "llvm"),
    "triton": pipeline_between(None, "triton"),
}
#: The slowest pipelines; only one case in `RARE` also runs through these.
RARE_STAGES = {"auto of three axes": AUTO.format("2,3,2")}
RARE = 8
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#!^]?[\w.$]+|->|::|\s+|.', re.S)
SIZE = re.compile(r"(?<![\w.])(?:\d+|\?|\*)(?=x)|(?<=x)(?:\d+|\?)(?=x)")
#: Replacements of a size, a number, a type.
SIZES = ("0", "1", "2", "3", "7", "8", "?", "*", "128", "100000", "2147483647", "2147483648", "4611686018427387904")
NUMBERS = (*SIZES, "-1", "-2", "1.0e40", "0.0", "-2147483649", "9223372036854775807", "0x7F800000", "true")
TYPES = (
    "f16",
    "bf16",
    "f32",
    "f64",
    "i1",
    "i8",
    "ui8",
    "i32",
    "i64",
    "si32",
    "index",
    "f8E4M3FN",
    "complex<f32>",
    "i3",
)
ENCODINGS = (", 1", ", {a = 1}", ', "x"')


@functools.cache
def programs() -> tuple[str, ...]:
    """The repository's programs without comments, one by one."""
    files = sorted(p for folder in ("test/lit", "examples") for p in (ROOT / folder).rglob("*.mlir"))
    chunks = [c for f in files for c in re.split(r"^// -----.*$", f.read_text(), flags=re.M)]
    stripped = (re.sub(r"^\s*//.*\n|\s*//.*$", "", c, flags=re.M).strip() for c in chunks)
    return tuple(dict.fromkeys(s + "\n" for s in stripped if s and len(s) < 6000))


class Mutant:
    """A program that mutations change to a case."""

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.text = random.choice(programs())

    def tokens(self) -> list[str]:
        """The tokens of the program; the concatenation of all tokens is the text of the program."""
        return TOKEN.findall(self.text)

    def _position(self, kind: Callable[[str], object], tokens: list[str]) -> int | None:
        positions = [i for i, t in enumerate(tokens) if kind(t)]
        return self.random.choice(positions) if positions else None

    def _swap(self, kind: Callable[[str], object], new: Callable[[list[str]], str]) -> None:
        tokens = self.tokens()
        position = self._position(kind, tokens)
        if position is not None:
            tokens[position] = new(tokens)
            self.text = "".join(tokens)

    def size(self) -> None:
        """Another size of a tensor, more often than not for all tensors with the old size."""
        positions = list(SIZE.finditer(self.text))
        if positions:
            old, new = self.random.choice(positions), self.random.choice(SIZES)
            everywhere = self.random.random() < 0.6
            self.text = SIZE.sub(
                lambda m: new if m.start() == old.start() or (everywhere and m[0] == old[0]) else m[0], self.text
            )

    def number(self) -> None:
        """Another number."""
        self._swap(lambda t: re.fullmatch(r"\d[\w.]*", t), lambda _: self.random.choice(NUMBERS))

    def element(self) -> None:
        """Another type of elements; everywhere, more often than not."""
        found = sorted(set(re.findall(r"(?<=x)(?:bf|f|i|ui|si)\d+\b", self.text)))
        if found:
            old, new = self.random.choice(found), self.random.choice(TYPES)
            count = 0 if self.random.random() < 0.6 else 1
            self.text = re.sub(rf"(?<=x){old}\b", new, self.text, count=count)

    def encoding(self) -> None:
        """An encoding of a tensor's type."""
        old = re.findall(r"tensor<[^<>,]*>", self.text)
        if old:
            one = self.random.choice(old)
            self.text = self.text.replace(one, one[:-1] + self.random.choice(ENCODINGS) + ">")

    def unranked(self) -> None:
        """A tensor of unknown rank."""
        old = re.findall(r"tensor<[^<>]*x(\w+)>", self.text)
        if old:
            one = self.random.choice(old)
            self.text = re.sub(
                rf"tensor<[^<>]*x{one}>", f"tensor<*x{one}>", self.text, count=self.random.randrange(4)
            )

    def drop(self) -> None:
        """The program without one token."""
        self._swap(str.strip, lambda _: "")

    def repeat(self) -> None:
        """A token where another was."""
        self._swap(str.strip, lambda tokens: self.random.choice(tokens))

    def value(self) -> None:
        """Another value or symbol."""
        sign = self.random.choice("%@")
        names = [t for t in self.tokens() if t.startswith(sign)]
        self._swap(lambda t: t.startswith(sign), lambda _: self.random.choice(names))

    def without_attributes(self) -> None:
        """An operation, or an argument, without attributes."""
        found = list(re.finditer(r"\{[^{}\n]*\}", self.text))
        if found:
            one = self.random.choice(found)
            self.text = self.text[: one.start()] + self.text[one.end() :]

    def attribute(self) -> None:
        """One attribute replaced by an attribute of another program."""
        pattern = re.compile(r"\b[\w.]+ = [^,{}\n]+(?=[,}])")
        mine, theirs = list(pattern.finditer(self.text)), pattern.findall(self.random.choice(programs()))
        if mine and theirs:
            one = self.random.choice(mine)
            self.text = self.text[: one.start()] + self.random.choice(theirs) + self.text[one.end() :]

    def line(self) -> None:
        """A line left out, doubled, or at another position."""
        lines = self.text.splitlines(keepends=True)
        position, other = self.random.randrange(len(lines)), self.random.randrange(len(lines))
        choice = self.random.randrange(3)
        moved = lines[position] if choice == 1 else lines.pop(position)
        if choice:
            lines.insert(other, moved)
        self.text = "".join(lines) or "\n"

    def splice(self) -> None:
        """The functions of the program, followed by the functions of another program."""
        self.text += self.random.choice(programs())

    def byte(self) -> None:
        """A byte that is not text."""
        position = self.random.randrange(len(self.text))
        self.text = self.text[:position] + self.random.choice('\udcff\udc80\0\x7f{(<"') + self.text[position + 1 :]


MUTATIONS: tuple[tuple[Callable[[Mutant], None], int], ...] = (
    (Mutant.size, 5), (Mutant.number, 4), (Mutant.element, 4), (Mutant.value, 3), (Mutant.without_attributes, 2),
    (Mutant.attribute, 2), (Mutant.repeat, 2), (Mutant.drop, 1), (Mutant.line, 1), (Mutant.unranked, 1),
    (Mutant.encoding, 1), (Mutant.splice, 1), (Mutant.byte, 1),
)  # fmt: skip


class Files:
    """Mutated programs through all stages."""

    suffix = ".mlir"
    #: A case may have many functions, for each of which the stage `auto` searches for seconds.
    limit = 60.0

    def make(self, random: random.Random) -> str:
        """A program of the repository with one to four changes."""
        mutant = Mutant(random)
        kinds, weights = zip(*MUTATIONS, strict=True)
        for change in random.choices(kinds, weights, k=random.choice((1, 1, 2, 3, 4))):
            change(mutant)
        return mutant.text

    def check(self, case: str) -> str | None:
        """The first fault of a program: of parsing, else of one of the stages."""
        with tempfile.NamedTemporaryFile(suffix=".mlir") as file:
            file.write(case.encode(errors="surrogateescape"))
            file.flush()
            try:
                context = create_context(REGISTRY, operators=())
                module = read_module(read_text(file.name), context, file.name)
            except (FileError, ProgramError) as error:
                return _unplaced("read", error)
        text = module.operation.get_asm(enable_debug_info=True)
        rare = RARE_STAGES if len(case) % RARE == 0 else {}
        for name, pipeline in {**STAGES, **rare}.items():
            fault, failed = _stage(name, text, pipeline, context)
            if fault is not None:
                return fault
            if failed and name == "oneflow":
                return None
        return None

    def smaller(self, case: str) -> Iterator[str]:
        """The program without some lines, then without some attributes."""
        yield from without_lines(case)
        for match in re.finditer(r"attributes \{[^{}\n]*\}|\{[^{}\n]*\}|, [\w.]+ = [^,{}\n]+", case):
            yield case[: match.start()] + case[match.end() :]


def _stage(name: str, text: str, pipeline: str, context: ir.Context) -> tuple[str | None, bool]:
    """The fault of a pipeline from a program that MLIR printed, and whether the pipeline ended with an error."""
    with context:
        module = ir.Module.parse(text)
    try:
        Pipeline.parse(pipeline, context).run(module, REGISTRY, Watch(reproducers=None))
    except PipelineFailure as error:
        return _fault(name, error), True
    return None, False


def _fault(stage: str, error: PipelineFailure) -> str | None:
    """The fault of an error: an internal error, an invalid program after one of our passes, or a missing location."""
    message = " ".join(error.message.partition("\nnote: the pass")[0].split())
    if "did not foresee" in message:
        return f"{stage}: internal: {message}"
    if isinstance(error.__context__, UpstreamError):
        return f"{stage}: late: {error.step.name}: {message}"
    return _unplaced(stage, error)


def _unplaced(stage: str, error: Exception) -> str | None:
    """An error without a message, or an internal exception that is reported as an error of the program."""
    return None if str(error).strip() else f"{stage}: no message: {type(error).__name__}"


if __name__ == "__main__":
    sys.exit(main(Files()))
