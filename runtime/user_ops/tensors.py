"""The tensors of a call by the names that kernels in Triton and C have for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from oneflow.dialect.signature import Signature, SignatureError
from oneflow.dialect.tensor_desc import TensorDesc


def named_tensors(table: Mapping[str, Any]) -> Iterator[tuple[str, TensorDesc | None]]:
    """Operands or results by name; those of a repeated one `x` are `x_0`, `x_1` .., a missing one is None."""
    for name, given in table.items():
        if isinstance(given, tuple):
            yield from ((f"{name}_{i}", desc) for i, desc in enumerate(given))
        else:
            yield name, given


def check_names(signature: Signature, language: str, beside: str, reserved: Collection[str] = ()) -> None:
    """Checks that every name in a kernel means one thing.

    Args:
        signature: the operator's.
        language: what the kernel is written in.
        beside: the endings, as a pattern, of names that are derived from those of operands, results and lists.
        reserved: names that mean something else.

    Raises:
        SignatureError: a name is reserved, or is derived from another one.
    """
    where = f"operator {signature.name}: the slot kernel: "
    tensors = [*signature.inputs, *signature.outputs]
    names = [*(a.name for a in tensors), *(a.name for a in signature.attrs)]
    lists = [a.name for a in signature.attrs if a.kind.name == "shape" or a.kind.name.startswith("list_")]
    derived = {a.name: rf"{a.name}(_\d+)({beside})?" if a.is_variadic else rf"{a.name}({beside})" for a in tensors}
    derived |= {name: rf"{name}({beside})" for name in lists}
    for name in names:
        if name in reserved:
            raise SignatureError(f"{where}expected names that {language} leaves free, got {name!r}; rename it")
        for source, pattern in derived.items():
            if re.fullmatch(pattern, name):
                raise SignatureError(
                    f"{where}a kernel in {language} is given {name!r} by {source!r}, expected no other operand, "
                    "result or attribute of that name; rename it"
                )
