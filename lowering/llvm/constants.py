"""Constant tensors of a plan: the values of dense attributes, and globals with their bytes as MLIR text."""

from __future__ import annotations

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir
from oneflow.lowering.llvm.writer import reference


def _constant_array(attr: ir.Attribute, tensor_type: ir.Type) -> np.ndarray:
    """The values of a dense attribute as an array of the tensor's shape and dtype."""
    dtype = dtypes.BY_MLIR[str(tensor_type.element_type)].numpy
    shape = tuple(tensor_type.shape)
    if dtype == dtypes.bfloat16.numpy or dtypes.from_numpy(dtype).is_stored_only:
        values = _values_of_text(str(attr), dtype)
        return np.broadcast_to(values, shape) if values.size == 1 else values.reshape(shape)
    if dtype.itemsize > 1 and dtype.kind in "fi":
        return np.ascontiguousarray(np.broadcast_to(np.array(attr), shape)).astype(dtype)
    kind = ir.DenseFPElementsAttr if dtypes.from_numpy(dtype).is_float else ir.DenseIntElementsAttr
    return np.array([*kind(attr)]).astype(dtype).reshape(shape)


def _values_of_text(text: str, dtype: np.dtype) -> np.ndarray:
    """The values of a dense attribute of bf16 or of floats of 8 bits.

    The bindings have such attributes only as text: hexadecimal bits, or numbers with NaN and infinity as bits.
    """
    values, code = text[len("dense<") : text.rindex(">", 0, text.rindex(":"))], f"<u{dtype.itemsize}"
    if values.startswith('"'):
        return np.frombuffer(bytes.fromhex(values.strip('"')[2:]), code).view(dtype)
    numbers = [n.strip() for n in values.replace("[", "").replace("]", "").split(",") if n.strip()]
    codes = [int(n, 16) if n.startswith("0x") else np.array(float(n)).astype(dtype).view(code) for n in numbers]
    return np.array(codes, code).view(dtype)


def constant_global(symbol: str, attr: ir.Attribute, tensor_type: ir.Type) -> tuple[str, str]:
    """A global with the bytes of a constant tensor: its definition and its memref type."""
    data = _constant_array(attr, tensor_type).tobytes() or b"\0"
    kind = f"memref<{len(data)}xi8>"
    value = f'dense<"0x{data.hex().upper()}">' if len(data) > 1 else f"dense<{int.from_bytes(data, 'little')}>"
    return f'memref.global "private" constant {reference(symbol)} : {kind} = {value} {{alignment = 64 : i64}}', kind
