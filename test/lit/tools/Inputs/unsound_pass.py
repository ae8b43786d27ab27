"""A pass that leaves an invalid program behind: transposes lose their permutation."""

from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass


@register_pass
@dataclass(frozen=True)
class Unsound(Pass):
    """Takes the permutation away from transposes."""

    name: ClassVar[str] = "lit-unsound"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Breaks the module."""
        dialect.walk(module.operation, _break)


def _break(op: ir.Operation) -> None:
    if op.name == "oneflow.transpose":
        del op.attributes["perm"]
