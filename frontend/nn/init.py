"""Initial values of parameters, drawn from the generator that `flow.manual_seed` restarts; in place.

In a traced function the values are written by the program, at each call; random numbers are new at each call.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oneflow.frontend.core.dispatch import as_tensor, current_builder
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import no_grad
from oneflow.frontend.functional.random import numpy_generator
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.functional.shape import expand
from oneflow.frontend.methods.random_numbers import METHODS

#: The gains of activation functions: factors of the standard deviation of weights by which activations keep theirs.
GAINS = {
    "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "sigmoid": 1.0, "tanh": 5 / 3,
    "relu": math.sqrt(2), "selu": 0.75,
}  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The gain after a function; `param` is the slope of "leaky_relu".

    Raises:
        ValueError: the function is not known.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in GAINS:
        raise ValueError(f"expected nonlinearity to be one of {', '.join(GAINS)}, leaky_relu, got {nonlinearity!r}")
    return GAINS[nonlinearity]


def fans(tensor: Tensor) -> tuple[int, int]:
    """fan_in and fan_out of a weight: the inputs of one output, and the outputs of one input.

    Raises:
        ValueError: the weight has fewer than two dimensions.
        OneFlowError: a size of the weight is not known while a function is traced.
    """
    shape = _shape(tensor)
    if len(shape) < 2:
        raise ValueError(f"expected a weight of at least two dimensions, got {list(shape)}")
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """The sizes of a tensor, which are known."""
    sizes = tuple(d for d in tensor.shape if isinstance(d, int))
    if len(sizes) < tensor.rank:
        raise fail(f"expected a tensor of static sizes for nn.init, got {tensor.desc}")
    return sizes


def _fill(tensor: Tensor, values: Any) -> Tensor:
    array = np.broadcast_to(np.asarray(values), tensor.array.shape)
    tensor.overwrite(array.astype(tensor.dtype.numpy), "init")
    return tensor


def _fill_known(tensor: Tensor, values: Any) -> Tensor:
    """Writes values that are no random numbers, also in a traced function."""
    if current_builder().eager:
        return _fill(tensor, values)
    with no_grad():
        known = cast(as_tensor(np.asarray(values)), tensor.dtype)
        current_builder().assign(tensor, expand(known, tensor.sizes()), "init")
    return tensor


def _fill_random(tensor: Tensor, kind: str, first: float, second: float) -> Tensor:
    """Writes random numbers of NumPy's distribution `uniform` or `normal`; in a traced function by the method of
    tensors.
    """
    if current_builder().eager:
        return _fill(tensor, getattr(numpy_generator(), kind)(first, second, tensor.array.shape))
    with no_grad():
        return METHODS[f"{kind}_"](tensor, first, second)


def _refuse_trace(name: str) -> None:
    """Refuses a function whose values the host alone computes.

    Raises:
        OneFlowError: a function is being traced.
    """
    if not current_builder().eager:
        raise fail(
            f"expected nn.init.{name} outside of traced functions, since the host computes its values; call {name} "
            "before, and pass the tensor as an argument"
        )


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every element `val`."""
    return _fill_known(tensor, val)


def zeros_(tensor: Tensor) -> Tensor:
    """Every element 0."""
    return _fill_known(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Every element 1."""
    return _fill_known(tensor, 1)


def eye_(tensor: Tensor) -> Tensor:
    """Fills a matrix with ones on the diagonal and zeros elsewhere.

    Raises:
        ValueError: the tensor is no matrix.
    """
    shape = _shape(tensor)
    if len(shape) != 2:
        raise ValueError(f"expected a matrix for eye_, got a tensor of sizes {list(shape)}")
    return _fill_known(tensor, np.eye(*shape))


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Uniform in [a, b)."""
    return _fill_random(tensor, "uniform", a, b)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normally distributed."""
    return _fill_random(tensor, "normal", mean, std)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Drawn from the part of a normal distribution in [a, b]; values outside are drawn again.

    Raises:
        OneFlowError: a function is being traced.
    """
    _refuse_trace("trunc_normal_")
    generator, shape = numpy_generator(), tensor.array.shape
    values = generator.normal(mean, std, shape)
    while (outside := (values < a) | (values > b)).any():
        values[outside] = generator.normal(mean, std, int(outside.sum()))
    return _fill(tensor, values)


def _over(variance: float, fan: int) -> float:
    """The standard deviation sqrt(variance / fan); 0 for an empty tensor."""
    return math.sqrt(variance / fan) if fan else 0.0


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform, with the standard deviation gain * sqrt(2 / (fan_in + fan_out))."""
    bound = gain * _over(6, sum(fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal, with the standard deviation gain * sqrt(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * _over(2, sum(fans(tensor))))


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """The standard deviation gain / sqrt(fan)."""
    modes = dict(zip(("fan_in", "fan_out"), fans(tensor), strict=True))
    if mode not in modes:
        raise ValueError(f'expected mode to be "fan_in" or "fan_out", got {mode!r}')
    return calculate_gain(nonlinearity, a) * _over(1, modes[mode])


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Uniform, with the standard deviation gain / sqrt(fan); `a` is the slope of leaky relu."""
    bound = math.sqrt(3) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Normal, with the standard deviation gain / sqrt(fan); `a` is the slope of leaky relu."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """A matrix with orthonormal rows, or columns for fewer columns than rows, times gain; further dimensions count as
    columns.

    Raises:
        ValueError: the tensor has fewer than two dimensions.
        OneFlowError: a function is being traced.
    """
    _refuse_trace("orthogonal_")
    shape = tensor.array.shape
    if len(shape) < 2:
        raise ValueError(f"expected at least two dimensions for orthogonal_, got {list(shape)}")
    rows, columns = shape[0], math.prod(shape[1:])
    drawn = numpy_generator().normal(size=(max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diagonal(r))
    return _fill(tensor, gain * (q.T if rows < columns else q).reshape(shape))
