"""A program at the `triton` stage read back from its module: what a device needs to run it.

Imports `source` and the MLIR seam.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.tensor_desc import TensorDesc, parse_desc
from oneflow.lowering.triton.names import PLAN, SOURCE, identifier
from oneflow.lowering.triton.source import Source


@dataclass(frozen=True)
class Program:
    """The plan of an entry as Python source, its kernels by name, and what runs refer to."""

    name: str
    plan: str
    sources: dict[str, Source]
    workspace: int
    sites: Sequence[str]
    results: tuple[TensorDesc, ...]
    constants: tuple[np.ndarray, ...]
    externals: tuple[str, ...] = ()

    def function(self) -> Callable[..., None]:
        """The plan as a function of a run, addresses and sizes."""
        namespace: dict[str, Any] = {}
        exec(compile(self.plan, f"<plan of {self.name}>", "exec"), {}, namespace)
        return namespace[identifier(self.name)]

    @property
    def text(self) -> str:
        """The plan and every kernel, for people."""
        return "\n\n".join([self.plan, *(s.text for s in self.sources.values())])


def read_program(module: ir.Module) -> Program:
    """The program of a module at the `triton` stage.

    Raises:
        ValueError: the module has no plan.
    """
    functions = [o.operation for o in module.body.operations if o.operation.name == "func.func"]
    entries = [f for f in functions if PLAN in f.attributes]
    if not entries:
        raise ValueError("expected a module with a plan: run oneflow-to-triton first")
    attributes = module.operation.attributes
    found = [_source(f) for f in functions if SOURCE in f.attributes]
    return Program(
        ir.StringAttr(entries[0].attributes["sym_name"]).value,
        ir.StringAttr(entries[0].attributes[PLAN]).value,
        {s.name: s for s in found},
        ir.IntegerAttr(attributes["oneflow.workspace"]).value,
        tuple(ir.StringAttr(s).value for s in attributes["oneflow.sites"]) if "oneflow.sites" in attributes else (),
        tuple(parse_desc(ir.StringAttr(s).value) for s in attributes["oneflow.results"]),
        tuple(_array(c) for c in attributes["oneflow.constants"]),
        tuple(str(a) for a in attributes["oneflow.externals"]) if "oneflow.externals" in attributes else (),
    )


def _source(function: ir.Operation) -> Source:
    fields: dict[str, Any] = {"name": ir.StringAttr(function.attributes["sym_name"]).value}
    attribute = ir.DictAttr(function.attributes[SOURCE])
    for name in ("text", "grid"):
        fields[name] = ir.StringAttr(attribute[name]).value
    for name in ("parameters", "updates", "fills"):
        fields[name] = json.loads(ir.StringAttr(attribute[name]).value)
    for name in ("warps", "stages"):
        fields[name] = ir.IntegerAttr(attribute[name]).value
    return Source.from_dict(fields)


def _array(constant: ir.Attribute) -> np.ndarray:
    """The elements of a dense constant; 16-bit floats are given as their bits."""
    return np.ascontiguousarray(np.array(constant))
