"""Constant tensors as bytes in a global. Imports NumPy, dtypes and the MLIR seam."""

from __future__ import annotations

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir


def constant_array(attr: ir.Attribute, tensor_type: ir.Type) -> np.ndarray:
    """The values of a dense attribute."""
    dtype = dtypes.BY_MLIR[str(tensor_type.element_type)].numpy
    shape = tuple(tensor_type.shape)
    if dtype.itemsize > 1 and dtype.kind in "fi":
        return np.ascontiguousarray(np.broadcast_to(np.array(attr), shape)).astype(dtype)
    kind = ir.DenseFPElementsAttr if dtypes.from_numpy(dtype).is_float else ir.DenseIntElementsAttr
    return np.array([*kind(attr)]).astype(dtype).reshape(shape)


def constant_global(symbol: str, attr: ir.Attribute, tensor_type: ir.Type) -> tuple[str, str]:
    """A global of the bytes of a constant tensor: its definition and its memref type."""
    data = constant_array(attr, tensor_type).tobytes() or b"\0"
    kind = f"memref<{len(data)}xi8>"
    value = f'dense<"0x{data.hex().upper()}">' if len(data) > 1 else f"dense<{int.from_bytes(data, 'little')}>"
    return f'memref.global "private" constant @{symbol} : {kind} = {value} {{alignment = 64 : i64}}', kind
