"""Reads and writes programs, and loads files that define operators."""

from __future__ import annotations

import ast
import contextlib
import re
import runpy
import sys
import traceback
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from oneflow.dialect.lazy import lazy
from oneflow.dialect.record import REGISTRY
from oneflow.tools.command import CommandError

framework = lazy("oneflow.runtime.user_ops.framework")
library = lazy("oneflow.runtime.user_ops.library")
declared = lazy("oneflow.tools.declared_operators")
ods = lazy("oneflow.tools.ods")
#: The help of `--load-ops`.
LOAD_HELP = "load operators first: a .py, .so or .td file, or several with commas; FILE.py:NAME stops after NAME"
_COMMENT = re.compile(r"//.*")


class FileError(CommandError):
    """A file cannot be read, written or run."""


def read_text(path: str) -> str:
    """The text of a program; `-` is standard input.

    Raises:
        FileError: the file does not exist, is not text, or has only comments.
    """
    if not path:
        raise FileError("expected the name of a file, got an empty one")
    name = "<stdin>" if path == "-" else path
    try:
        data = _stdin().read() if path == "-" else Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read {name}: {_reason(error)}") from None
    if data.startswith(b"ML\xefR"):
        raise FileError(f"cannot read {name}: expected MLIR text, got MLIR bytecode")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"the byte {data[error.start]:#04x} in line {data[: error.start].count(10) + 1}"
        raise FileError(f"cannot read {name}: expected UTF-8, got {what}") from None
    if not _COMMENT.sub("", text).strip():
        what = "nothing but comments" if text.strip() else "an empty file"
        raise FileError(f"cannot read {name}: expected a program, got {what}")
    if "\0" in text:
        raise FileError(f"cannot read {name}: expected MLIR text, got a zero byte")
    return text


def write_text(path: str, text: str) -> None:
    """Writes a program; `-` is standard output.

    Raises:
        FileError: the file cannot be written.
    """
    if path == "-":
        if sys.stdout is None:
            raise FileError("cannot write <stdout>: the stream is closed")
        sys.stdout.write(text)
        return
    if not path:
        raise FileError("expected the name of a file to write, got an empty one")
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise FileError(f"cannot write {path}: {_reason(error)}") from None


def make_folder(path: Path) -> None:
    """Creates a folder and its missing parents.

    Raises:
        FileError: the folder cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {path}: {_reason(error)}") from None


def _stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise ValueError("it is closed")
    return sys.stdin.buffer


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def load_operators(path: str) -> None:
    """Loads operators: runs a Python file, loads a library, or declares the operators of an ODS file.

    `path` may be several, with commas between them. `FILE.py:one:other` runs the statements of a Python file up to
    the definitions of the operators `one` and `other`: later statements of a script do not run.

    Raises:
        FileError: the file is none of these, or fails; the message names the line.
    """
    for one in path.split(",") if "," in path and not Path(path).exists() else [path]:
        _load_one(one)


def _load_one(path: str) -> None:
    if ".py:" in path and not Path(path).exists():
        path, *names = path.split(":")
        _check_file(path)
        _run_until_defined(path, names)
        return
    loaders = {".py": _run_python, ".so": _load_library, ".td": _declare}
    loader = loaders.get(Path(path).suffix)
    if loader is None:
        raise FileError(
            f"cannot load {path or 'a file without name'}: expected a Python file (.py), a library (.so) "
            "or an ODS file (.td) that defines operators"
        )
    _check_file(path)
    loader(path)


def _check_file(path: str) -> None:
    if not Path(path).is_file():
        raise FileError(f"cannot load {path}: {'is a directory' if Path(path).is_dir() else 'no such file'}")


def _load_library(path: str) -> None:
    try:
        library.load_library(path)
    except (library.LibraryError, framework.FrameworkError) as error:
        raise FileError(str(error)) from None


def _declare(path: str) -> None:
    declared.declare_missing(ods.read_ods(read_text(path), path))


def _run_python(path: str) -> None:
    with _errors_of(path):
        runpy.run_path(path, run_name=Path(path).stem)


def _run_until_defined(path: str, names: Sequence[str]) -> None:
    """Runs the statements of a Python file one by one, until it has defined the operators."""
    module = types.ModuleType(Path(path).stem)
    module.__file__ = path
    sys.modules[module.__name__] = module
    with _errors_of(path):
        statements = ast.parse(Path(path).read_bytes(), path).body
        futures = [s for s in statements if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
        for statement in statements:
            exec(compile(ast.Module([*futures, statement], []), path, "exec"), module.__dict__)
            if not _undefined(path, names):
                return
    raise FileError(f"cannot load {path}: expected definitions of {', '.join(_undefined(path, names))}, got none")


def _undefined(path: str, names: Sequence[str]) -> list[str]:
    defined = {o.name for o in REGISTRY.additions() if o.where.rpartition(":")[0] == path}
    return [name for name in names if name not in defined]


@contextlib.contextmanager
def _errors_of(path: str) -> Iterator[None]:
    """Turns errors of a Python file into errors of loading the file, with the line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
        where = "" if line is None else f"line {line}: "
        raise FileError(f"cannot load {path}: {where}{type(error).__name__}: {error}") from None
