"""Writes `oneflow_signatures.txt`, the signatures of OneFlow's operators, from a checkout of OneFlow.

    python test/python/dialect/read_oneflow.py CHECKOUT

A line has the form that `dialect.signature` reads. Attributes without a kind here have the form that programs
write: a complex number is a list of two numbers, bytes and a symbol are text, a memory format is its number.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from oneflow.dialect.attributes import KINDS, AttrValue
from oneflow.dialect.signature import MANDATORY, ArgDef, AttrDef, Signature
from oneflow.tools.ods import ATTR_TYPES

TABLE = Path(__file__).parent / "oneflow_signatures.txt"
FOLDER = "oneflow/ir/include/OneFlow"
KINDS_OF = {name: attr_type.kind for name, attr_type in ATTR_TYPES.items()} | {
    "ComplexDoubleAttr": "list_double",
    "BytesAttr": "string",
    "FlatSymbolRefAttr": "string",
    "OneFlow_MemoryFormat": "int32",
}
_HEAD = re.compile(r'^(?:class|def) (\w+)[^{};]*?:\s*(OneFlow_\w+)<(?:"(\w+)"|mnemonic)', re.MULTILINE)
_FIELD = re.compile(r"let (input|output|attrs) = \((?:ins|outs)\b(.*?)\);", re.DOTALL)
_ARG = re.compile(r"(?:(Optional|Variadic)<)?\w+>?:\s*\$(\w+)")
_ATTR = re.compile(r'(?:DefaultValuedAttr<(\w+),\s*"((?:[^"\\]|\\.)*)">|(\w+)):\s*\$(\w+)')
_COUNTS = {"": (1, 1), "Optional": (0, 1), "Variadic": (0, None)}


def signatures(checkout: Path) -> list[Signature]:
    """The operators that OneFlow's files define, by name."""
    fields: dict[str, dict[str, str]] = {}
    found = []
    for file in ("OneFlowBase.td", "OneFlowUserOps.td"):
        text = re.sub(r"//[^\n]*", "", (checkout / FOLDER / file).read_text(encoding="utf-8"))
        heads = list(_HEAD.finditer(text))
        ends = [*(h.start() for h in heads[1:]), len(text)]
        for head, end in zip(heads, ends, strict=True):
            name, base, operator = head.groups()
            fields[name] = fields.get(base, {}) | dict(_FIELD.findall(text[head.end() : end]))
            if operator:
                found.append(_signature(operator, fields[name]))
    return sorted(found, key=lambda s: s.name)


def _signature(name: str, fields: dict[str, str]) -> Signature:
    inputs, outputs = (_found(_ARG, fields.get(field, ""), name) for field in ("input", "output"))
    operands, results = (tuple(ArgDef(arg, *_COUNTS[count]) for count, arg in side) for side in (inputs, outputs))
    attrs = _found(_ATTR, fields.get("attrs", ""), name)
    return Signature(name, operands, results, tuple(_attribute(*attr) for attr in attrs))


def _found(pattern: re.Pattern[str], text: str, name: str) -> list[Any]:
    """The match of the pattern for each name in a field.

    Raises:
        ValueError: the field has text that the pattern does not match.
    """
    found = pattern.findall(text)
    if len(found) != text.count("$"):
        raise ValueError(f"expected types and names such as `F32Attr:$alpha` of {name}, got {text}")
    return found


def _attribute(defaulted: str, default: str, mandatory: str, name: str) -> AttrDef:
    kind = KINDS[KINDS_OF[mandatory or defaulted]]
    return AttrDef(name, kind, MANDATORY if mandatory else kind.check(_value(default, kind.name)))


def _value(text: str, kind: str) -> AttrValue:
    if kind == "string":
        return re.sub(r"\\(.)", r"\1", text).strip('"')
    if kind == "bool":
        return text == "true"
    return float(text) if kind in ("float", "double") else int(float(text))


def main() -> None:
    """Writes the table."""
    checkout = Path(sys.argv[1])
    log = ["git", "-C", str(checkout), "log", "-1", "--format=%H of %cs"]
    version = subprocess.run(log, check=True, capture_output=True, text=True).stdout.strip()
    lines = [f"# Operators of OneFlow, commit {version}; written by read_oneflow.py."]
    TABLE.write_text("\n".join([*lines, *map(str, signatures(checkout)), ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
