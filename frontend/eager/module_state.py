"""What modules do with the values of parameters and buffers: conversion, and states that are loaded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.arrays import is_array, to_array
from oneflow.frontend.core.devices import device, move
from oneflow.frontend.eager.tensor import EagerTensor, wrapped


class Unmatched(NamedTuple):
    """The names that a state lacks, and those that it has beside."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def convert(tensor: EagerTensor, target: Any) -> None:
    """Gives a parameter or buffer other memory: of an element type, if it has floats, or on a device."""
    place, grad = tensor.device, tensor.grad
    if isinstance(target, DType):
        if tensor.dtype.is_float:
            tensor.data = wrapped(move(tensor.array.astype(target.numpy), place))
    elif place != device(target):
        tensor.data = wrapped(move(tensor.storage, device(target)))
        tensor.grad = None if grad is None else grad.to(target)


def as_array(value: Any) -> np.ndarray:
    """The values of a tensor, an array of any library (a parameter of it too) or a number."""
    if isinstance(value, EagerTensor):
        return value.array
    value = value.detach() if hasattr(value, "detach") else value
    return to_array(value) if is_array(value) else np.asarray(value)


def mismatch(name: str, own: EagerTensor, given: Any) -> str:
    """What a message says of a shape that differs."""
    return f"{name} is {list(own.shape)}, given {list(shape_of(given))}"


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of a tensor, an array or a number."""
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)
