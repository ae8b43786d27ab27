"""`flow.Tensor`: the class of tensors, called with data or sizes.

flow.Tensor([[1, 2]])     flow.Tensor(np.ones(3))     flow.Tensor(2, 3, device="cpu")
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend import functional
from oneflow.frontend.core import tensor
from oneflow.frontend.core.arrays import is_array, to_array
from oneflow.frontend.core.devices import tensor_factory
from oneflow.frontend.eager import constructors


@tensor_factory
def _make(*data: Any) -> tensor.Tensor:
    """A float32 tensor of data, or of zeros with the sizes that integers give."""
    sizes = all(isinstance(d, int) for d in data)
    if not sizes and len(data) != 1:
        raise TypeError(f"expected flow.Tensor(data) or flow.Tensor(2, 3), got {len(data)} arguments")
    if not sizes and isinstance(data[0], tensor.Tensor):
        copied: tensor.Tensor = functional.cast(data[0], dtypes.float32).detach().clone()  # type: ignore[attr-defined]
        return copied
    values = np.zeros(data) if sizes else to_array(data[0]) if is_array(data[0]) else data[0]
    return constructors.tensor(np.asarray(values, np.float32))


class _TensorType(type):
    """Makes tensors when called; in type checks it stands for the class `tensor.Tensor`, from which every tensor
    derives.
    """

    def __call__(cls, *data: Any, **where: Any) -> tensor.Tensor:
        """A float32 copy of data, or of zeros with the sizes that integers give; `where` as in `flow.zeros`."""
        return _make(*data, **where)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, tensor.Tensor)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, tensor.Tensor)

    def __getattr__(cls, name: str) -> Any:
        return getattr(tensor.Tensor, name)

    def __dir__(cls) -> list[str]:
        return dir(tensor.Tensor)


class Tensor(metaclass=_TensorType):
    """A tensor: `flow.Tensor(data)` makes one of float32, `flow.tensor(data)` one of the data's own type."""
