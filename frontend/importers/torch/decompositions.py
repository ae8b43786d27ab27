"""Graphs with operators of the table: PyTorch decomposes other operators, and updates of memory that is shared."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from oneflow.frontend.importers.torch.errors import UnsupportedError
from oneflow.frontend.importers.torch.fx_interpreter import FxInterpreter
from oneflow.frontend.importers.torch.table import ATEN, name_of


@functools.cache
def decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """PyTorch's decompositions of the operators that are not in the table."""
    known = torch.export.default_decompositions().items()
    return {
        o: d for o, d in known if isinstance(o, OpOverload) and not o._schema.is_mutable and name_of(o) not in ATEN
    }


def functional(exported: ExportedProgram) -> ExportedProgram:
    """A program with operators of the table, as far as PyTorch has decompositions of the others."""
    if not any(isinstance(part, fx.GraphModule) for part in exported.graph_module.children()):
        with contextlib.suppress(UnsupportedError):
            FxInterpreter(exported.graph_module)
            return exported
    return exported.run_decompositions(decompositions())
