"""Arrays on the device: results of programs, and what other libraries have there.

`DeviceArray` speaks `__cuda_array_interface__` (CuPy, Numba, `torch.as_tensor`), so nothing is copied. Imports
`driver`.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from oneflow.dialect.dtypes import DType
from oneflow.runtime.cuda import driver


class DeviceArray:
    """A contiguous array that owns device memory."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: DType, stream: Any) -> None:
        self.address, self.shape, self.dtype, self._stream = address, shape, dtype, stream

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return math.prod(self.shape) * self.dtype.numpy.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kind = self.dtype.numpy
        typestr = kind.str if kind.kind != "V" else f"<V{kind.itemsize}"
        return {"shape": self.shape, "typestr": typestr, "data": (self.address, False), "version": 3,
                "strides": None, "stream": int(self._stream)}  # fmt: skip

    def numpy(self) -> np.ndarray:
        """A copy on the host, when the work before it is done."""
        made = np.empty(self.shape, self.dtype.numpy)
        if made.size:
            driver.copy_out(made.ctypes.data, self.address, made.nbytes, self._stream)
        driver.synchronize(self._stream)
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("expected copy to be None or True: the array is on a device")
        made = self.numpy()
        return made if dtype is None else made.astype(dtype)

    def __del__(self, free: Any = driver.free, error: Any = driver.CudaError) -> None:
        with contextlib.suppress(error):
            free(self.address, self._stream)

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype.name}, shape={self.shape})"


def on_device(value: Any) -> int | None:
    """The address of a contiguous array on a device, None for one on the host.

    Raises:
        ValueError: it has gaps.
    """
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        return None
    item = np.dtype(interface["typestr"]).itemsize
    steps = [item * math.prod(interface["shape"][axis + 1 :]) for axis in range(len(interface["shape"]))]
    if interface.get("strides") not in (None, tuple(steps)):
        raise ValueError("expected a contiguous array on the device; make a contiguous copy first")
    return int(interface["data"][0])
