"""The tensors of a call by the names that kernels in Triton and C have for them. Imports `dialect`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from oneflow.dialect.tensor_desc import TensorDesc


def named_tensors(table: Mapping[str, Any]) -> Iterator[tuple[str, TensorDesc | None]]:
    """Operands or results by name; those of a repeated one `x` are `x_0`, `x_1` .., a missing one is None."""
    for name, given in table.items():
        if isinstance(given, tuple):
            yield from ((f"{name}_{i}", desc) for i, desc in enumerate(given))
        else:
            yield name, given
