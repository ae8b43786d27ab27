"""Kernels written with NumPy, which run on the host: the `kernel` slot of an operator.

    kernel = numpy_kernel(lambda x, *, limit: np.clip(x, -limit, limit))

A compiled program calls the function between its own kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect.external import ExternalKernel, as_array, map_operands, python_kernel
from oneflow.dialect.record import Call, call_rule
from oneflow.dialect.tensor_desc import TensorDesc


class DataError(ValueError):
    """A run-time error: a kernel refuses values of its operands, or a file."""


@dataclass(frozen=True)
class NumpyKernel:
    """A kernel that is a function of NumPy arrays.

    The function takes a read-only array for each operand (None for a missing operand, a tuple for a variadic one),
    and the attributes that it names as keyword-only parameters. The function returns an array for each result, of the
    inferred shape and dtype.
    """

    function: Callable[..., Any]

    def __call__(self, op: Call) -> ExternalKernel:
        """The external kernel of a static call."""
        return python_kernel(functools.partial(_run, self.function, op))


def numpy_kernel(function: Callable[..., Any]) -> NumpyKernel:
    """A function of arrays as the kernel of an operator; see `NumpyKernel`. Also a decorator."""
    return NumpyKernel(function)


def _run(function: Callable[..., Any], op: Call, buffers: Any, stream: Any) -> None:
    """Runs the function on the buffers of a call."""
    arrays = iter([as_array(buffers[i], d) for i, d in enumerate([*op.operands, *op.results])])
    inputs = map_operands(op.inputs, lambda desc: _read_only(next(arrays)))
    with np.errstate(all="ignore"):
        computed = call_rule(function, list(inputs.values()), op.attrs)
    results = computed if isinstance(computed, (tuple, list)) else (computed,)
    _check_results(results, op.results)
    for target, result in zip(arrays, results, strict=True):
        target[...] = result


def _check_results(results: Sequence[Any], descs: Sequence[TensorDesc]) -> None:
    if len(results) != len(descs):
        raise ValueError(f"expected {len(descs)} results from the kernel, got {len(results)}")
    for index, (result, desc) in enumerate(zip(results, descs, strict=True)):
        array = np.asarray(result)
        if array.shape != desc.shape or array.dtype != desc.dtype.numpy:
            raise ValueError(f"expected result {index} of type {desc}, got {array.dtype} of shape {array.shape}")


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
