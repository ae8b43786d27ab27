"""The names of tensors in kernels in Triton and C."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from oneflow.dialect.signature import Signature, SignatureError
from oneflow.dialect.tensor_desc import TensorDesc


def named_tensors(table: Mapping[str, Any]) -> Iterator[tuple[str, TensorDesc | None]]:
    """Operands or results by name. The tensors of a variadic operand `x` are `x_0`, `x_1` ..; a missing one
    is None.
    """
    for name, tensor in table.items():
        if isinstance(tensor, tuple):
            yield from ((f"{name}_{i}", desc) for i, desc in enumerate(tensor))
        else:
            yield name, tensor


def check_names(signature: Signature, language: str, suffixes: str, reserved: Collection[str] = ()) -> None:
    """Checks that the names in a kernel are unambiguous.

    Args:
        signature: the signature of the operator.
        language: the language of the kernel.
        suffixes: a pattern of the suffixes of names that are derived from operands, results and lists.
        reserved: reserved names of the language.

    Raises:
        SignatureError: a name is reserved, or equals a derived name.
    """
    where = f"operator {signature.name}: the slot kernel: "
    tensors = [*signature.inputs, *signature.outputs]
    names = [*(a.name for a in tensors), *(a.name for a in signature.attrs)]
    lists = [a.name for a in signature.attrs if a.kind.name == "shape" or a.kind.name.startswith("list_")]
    derived = {
        a.name: rf"{a.name}(_\d+)({suffixes})?" if a.is_variadic else rf"{a.name}({suffixes})" for a in tensors
    }
    derived |= {name: rf"{name}({suffixes})" for name in lists}
    for name in names:
        if name in reserved:
            raise SignatureError(f"{where}expected names that {language} leaves free, got {name!r}; rename it")
        for source, pattern in derived.items():
            if re.fullmatch(pattern, name):
                raise SignatureError(
                    f"{where}a kernel in {language} is given {name!r} by {source!r}, expected no other operand, "
                    "result or attribute of that name; rename it"
                )
