"""Values of the parameters and buffers of modules: conversion, and loading of states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from oneflow.dialect.dtypes import DType
from oneflow.dialect.dtypes import convert as to_type
from oneflow.frontend.core.arrays import is_array, to_array
from oneflow.frontend.core.devices import device, move
from oneflow.frontend.core.errors import refuse
from oneflow.frontend.eager.tensor import EagerTensor, wrapped


class IncompatibleKeys(NamedTuple):
    """The names that a state lacks, and the names that only the state has."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def convert(tensor: EagerTensor, target: Any) -> None:
    """Converts a parameter or buffer to an element type, if the tensor has floats, or moves the tensor to a
    device.
    """
    current_device, grad = tensor.device, tensor.grad
    if isinstance(target, DType):
        if tensor.dtype.is_float:
            tensor.data = wrapped(move(to_type(tensor.array, target), current_device))
    elif current_device != device(target):
        tensor.data = wrapped(move(tensor.storage, device(target)))
        tensor.grad = None if grad is None else grad.to(target)


def as_array(value: Any) -> np.ndarray:
    """The values of a tensor, of an array or parameter of any library, or of a number."""
    if isinstance(value, EagerTensor):
        return value.array
    value = value.detach() if hasattr(value, "detach") else value
    return to_array(value) if is_array(value) else np.asarray(value)


def compare_names(
    owner: str, own: Mapping[str, EagerTensor], state: Mapping[str, Any], strict: bool
) -> IncompatibleKeys:
    """The names that a module and a state do not have in common.

    Raises:
        RuntimeError: a shape differs, or, if `strict`, a name is missing or unexpected.
    """
    missing, unexpected = [n for n in own if n not in state], [n for n in state if n not in own]
    pairs = {n: (list(own[n].shape), list(shape_of(state[n]))) for n in own if n in state}
    wrong = [f"{n} is {a}, given {b}" for n, (a, b) in pairs.items() if a != b]
    if strict:
        wrong += [f"missing {n}" for n in missing] + [f"unexpected {n}" for n in unexpected]
    if wrong:
        raise refuse(f"state of {owner} does not fit: {'; '.join(wrong)}")
    return IncompatibleKeys(missing, unexpected)


def load_values(tensor: EagerTensor, value: Any, assign: bool) -> None:
    """Loads values into a parameter or buffer: copied into its memory, or with `assign` by taking over theirs."""
    if assign:
        tensor.data = value if isinstance(value, EagerTensor) else wrapped(as_array(value))
    else:
        tensor.overwrite(to_type(as_array(value), tensor.dtype), "load_state_dict")


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of a tensor, an array or a number."""
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)
