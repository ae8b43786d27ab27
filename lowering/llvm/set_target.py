"""`oneflow-set-target`: sets the target processor of functions for LLVM.

Input and output are functions of the LLVM dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.lowering.targets.selection import cpu_target
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass


@register_pass
@dataclass(frozen=True)
class SetTarget(Pass):
    """Writes the target's processor and features on every function; for `native` LLVM finds them itself.

    llvm.func @f() {..}   ->   llvm.func @f() attributes {target_cpu = "x86-64-v3", target_features = ..} {..}
    """

    name: ClassVar[str] = "oneflow-set-target"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Sets the attributes of each function with a body."""
        target = cpu_target()
        if not target.llvm_cpu:
            return
        features = ", ".join(f'"+{name}"' for name in target.llvm_features)
        attributes = {
            "target_cpu": ir.StringAttr.get(target.llvm_cpu),
            "target_features": ir.Attribute.parse(f"#llvm.target_features<[{features}]>"),
        }
        for op in (o.operation for o in module.body.operations):
            if op.name == "llvm.func" and len(op.regions[0].blocks):
                for name, value in attributes.items():
                    op.attributes[name] = value
