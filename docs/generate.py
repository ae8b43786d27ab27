"""Writes `docs/ops.md`, `docs/coverage.md`, `docs/passes.md`, `dialect/operator_index.py` and parts of
`docs/user-operators.md` from the registries of the project, the outputs of examples in `docs/architecture.md`, and
the types of functions in `src/oneflow`.

python docs/generate.py            writes the files
python docs/generate.py --check    prints how the files differ from the registries; the exit status is 1 if they do
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

import oneflow.lowering.pipelines  # noqa: F401  declares the passes
from oneflow.dialect import scalar
from oneflow.dialect.attributes import KINDS
from oneflow.dialect.record import REGISTRY, Absent, Operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.unsupported_operators import REFUSED, refused
from oneflow.passes.registry import PASSES, PIPELINES

sys.path.insert(0, str(Path(__file__).parent.parent / "test/conformance"))
import examples_of_stages
import function_types
import names as documented

DOCS = Path(__file__).parent
#: The length of a line of text.
WIDTH = 118
ONEFLOW = DOCS.parent / "test/python/dialect/oneflow_signatures.txt"


def wrapped(lines: Iterable[str]) -> str:
    """Returns lines of text, list items and code spans as one text in which no line is long."""
    return "\n".join(part for line in lines for part in (wrap(line) if len(line) > WIDTH else [line])) + "\n"


def wrap(line: str) -> list[str]:
    """Returns the lines of a long line; the lines of a list item are indented, rows of tables are left."""
    if line.startswith("|"):
        return [line]
    indent = "  " if line.startswith("- ") else ""
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def operators() -> str:
    """Returns the text of ops.md: an index by family, then one card per operator."""
    lines = ["# Operators", "", f"{len(REGISTRY)} operators, generated from their records by `docs/generate.py`.", ""]
    for family, group in itertools.groupby(sorted(REGISTRY, key=lambda r: (r.family, r.name)), lambda r: r.family):
        records = list(group)
        links = ", ".join(f"[{r.name}](#{r.name})" for r in records)
        lines.append(f"- **{family}** ({len(records)}): {links}")
    for record in sorted(REGISTRY, key=lambda r: r.name):
        lines += ["", *card(record)]
    return wrapped(lines)


def card(record: Operator) -> Iterable[str]:
    """Yields the lines of one operator: signature, description, and the contents of each slot."""
    yield f"## {record.name}"
    yield ""
    yield f"`{record.signature}`"
    yield ""
    yield inspect.cleandoc(record.doc)
    yield ""
    yield f"- defined in `dialect/ops/{record.family}.py`; meaning: {record.meaning}"
    yield f"- gradient: {slot(record.grad)}"
    yield f"- SBP: {slot(record.sbp)}" + (f"; not offered: {record.unoffered}" if record.unoffered else "")
    if record.laws:
        yield "- laws: " + "; ".join(f"`{law.name}`: {law.text}" for law in record.laws)


def slot(value: object) -> str:
    """Returns a short description of a slot's contents."""
    if isinstance(value, Absent):
        return f"none ({value.reason})"
    if isinstance(value, Factors):
        return f"`{value.text}`" + (f", partial sums: {value.linear}" if value.linear else "")
    return "derived from the scalar body" if "scalar" in getattr(value, "__name__", "") else "by rule"


def coverage() -> str:
    """Returns the text of coverage.md: OneFlow's operators that are here, and the reasons of those that are not."""
    theirs = [line.partition("(")[0] for line in ONEFLOW.read_text().splitlines()[1:]]
    here = [name for name in theirs if name in REGISTRY]
    lines = [
        "# OneFlow's operators",
        "",
        "Generated from the records and from `dialect/unsupported_operators.py`.",
        "",
    ]
    lines += ["| operators | number |", "| --- | --- |", f"| of OneFlow | {len(theirs)} |"]
    lines += [f"| of OneFlow, registered | {len(here)} |", f"| of OneFlow, refused | {len(refused())} |"]
    lines += [f"| of this project alone | {len(REGISTRY) - len(here)} |", "", "## Registered", ""]
    lines += [", ".join(f"[{name}](ops.md#{REGISTRY[name].name})" for name in here), "", "## Refused", ""]
    lines.append("`oneflow-opt --show-op NAME` prints the reason, and a program with such an operator ends with it.")
    for reason, names in REFUSED.items():
        lines += ["", f"- {reason} {', '.join(f'`{name}`' for name in names.split())}"]
    lines += python_names()
    return wrapped(lines)


def python_names() -> Iterable[str]:
    """Yields the lines of coverage.md about OneFlow's documented Python names."""
    pages = documented.documented()
    total = sum(map(len, pages.values()))
    missing = {page: [n for n in of_page if not documented.resolves(n)] for page, of_page in pages.items()}
    yield from ["", "# OneFlow's Python names", "", "| names | number |", "| --- | --- |"]
    yield f"| documented | {total} |"
    yield f"| documented, here | {total - sum(map(len, missing.values()))} |"
    yield from ["", "Names that are not here, and why:"]
    for reason in documented.REFUSED:
        refused = [n for of_page in missing.values() for n in of_page if documented.reason(n) == reason]
        if refused:
            yield from ["", f"- {reason} {', '.join(f'`{n}`' for n in dict.fromkeys(refused))}"]


