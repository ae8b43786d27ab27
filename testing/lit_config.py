"""lit for programs and operators: a folder becomes a test suite with a two-line `lit.cfg.py`.

    from oneflow.testing import lit_config
    lit_config.setup(config)

The name of the suite is the name of its folder, unless `config.name` was set. RUN lines may use `oneflow-opt`,
`oneflow-run`, `%python`, `FileCheck` (LLVM's if it is on the path, else the one pip installs) and `not`. A test that
checks nothing fails.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import socket
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lit.formats
import lit.Test

import oneflow
from oneflow.testing import fork_client, fork_server

COMMANDS = {
    "oneflow-opt": "oneflow.tools.oneflow_opt",
    "oneflow-run": "oneflow.tools.oneflow_run",
    "oneflow-translate": "oneflow.tools.oneflow_translate",
}
#: FileCheck of the package `filecheck`, where LLVM's is missing.
FILE_CHECK = {"FileCheck": "oneflow.testing.file_check"}
#: lit's name of an unnamed suite.
UNNAMED = "<unnamed>"
_RUN = re.compile(r"RUN:(.*)")
_WAIVED = re.compile(r"CHECKS: none because \S+")
_COMPARES = re.compile(r"(^|[|&;\s])(diff|cmp)\s")
NO_CHECK = (
    "the test checks nothing: pipe a RUN line to FileCheck and write CHECK lines, use --verify-diagnostics with "
    "expected-error comments or `diff`, or say `CHECKS: none because <reason>`"
)


class CheckedShTest(lit.formats.ShTest):  # type: ignore[misc]
    """Shell tests in lit's own shell; one without any check fails."""

    def __init__(self) -> None:
        super().__init__(execute_external=False)

    def execute(self, test: Any, lit_config: Any) -> Any:
        """Runs one test."""
        if not has_check(Path(test.getSourcePath()).read_text(encoding="utf-8")):
            return lit.Test.Result(lit.Test.FAIL, NO_CHECK)
        return super().execute(test, lit_config)


def has_check(text: str) -> bool:
    """Whether a test's text can fail for another reason than a command's exit status."""
    runs = "\n".join(_RUN.findall(text))
    if _WAIVED.search(text) or _COMPARES.search(runs):
        return True
    if "verify-diagnostics" in runs and "expected-" in text:
        return True
    prefixes = [p for group in re.findall(r"check-prefix(?:es)?[= ](\S+)", runs) for p in group.split(",")]
    named = "|".join(map(re.escape, ["CHECK", *prefixes]))
    return "FileCheck" in runs and re.search(rf"\b({named})(-[A-Z]+)*(\{{LITERAL\}})?:", text) is not None


def setup(config: Any) -> None:
    """Makes `config`, lit's configuration object, a suite of `.mlir` and `.py` tests."""
    folder = Path(config.test_source_root or Path(sys._getframe(1).f_globals["__file__"]).parent).resolve()
    if config.name in ("", None, UNNAMED):
        config.name = folder.name
    config.test_format = CheckedShTest()
    config.suffixes = {".mlir", ".py"}
    config.excludes = {"lit.cfg.py", "lit.site.cfg.py", "Inputs", *(config.excludes or ())}
    if config.test_exec_root is None:
        config.test_exec_root = str(_output_folder(folder))
    _set_environment(config.environment)
    config.substitutions.append(("%python", f'"{sys.executable}"'))
    config.substitutions += [(_word(name), command) for name, command in _commands(config.environment).items()]


def _set_environment(environment: dict[str, str]) -> None:
    """Lets tests import this package, from its present location, and find the user's folders."""
    package = str(Path(oneflow.__file__).parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        if name in os.environ:
            environment[name] = os.environ[name]


def _commands(environment: dict[str, str]) -> dict[str, str]:
    """How each command is run: by a server with the loaded package, or by Python where no server can run."""
    own_check = FILE_CHECK if shutil.which("FileCheck") is None and find_spec("filecheck") else {}
    modules = {name: module for name, module in {**COMMANDS, **own_check}.items() if find_spec(module)}
    if not hasattr(socket, "AF_UNIX"):
        return {name: f'"{sys.executable}" -m {module}' for name, module in modules.items()}
    path = os.path.join(tempfile.mkdtemp(prefix="oneflow-lit-"), "server")
    fork_server.start(path, list(modules.values()), {**os.environ, **environment})
    atexit.register(shutil.rmtree, os.path.dirname(path), ignore_errors=True)
    client = f'"{sys.executable}" -S -E -s "{fork_client.__file__}" "{path}"'
    return {name: f"{client} {module}" for name, module in modules.items()}


def _output_folder(folder: Path) -> Path:
    """The folder of `%t` files: outside the sources, one folder per suite."""
    digest = hashlib.sha256(f"{folder}{os.getuid()}".encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"oneflow-lit-{digest}"


def _word(name: str) -> str:
    """A pattern for a command's name, not for a part of a path or another name."""
    return rf"(?<![\w./-]){re.escape(name)}(?![\w./-])"
