"""Variables of jobs: `flow.get_variable`, and initializers.

    w = flow.get_variable("w", shape=(4, 2), initializer=flow.random_normal_initializer(stddev=0.1))

A variable is an eager tensor with a name; a variable lives as long as the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect.dtypes import DType, float32
from oneflow.frontend.core.dispatch import use_builder
from oneflow.frontend.core.errors import CallError
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor, wrapped
from oneflow.frontend.nn import init
from oneflow.frontend.oneflow_v0.jobs import current_job

__all__ = [
    "constant_initializer", "get_variable", "ones_initializer", "random_normal_initializer",
    "random_uniform_initializer", "truncated_normal_initializer", "xavier_normal_initializer",
    "xavier_uniform_initializer", "zeros_initializer",
]  # fmt: skip

Initializer = Callable[[EagerTensor], Any]
_variables: dict[str, EagerTensor] = {}


def get_variable(
    name: str,
    shape: Sequence[int] | None = None,
    dtype: DType = float32,
    initializer: Initializer | None = None,
    regularizer: None = None,
    trainable: bool = True,
) -> EagerTensor:
    """The variable `name`, made by the first call; jobs that name the same variable share the variable.

    Args:
        name: the name.
        shape: the shape, required in the first call.
        dtype: the element type.
        initializer: sets the initial values, 0 by default.
        regularizer: not supported; pass `weight_decay` to the optimizer.
        trainable: whether optimizers update the variable.

    Raises:
        CallError: the variable has another shape or element type, or the call is not in a job.
    """
    job = current_job("flow.get_variable")
    if regularizer is not None:
        raise CallError("flow.get_variable: expected no regularizer, got one; pass weight_decay to the optimizer")
    variable = _variables.get(name)
    if variable is None:
        if shape is None:
            raise CallError(f"flow.get_variable: expected a shape for {name!r}, which does not exist yet")
        variable = _variables[name] = _new_variable(shape, dtype, initializer, trainable and dtype.is_float)
    if variable.dtype != dtype or (shape is not None and tuple(variable.shape) != tuple(shape)):
        raise CallError(
            f"flow.get_variable: expected {variable.desc} for {name!r}, as in the first call, got "
            f"{tuple(shape or ())} {dtype.mlir}"
        )
    job.variables[name] = variable
    return variable


def _new_variable(
    shape: Sequence[int], dtype: DType, initializer: Initializer | None, requires_grad: bool
) -> EagerTensor:
    with use_builder(BUILDER):
        variable = wrapped(np.zeros(tuple(shape), dtype.numpy))
        if initializer is not None:
            initializer(variable)
        variable.requires_grad_(requires_grad)
    return variable


def constant_initializer(value: float = 0.0) -> Initializer:
    """Every element is `value`."""
    return lambda x: init.constant_(x, value)


def zeros_initializer() -> Initializer:
    """Every element is 0."""
    return init.zeros_


def ones_initializer() -> Initializer:
    """Every element is 1."""
    return init.ones_


def random_uniform_initializer(minval: float = 0.0, maxval: float = 1.0) -> Initializer:
    """Uniform in [minval, maxval)."""
    return lambda x: init.uniform_(x, minval, maxval)


def random_normal_initializer(mean: float = 0.0, stddev: float = 1.0) -> Initializer:
    """Normally distributed."""
    return lambda x: init.normal_(x, mean, stddev)


def truncated_normal_initializer(mean: float = 0.0, stddev: float = 1.0) -> Initializer:
    """Normally distributed, within two standard deviations."""
    return lambda x: init.trunc_normal_(x, mean, stddev, mean - 2 * stddev, mean + 2 * stddev)


def xavier_uniform_initializer() -> Initializer:
    """Xavier (Glorot) initialization, uniform."""
    return init.xavier_uniform_


def xavier_normal_initializer() -> Initializer:
    """Xavier (Glorot) initialization, normal."""
    return init.xavier_normal_
