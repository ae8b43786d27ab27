"""Refuses text that would end the process inside MLIR's parser, before the text is parsed.

Six kinds of text are refused: strings whose escapes are no UTF-8, which MLIR's bindings cannot convert to Python
strings; nesting that leaves no stack for the parser; iterator types that are no strings, which the parser reads as
strings; arrays of element types for which MLIR's bindings have no class; sizes for which the parser allocates memory;
and errors in programs with forward references, after which the parser writes to freed memory. A program with such
sizes or references is parsed in a separate process first.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass

#: How deep brackets may nest, and how many elements a tensor has that is parsed without a trial.
MAX_NESTING, MAX_UNTRIED_ELEMENTS = 512, 1 << 28
#: Bytes of memory that a trial may take: a constant, and a number for each byte of the text.
TRIAL_MEMORY, MEMORY_PER_BYTE = 4 << 30, 64

#: A string of MLIR.
STRING = r'"(?:[^"\\\n]|\\.)*"'
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2})")
_TOKEN = re.compile(rf"{STRING}|//[^\n]*|->|>=|[(\[{{<]|[)\]}}>]")
_ITERATORS = re.compile(r"\biterator_types\s*=\s*(\[[^\]]*\]?|#[\w.$-]+)")
_STRINGS = re.compile(rf"\[\s*(?:{STRING}\s*(?:,\s*{STRING}\s*)*)?\]")
_ARRAY = re.compile(rf"{STRING}|//[^\n]*|(?<![\w.])array\s*<\s*([A-Za-z]\w*)\s*[:>]")
#: The element types of arrays that MLIR's bindings read.
_ARRAY_ELEMENTS = ("i1", "i8", "i16", "i32", "i64", "f32", "f64")
_WITH_ITERATORS = ("linalg.generic", "vector.contract")
_SHAPE = re.compile(r"\[?\d+\]?(?:\s*x\s*\[?\d+\]?)*(?=\s*x)")
_TRIAL = """
import resource, sys
from oneflow.dialect._mlir import ir
with ir.Context() as context:
    context.allow_unregistered_dialects = True
    context.enable_multithreading(False)
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
    try:
        ir.Module.parse(sys.stdin.read())
    except ir.MLIRError as error:
        first = error.error_diagnostics[0]
        print(first.location, first.message, sep="\\n")
"""
_PLACE = re.compile(r":(\d+):(\d+)\)?$")


@dataclass(frozen=True)
class InvalidText:
    """The fault of a text, and its position."""

    message: str
    line: int
    column: int


def find_invalid_text(text: str, forward_reference: int | None = None) -> InvalidText | None:
    """Why MLIR's parser must not see a text; None if it may. `forward_reference` is the position of the first."""
    reason = _bad_string(text) or _too_deep(text) or _bad_iterators(text) or _bad_array(text) or _too_large(text)
    if reason is not None:
        return invalid_text_at(text, *reason)
    return None if forward_reference is None else _unparsable(text, forward_reference)


def invalid_text_at(text: str, message: str, offset: int) -> InvalidText:
    """The fault of a text at an offset."""
    before = text[:offset]
    return InvalidText(message, before.count("\n") + 1, offset - before.rfind("\n"))


def _bad_string(text: str) -> tuple[str, int] | None:
    for match in re.finditer(STRING, text) if "\\" in text else ():
        data = _ESCAPE.sub(lambda m: bytes([int(m[1], 16)]), match[0].encode("utf-8", "surrogateescape"))
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            return f"expected UTF-8 in strings, got the byte {data[error.start]:#04x}", match.start()
    return None


def _too_deep(text: str) -> tuple[str, int] | None:
    if sum(map(text.count, "([{<")) <= MAX_NESTING:
        return None
    depth = 0
    for match in _TOKEN.finditer(text):
        if match[0] in "([{<":
            depth += 1
        elif match[0] in ")]}>":
            depth -= 1
        if depth > MAX_NESTING:
            return f"expected brackets to nest at most {MAX_NESTING} deep", match.start()
    return None


def _bad_iterators(text: str) -> tuple[str, int] | None:
    for match in _ITERATORS.finditer(text):
        if not _STRINGS.fullmatch(match[1]) and not _is_generic_form(text, match.start()):
            return f'expected iterator_types that list strings, such as ["parallel"], got {match[1]}', match.start()
    return None


def _bad_array(text: str) -> tuple[str, int] | None:
    for match in _ARRAY.finditer(text):
        if match[1] is not None and match[1] not in _ARRAY_ELEMENTS:
            return f"expected an array of {', '.join(_ARRAY_ELEMENTS)}, got array<{match[1]}>", match.start()
    return None


def _is_generic_form(text: str, attribute: int) -> bool:
    """Whether the operation of iterator types is in MLIR's generic form, with its name in quotes."""
    name = max(text.rfind(name, 0, attribute) for name in _WITH_ITERATORS)
    return name > 0 and text[name - 1] == '"'


def _too_large(text: str) -> tuple[str, int] | None:
    large = next((m for m in _SHAPE.finditer(text) if _elements(m[0]) > MAX_UNTRIED_ELEMENTS), None)
    if large is None:
        return None
    trial = _trial(text)
    if trial.returncode >= 0:
        return None
    problem = f"expected tensors that MLIR's parser can parse, got tensors that end the parser ({_death(trial)})"
    return f"{problem}; the first large one is here", large.start()


def _unparsable(text: str, forward_reference: int) -> InvalidText | None:
    """The parser's error for a text with a forward reference."""
    trial = _trial(text)
    if trial.returncode < 0:
        problem = f"expected text that MLIR's parser can parse, got text that ends the parser ({_death(trial)})"
        message = f"{problem}; the first value that is used before its definition is here"
        return invalid_text_at(text, message, forward_reference)
    location, _, message = trial.stdout.strip().partition("\n")
    place = _PLACE.search(location)
    return None if place is None else InvalidText(message, int(place[1]), int(place[2]))


def _trial(text: str) -> subprocess.CompletedProcess[str]:
    """Parses a text in another process, which prints the first error's location and message."""
    limit = str(TRIAL_MEMORY + MEMORY_PER_BYTE * len(text))
    command = [sys.executable, "-c", _TRIAL, limit]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False)


def _death(trial: subprocess.CompletedProcess[str]) -> str:
    """The fatal error of a process that a signal ended, else the signal."""
    first_error = next((line for line in trial.stderr.splitlines() if "ERROR" in line), "")
    return first_error or signal.Signals(-trial.returncode).name


def _elements(shape: str) -> int:
    return math.prod(int(n) for n in re.findall(r"\d+", shape))