def spaced(text: str) -> str:
    """Returns a text with an empty line around each block of indented code, without which Markdown sees no code."""
    return re.sub(r"(?m)^(?: {4}.*(?=\n\S)|\S.*(?=\n {4}))$", lambda line: f"{line[0]}\n", text)


def passes() -> str:
    """Returns the text of passes.md: every pass with its options, and the pipelines."""
    lines = ["# Passes", "", "Generated from the pass registry by `docs/generate.py`.", ""]
    for name, cls in sorted(PASSES.items()):
        lines += [f"## {name}", "", spaced(inspect.cleandoc(cls.__doc__ or "")), ""]
        options = list(dataclasses.fields(cls))
        lines += [f"- `{f.name.replace('_', '-')}`: {f.type}, default `{f.default!r}`" for f in options]
        lines += [""] if options else []
    lines += ["## Pipelines"]
    for name, text in sorted(PIPELINES.items()):
        lines += ["", f"`{name}` is", "", "```", *wrap(re.sub(r",(?![^{]*\})", ", ", text)), "```"]
    return "\n".join(lines).rstrip() + "\n"


#: The lines of user-operators.md around the generated part.
BEGIN, END = "<!-- generated by docs/generate.py -->", "<!-- generated until here -->"
#: Python's operators by the names of their methods.
SYMBOLS = {
    "__add__": "+", "__sub__": "-", "__mul__": "*", "__truediv__": "/", "__floordiv__": "//", "__mod__": "%",
    "__pow__": "**", "__neg__": "-x", "__abs__": "abs(x)", "__invert__": "~", "__and__": "&", "__or__": "|",
    "__xor__": "^", "__lshift__": "<<", "__rshift__": ">>", "__lt__": "<", "__le__": "<=", "__gt__": ">",
    "__ge__": ">=",
}  # fmt: skip
#: Types of the parameters and results of functions that a scalar body may call.
BODY = {"Expr", "Operand", "DType", "Number", "float"}


def user_operators() -> str:
    """Returns the text of user-operators.md with the generated part replaced."""
    before, _, rest = (DOCS / "user-operators.md").read_text().partition(BEGIN)
    return (
        before + wrapped([BEGIN, "", *attributes(), "", *scalar_functions(), "", END]) + rest.partition(END + "\n")[2]
    )


def attributes() -> Iterable[str]:
    """Yields the lines that list the kinds of attributes."""
    yield "Attributes of a signature are `name: kind`, or `name: kind = default`. The kinds:"
    yield ", ".join(f"`{name}`" for name in KINDS) + "."


def scalar_functions() -> Iterable[str]:
    """Yields the lines that list the operators and functions of scalar bodies."""
    symbols = ", ".join(f"`{text}`" for name, text in SYMBOLS.items() if name in vars(scalar.Expr))
    functions = {name: f for name, f in vars(scalar).items() if inspect.isfunction(f) and is_of_bodies(name, f)}
    plain = [name for name in functions if name in scalar.UNARY]
    yield f"A scalar body may use {symbols}, `x.eq(y)`, `x.ne(y)` and these functions of `flow.scalar`:"
    yield ", ".join(f"`{name}`" for name in plain) + ", and"
    yield ""
    yield "| Function | Meaning |"
    yield "| --- | --- |"
    for name, function in functions.items():
        if name not in plain:
            text = inspect.cleandoc(function.__doc__ or "").partition("\n")[0].replace("|", "\\|")
            yield f"| `{name}({', '.join(inspect.signature(function).parameters)})` | {text} |"


def is_of_bodies(name: str, function: object) -> bool:
    """Returns whether a scalar body may call the function."""
    annotations = inspect.get_annotations(function) if callable(function) else {}
    return not name.startswith("_") and set(annotations.values()) <= BODY


def operator_index() -> str:
    """Returns the text of operator_index.py: the names of the operators of each family."""
    lines = [
        '"""The operators of each family, by which the registry finds the module of an operator.',
        "",
        "Generated from the records by `docs/generate.py`.",
        '"""',
        "",
        "OPERATORS = {",
    ]
    for family, group in itertools.groupby(sorted(REGISTRY, key=lambda r: (r.family, r.name)), lambda r: r.family):
        names = textwrap.wrap(" ".join(r.name for r in group), 110, break_on_hyphens=False)
        lines += [f'    "{family}": """', *(f"        {line}" for line in names), '    """,']
    lines += ["}", "#: The family of each operator."]
    lines += ["FAMILY_OF = {name: family for family, names in OPERATORS.items() for name in names.split()}"]
    return "\n".join(lines) + "\n"


def architecture() -> str:
    """Returns the text of architecture.md with the outputs of its examples."""
    return examples_of_stages.with_outputs((DOCS / "architecture.md").read_text(), WIDTH)


PAGES = {
    "architecture.md": architecture,
    "ops.md": operators,
    "coverage.md": coverage,
    "passes.md": passes,
    "user-operators.md": user_operators,
    "../dialect/operator_index.py": operator_index,
    "../src/oneflow/_functions.pyi": function_types.functions,
    "../src/oneflow/_tensor_types.pyi": function_types.tensor_types,
    "../src/oneflow/special.pyi": function_types.special_functions,
}


def main() -> int:
    """Writes the pages, or with `--check` prints the differences and returns 1 if there are any."""
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
