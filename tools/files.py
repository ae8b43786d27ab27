"""Reading programs from files and running files that define operators, with errors that say what is wrong.

Imports the errors of commands.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path

from oneflow.runtime.user_ops.framework import FrameworkError
from oneflow.runtime.user_ops.library import LibraryError, load_library
from oneflow.tools.command import CommandError


class FileError(CommandError):
    """A file that cannot be read, written or run."""


def read_text(path: str) -> str:
    """The text of a program; `-` is standard input.

    Raises:
        FileError: there is none, or it is not text.
    """
    name = "<stdin>" if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {name}: {error.strerror}") from None
    if data.startswith(b"ML\xefR"):
        raise FileError(f"cannot read {name}: expected MLIR text, got MLIR bytecode")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"the byte {data[error.start]:#04x} in line {data[: error.start].count(10) + 1}"
        raise FileError(f"cannot read {name}: expected UTF-8, got {what}") from None
    if not text.strip():
        raise FileError(f"cannot read {name}: expected a program, got an empty file")
    if "\0" in text:
        raise FileError(f"cannot read {name}: expected MLIR text, got a zero byte")
    return text


def write_text(path: str, text: str) -> None:
    """Writes a program; `-` is standard output.

    Raises:
        FileError: it cannot be written.
    """
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}") from None


def load_operators(path: str) -> None:
    """Runs a Python file that defines operators, or loads a library that does.

    Raises:
        FileError: it is neither, or it fails; the message names its line.
    """
    loaders = {".py": _run_python, ".so": _load_library}
    loader = loaders.get(Path(path).suffix)
    if loader is None:
        raise FileError(f"cannot load {path}: expected a Python file (.py) or a library (.so) that defines operators")
    if not Path(path).is_file():
        raise FileError(f"cannot load {path}: no such file")
    loader(path)


def _load_library(path: str) -> None:
    try:
        load_library(path)
    except (LibraryError, FrameworkError) as error:
        raise FileError(str(error)) from None


def _run_python(path: str) -> None:
    try:
        runpy.run_path(path, run_name=Path(path).stem)
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else 0
        raise FileError(f"cannot load {path}: line {line}: {type(error).__name__}: {error}") from None
