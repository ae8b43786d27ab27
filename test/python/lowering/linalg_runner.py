"""Runs modules of the linalg stage through MLIR's own loops and JIT, for comparison with the references.

Slow code and no memory management: a test's executor, nothing more. `Runner(module)` compiles every function of
a module; `run(name, arrays)` gives copies of the results; `failures` are the sites of run-time checks that failed.
"""

import ctypes
import re

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import execution_engine, ir, passmanager
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.linalg.emit import BARRIER
from oneflow.lowering.llvm.expand_floats import ExpandFloats
from oneflow.lowering.llvm.widen_floats import WidenFloats

PIPELINE = """builtin.module(
    canonicalize, cse,
    one-shot-bufferize{bufferize-function-boundaries=1 function-boundary-type-conversion=identity-layout-map},
    convert-linalg-to-loops, convert-scf-to-cf, expand-strided-metadata, lower-affine,
    arith-expand, convert-math-to-llvm, convert-math-to-libm, convert-arith-to-llvm,
    finalize-memref-to-llvm, convert-func-to-llvm, convert-cf-to-llvm, convert-index-to-llvm,
    convert-ub-to-llvm, canonicalize, reconcile-unrealized-casts)"""

_COPY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_CHECK_INDEX = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)
_CHECK_SIZE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)


class Runner:
    """The functions of a linalg-stage module, ready to be called; the module's context is current."""

    def __init__(self, module):
        attributes = module.operation.attributes
        self.sites = [a.value for a in attributes["oneflow.sites"]] if "oneflow.sites" in attributes else []
        self.failures = []
        self.results = {}
        for op in module.body.operations:
            if not op.is_external:
                op.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
                constant = ir.DictAttr.get({"bufferization.writable": ir.BoolAttr.get(False)})
                op.arg_attrs = ir.ArrayAttr.get([constant] * len(op.type.inputs))
                self.results[op.name.value] = [str(t) for t in op.type.results]
        _remove_barriers(module)
        for of in (WidenFloats, ExpandFloats):  # MLIR converts no floats of 8 bits
            of().run(module, REGISTRY)
        passmanager.PassManager.parse(re.sub(r"\s+", " ", PIPELINE)).run(module.operation)
        self.engine = execution_engine.ExecutionEngine(module, opt_level=0)
        self._callbacks = {
            "memrefCopy": _COPY(_copy),
            "oneflow_rt_check_index": _CHECK_INDEX(self._check_index),
            "oneflow_rt_check_size": _CHECK_SIZE(self._check_size),
        }
        for name, function in self._callbacks.items():
            self.engine.raw_register_runtime(name, ctypes.cast(function, ctypes.c_void_p))

    def run(self, name, arrays):
        """The results of function `name` on `arrays`."""
        self.failures.clear()
        arrays = [np.ascontiguousarray(a) if np.ndim(a) else np.asarray(a) for a in arrays]
        types = [_parse(t) for t in self.results[name]]
        words = [3 + 2 * rank for rank, _ in types]
        returned = np.zeros(sum(words), np.int64)
        operands = [_descriptor(a) for a in arrays]
        addresses = [b.ctypes.data for b in ([returned] if words else []) + operands]
        pointers = [ctypes.pointer(ctypes.c_void_p(a)) for a in addresses]
        packed = (ctypes.c_void_p * len(pointers))(*[ctypes.cast(p, ctypes.c_void_p) for p in pointers])
        self.engine.lookup(name)(packed)
        parts = np.split(returned, np.cumsum(words)[:-1]) if words else []
        return [_array(part, rank, dtype) for part, (rank, dtype) in zip(parts, types, strict=True)]

    def _check_index(self, position, size, site):
        if 0 <= position < size:
            return position
        self.failures.append((self.sites[site], position, size))
        return 0

    def _check_size(self, got, wanted, site):
        if got != wanted:
            self.failures.append((self.sites[site], got, wanted))


def _remove_barriers(module):
    """Replaces a barrier by its first operand: the runner moves no operations."""
    found = []

    def visit(op):
        if op.name == BARRIER:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()


def _parse(text):
    *dims, element = text[len("tensor<") : -1].split("x")
    return len(dims), dtypes.BY_MLIR[element].numpy


def _descriptor(array):
    strides = [s // array.itemsize for s in array.strides]
    return np.array([array.ctypes.data, array.ctypes.data, 0, *array.shape, *strides], np.int64)


def _array(words, rank, dtype):
    """A copy of the array of a memref descriptor."""
    shape, strides = tuple(words[3 : 3 + rank]), tuple(int(s) * dtype.itemsize for s in words[3 + rank :])
    if 0 in shape:
        return np.zeros(shape, dtype)
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + dtype.itemsize
    address = int(words[1]) + int(words[2]) * dtype.itemsize
    memory = np.frombuffer(ctypes.string_at(address, int(span)), np.uint8)
    elements = memory[: dtype.itemsize].view(f"V{dtype.itemsize}")
    return np.lib.stride_tricks.as_strided(elements, shape, strides).reshape(shape).copy().view(dtype)


def _copy(size, source, target):
    """`memrefCopy`: copies between unranked descriptors (rank, pointer to a ranked descriptor)."""
    views = []
    for unranked in (source, target):
        rank, pointer = (ctypes.c_int64 * 2).from_address(unranked)
        words = list((ctypes.c_int64 * (3 + 2 * rank)).from_address(pointer))
        shape, strides = words[3 : 3 + rank], [s * size for s in words[3 + rank :]]
        span = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + size if 0 not in shape else size
        buffer = (ctypes.c_char * span).from_address(words[1] + words[2] * size)
        memory = np.frombuffer(buffer, f"V{size}", 1)
        views.append(np.lib.stride_tricks.as_strided(memory, shape, strides))
    views[1][...] = views[0]
