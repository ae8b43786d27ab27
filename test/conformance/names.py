"""OneFlow's documented Python names, and the reasons why this project does not have some names.

`names.txt` has the names of each page of OneFlow's documents; `oneflow_docs.py CHECKOUT --write-names` writes it.
"""

from __future__ import annotations

import fnmatch
import importlib
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("names.txt")

#: The public modules of names of OneFlow's internal modules.
MODULES = {
    "oneflow._oneflow_internal.autograd.Function.FunctionCtx": "oneflow.autograd.function.Context",
    "oneflow.nn.graph.graph_block.GraphModule": "oneflow.nn.graph.GraphModule",
    "oneflow.nn.graph.graph_config.GraphConfig": "oneflow.nn.graph.GraphConfig",
}

#: Reasons, and the names that each reason applies to, with * for any text. "Not yet" means that a name can be added.
REFUSED = {
    "Results of `as_strided` are copies.": "oneflow.Tensor.as_strided_",
}  # fmt: skip


def documented() -> dict[str, list[str]]:
    """The full names of each page."""
    rows = (line.split() for line in FILE.read_text().splitlines())
    return {page.rstrip(":"): list(names) for page, *names in rows}


def resolves(name: str) -> bool:
    """Whether a full name exists in this project."""
    module = next((m for m in MODULES if name.startswith(m + ".")), None)
    parts = (name if module is None else MODULES[module] + name[len(module) :]).split(".")
    found: Any = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], 1):
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(".".join(parts[: number + 1]))
            except ImportError:
                return False
    return True


def reason(name: str) -> str | None:
    """The reason why this project does not have a name, None if no reason is stated."""
    return next((r for r, ps in REFUSED.items() if any(fnmatch.fnmatchcase(name, p) for p in ps.split())), None)
