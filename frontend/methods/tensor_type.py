"""`flow.Tensor`: the class of tensors, called with data or sizes; `flow.FloatTensor` and the like have one type.

flow.Tensor([[1, 2]])     flow.Tensor(np.ones(3))     flow.LongTensor(2, 3)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.dialect.dtypes import convert as to_type
from oneflow.frontend import functional
from oneflow.frontend.core import tensor
from oneflow.frontend.core.arrays import is_array, to_array
from oneflow.frontend.core.devices import device
from oneflow.frontend.core.factories import tensor_factory
from oneflow.frontend.core.settings import get_default_dtype, set_default_dtype
from oneflow.frontend.eager import constructors
from oneflow.frontend.eager.tensor import EagerTensor


@tensor_factory
def _make(*data: Any, dtype: DType) -> tensor.Tensor:
    """A tensor of data, or of zeros with integer sizes."""
    sizes = all(isinstance(d, int) for d in data)
    if not sizes and len(data) != 1:
        raise TypeError(f"expected flow.Tensor(data) or flow.Tensor(2, 3), got {len(data)} arguments")
    if not sizes and isinstance(data[0], tensor.Tensor):
        copied: tensor.Tensor = functional.cast(data[0], dtype).detach().clone()
        return copied
    if sizes:
        return constructors.tensor(np.zeros(data or (0,), dtype.numpy))
    values = to_array(data[0]) if is_array(data[0]) else data[0]
    return constructors.tensor(to_type(np.asarray(values), dtype))


class _TensorType(type):
    """A class whose call builds tensors; in type checks, the class of all tensors of its element type and device.

    The class `Tensor` has no element type: a call builds tensors of the default type, and every tensor is an
    instance.
    """

    dtype: DType | None = None
    device_type: str | None = None

    def __call__(cls, *data: Any, **where: Any) -> tensor.Tensor:
        """A copy of data, or zeros with integer sizes; `where` as in `flow.zeros`."""
        options = {} if cls.device_type is None else {"device": cls.device_type}
        return _make(*data, dtype=cls.dtype or get_default_dtype(), **(options | where))

    def __instancecheck__(cls, value: object) -> bool:
        if not isinstance(value, tensor.Tensor) or cls.dtype is None:
            return isinstance(value, tensor.Tensor)
        kind = value.device.type if isinstance(value, EagerTensor) else "cpu"
        return value.dtype == cls.dtype and kind == (cls.device_type or "cpu")

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, tensor.Tensor)

    def __getattr__(cls, name: str) -> Any:
        return getattr(EagerTensor, name)

    def __dir__(cls) -> list[str]:
        return dir(EagerTensor)


if TYPE_CHECKING:  # every tensor is an instance, and a call returns a tensor
    Tensor = tensor.Tensor
else:

    class Tensor(metaclass=_TensorType):
        """A tensor: `flow.Tensor(data)` has the default type, `flow.tensor(data)` the data's own type."""


#: The class of each element type, by name.
_NAMES = {
    "BFloat16Tensor": dtypes.bfloat16, "BoolTensor": dtypes.bool_, "ByteTensor": dtypes.uint8,
    "CharTensor": dtypes.int8, "ComplexDoubleTensor": dtypes.complex128, "ComplexFloatTensor": dtypes.complex64,
    "DoubleTensor": dtypes.float64, "Float8_e4m3fnTensor": dtypes.float8_e4m3fn,
    "Float8_e5m2Tensor": dtypes.float8_e5m2, "FloatTensor": dtypes.float32, "HalfTensor": dtypes.float16,
    "IntTensor": dtypes.int32, "LongTensor": dtypes.int64, "ShortTensor": dtypes.int16,
    "UInt16Tensor": dtypes.uint16, "UInt32Tensor": dtypes.uint32, "UInt64Tensor": dtypes.uint64,
}  # fmt: skip


def typed_tensors(device_type: str) -> dict[str, Any]:
    """The classes of tensors of one element type on a kind of device, by name."""
    kind = device(device_type).type
    doc = "Tensors of {} on the device {}: a call with data or sizes builds a tensor."
    return {
        name: _TensorType(name, (), {"dtype": dtype, "device_type": kind, "__doc__": doc.format(dtype.name, kind)})
        for name, dtype in _NAMES.items()
    }


def set_default_tensor_type(t: Any) -> None:
    """Sets the default type of floats to the type of a class such as `flow.DoubleTensor`, or of its name.

    Raises:
        TypeError: the class is no class of floats on the host.
    """
    named: Any = typed_tensors("cpu").get(t.rpartition(".")[2]) if isinstance(t, str) else t
    if getattr(named, "dtype", None) is None or named.device_type != "cpu":
        raise TypeError(f"expected a class of tensors on the host such as flow.DoubleTensor, got {t!r}")
    set_default_dtype(named.dtype)
