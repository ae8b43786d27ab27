"""Seeds for random operators without one."""

from __future__ import annotations

import itertools

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY, Registry

#: The golden ratio in 64 bits, which spreads the seeds of successive operators.
_STRIDE = 0x9E3779B97F4A7C15


def set_seed(module: ir.Module, seed: int, registry: Registry = REGISTRY) -> None:
    """Sets a seed on each operator with the trait `random` that has none, from `seed` and the position of the
    operator.
    """
    numbers = itertools.count()

    def visit(op: ir.Operation) -> None:
        record = dialect.record_of(op, registry)
        known = record.signature.attr_by_name
        if "random" not in record.traits or "seed" not in known or "seed" in op.attributes:
            return
        value = (seed + next(numbers) * _STRIDE) % 2**63
        op.attributes["seed"] = known["seed"].kind.write(value)
        if "has_seed" in known:
            op.attributes["has_seed"] = ir.BoolAttr.get(True)

    with module.context:
        dialect.walk(module.operation, visit)
