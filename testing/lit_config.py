"""lit for programs and operators: a folder becomes a test suite with a two-line `lit.cfg.py`.

    from oneflow.testing import lit_config
    lit_config.setup(config)

RUN lines may use `oneflow-opt`, `oneflow-run`, `%python`, `FileCheck` (LLVM's if it is on the path, else the
one pip installs) and `not`. A test that checks nothing fails. Imports lit alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import lit.formats
import lit.Test

import oneflow

COMMANDS = {
    "oneflow-opt": "oneflow.tools.oneflow_opt",
    "oneflow-run": "oneflow.tools.oneflow_run",
    "oneflow-translate": "oneflow.tools.oneflow_translate",
}
_RUN = re.compile(r"RUN:(.*)")
_WAIVED = re.compile(r"CHECKS: none because \S+")
_COMPARES = re.compile(r"(^|[|&;\s])(not|diff|cmp)\s")
NO_CHECK = (
    "the test checks nothing: pipe a RUN line to FileCheck and write CHECK lines, use --verify-diagnostics with "
    "expected-error comments, `not` or `diff`, or say `CHECKS: none because <reason>`"
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
    config.name = config.name or "oneflow"
    config.test_format = CheckedShTest()
    config.suffixes = {".mlir", ".py"}
    config.excludes = {"lit.cfg.py", "lit.site.cfg.py", "Inputs", *(config.excludes or ())}
    if config.test_exec_root is None:
        config.test_exec_root = str(_output_folder(config))
    package = str(Path(oneflow.__file__).parent.parent)
    config.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        if name in os.environ:
            config.environment[name] = os.environ[name]
    python = f'"{sys.executable}"'
    config.substitutions.append(("%python", python))
    config.substitutions += [(_word(name), f"{python} -m {module}") for name, module in COMMANDS.items()]
    if shutil.which("FileCheck") is None:
        config.substitutions.append((_word("FileCheck"), f"{python} -m filecheck"))


def _output_folder(config: Any) -> Path:
    """Where `%t` files go: outside the sources, one folder per suite."""
    source = config.test_source_root or os.getcwd()
    digest = hashlib.sha256(f"{source}{os.getuid()}".encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"oneflow-lit-{digest}"


def _word(name: str) -> str:
    """A pattern for a command's name, not for a part of a path or another name."""
    return rf"(?<![\w./-]){re.escape(name)}(?![\w./-])"
