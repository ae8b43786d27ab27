"""Host kernels: kernels of a program for a device that run on the host, on copies of their operands."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.external import as_array
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.linalg.checks import SITES
from oneflow.lowering.triton.launch.unsupported import HostKernel
from oneflow.runtime.executable import CpuExecutable, compile_module


class HostProgram:
    """A kernel that is compiled for the host at its first run; `sites` are the texts of the program's checks."""

    def __init__(self, kernel: HostKernel, sites: Sequence[str] = ()) -> None:
        self.kernel, self.sites = kernel, sites

    @functools.cached_property
    def executable(self) -> CpuExecutable:
        """The compiled program."""
        module = read_module(self.kernel.text, create_context())
        with module.context:
            texts = [ir.StringAttr.get(site) for site in self.sites]
            module.operation.attributes[SITES] = ir.ArrayAttr.get(texts)
        return compile_module(module, self.kernel.name)

    def sizes(self, inputs: Sequence[Any], results: Sequence[Any]) -> list[int]:
        """The bytes of each tensor among the inputs, then of each result. Tensors are (address, shape), others
        numbers.
        """
        tensors = [value for value in (*inputs, *results) if isinstance(value, tuple)]
        descs = [d for d, value in self._described(inputs, results) if isinstance(value, tuple)]
        return [
            int(np.prod(s, dtype=np.int64)) * d.dtype.numpy.itemsize for d, (_, s) in zip(descs, tensors, strict=True)
        ]

    def run(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Runs the kernel on host memory: inputs are (address, shape) or numbers, results (address, shape).

        Raises:
            OutOfBoundsError: an index in the data is out of bounds.
            SizeError: sizes do not match.
        """
        arrays = [_array(desc, value) for desc, value in self._described(inputs, results)]
        for result, target in zip(self.executable(*arrays), arrays[len(inputs) :], strict=True):
            target[...] = result

    def _described(self, inputs: Sequence[Any], results: Sequence[Any]) -> list[tuple[TensorDesc, Any]]:
        descs = [p.desc for p in self.executable.inputs]
        return list(zip(descs, (*inputs, *results), strict=True))


def _array(desc: TensorDesc, value: Any) -> np.ndarray:
    """A tensor (address, shape) or a number as an array."""
    if not isinstance(value, tuple):
        return np.asarray(value, desc.dtype.numpy)
    address, shape = value
    return as_array(address, TensorDesc(tuple(shape), desc.dtype))
