"""Writes `docs/ops.md` and `docs/passes.md` from the registries; `--check` only compares.

python docs/generate.py [--check]
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import inspect
import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

from oneflow.dialect import ops
from oneflow.dialect.record import REGISTRY, Absent, Operator
from oneflow.dialect.sbp import Factors
from oneflow.lowering import pipelines
from oneflow.passes.registry import PASSES, PIPELINES

DOCS = Path(__file__).parent
REGISTERED = (pipelines, ops)


def operators() -> str:
    """The text of ops.md: one card per operator, by family."""
    lines = ["# Operators", "", f"{len(REGISTRY)} operators, generated from their records by `docs/generate.py`.", ""]
    for family, group in itertools.groupby(sorted(REGISTRY, key=lambda r: (r.family, r.name)), lambda r: r.family):
        records = list(group)
        links = ", ".join(f"[{r.name}](#{r.name})" for r in records)
        lines.append(f"- **{family}** ({len(records)}): {links}")
    for record in sorted(REGISTRY, key=lambda r: r.name):
        lines += ["", *card(record)]
    return "\n".join(lines) + "\n"


def card(record: Operator) -> Iterable[str]:
    """One operator: signature, text, and what each slot holds."""
    yield f"## {record.name}"
    yield ""
    yield f"`{record.signature}`"
    yield ""
    yield inspect.cleandoc(record.doc)
    yield ""
    yield f"- defined in `dialect/ops/{record.family}.py`; meaning: {record.meaning}"
    yield f"- gradient: {slot(record.grad)}"
    yield f"- SBP: {slot(record.sbp)}" + (f"; not offered: {record.withheld}" if record.withheld else "")
    if record.laws:
        yield "- laws: " + "; ".join(f"`{law.name}`: {law.text}" for law in record.laws)


def slot(value: object) -> str:
    """What a slot holds, in a few words."""
    if isinstance(value, Absent):
        return f"none ({value.reason})"
    if isinstance(value, Factors):
        return f"`{value.text}`" + (f", partial sums: {value.linear}" if value.linear else "")
    return "derived from the scalar body" if "scalar" in getattr(value, "__name__", "") else "by rule"


def passes() -> str:
    """The text of passes.md: every pass with its options, and the pipelines."""
    lines = ["# Passes", "", "Generated from the pass registry by `docs/generate.py`.", ""]
    for name, cls in sorted(PASSES.items()):
        lines += [f"## {name}", "", inspect.cleandoc(cls.__doc__ or ""), ""]
        options = list(dataclasses.fields(cls))
        lines += [f"- `{f.name.replace('_', '-')}`: {f.type}, default `{f.default!r}`" for f in options]
        lines += [""] if options else []
    lines += ["## Pipelines", ""]
    lines += [f"- `{name}`: `{text}`" for name, text in sorted(PIPELINES.items())]
    return "\n".join(lines).rstrip() + "\n"


PAGES = {"ops.md": operators, "passes.md": passes}


def main() -> int:
    """Writes the pages, or with `--check` prints how they differ and gives 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    stale = False
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if not check:
            path.write_text(text)
            continue
        old = path.read_text() if path.exists() else ""
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), name, "generated"))
        stale |= old != text
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
