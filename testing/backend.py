"""The checks of the CPU backend: compiled samples give the results of the reference."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import ops as _every_operator  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import DType
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, Call, Registry, flatten
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.runtime.executable import CpuExecutable, Options
from oneflow.runtime.size_specialization import compile_program
from oneflow.testing.checks import assert_close, described, edge_case, edge_tolerance, make_call
from oneflow.testing.sample import Sample


def check_backend(
    sample: Sample,
    dtype: DType,
    *,
    dynamic: bool = False,
    options: Options | None = None,
    registry: Registry = REGISTRY,
) -> None:
    """Checks a compiled operator against the reference; with `dynamic`, all sizes are dynamic.

    Raises:
        AssertionError: a result differs by more than the sample's tolerance.
        OperatorError: the operator does not allow dynamic sizes (it says `static`).
    """
    op = make_call(sample, sample.arrays(dtype), sample.attributes(dtype), registry)
    executable = compile_call(op, dynamic=dynamic, options=options, registry=registry)
    text = f"{sample} {dtype}{' dynamic' if dynamic else ''}"
    _check_calls(executable, [op], [text], [sample.tolerance(dtype)])


def check_backend_cases(
    cases: Sequence[tuple[Sample, DType]], edged: Collection[tuple[Sample, DType]], registry: Registry = REGISTRY
) -> None:
    """Checks samples, compiled as independent calls of one program, against the reference.

    Samples in `edged` are checked with NaN, infinities and subnormal numbers, too.

    Raises:
        AssertionError: a result differs.
    """
    calls = [make_call(s, s.arrays(d), s.attributes(d), registry) for s, d in cases]
    executable = _compile_calls(calls, False, None, registry)
    texts = [f"{s} {d}" for s, d in cases]
    _check_calls(executable, calls, texts, [s.tolerance(d) for s, d in cases])
    for seed in range(3) if edged else ():
        moved = [
            edge_case(*case, seed, registry) if case in edged else call
            for case, call in zip(cases, calls, strict=True)
        ]
        tolerances = [edge_tolerance(*c) if c in edged else c[0].tolerance(c[1]) for c in cases]
        _check_calls(executable, moved, [f"{text} seed {seed}" for text in texts], tolerances)


def _check_calls(
    executable: CpuExecutable, calls: Sequence[Call], texts: Sequence[str], tolerances: Sequence[tuple[float, float]]
) -> None:
    """Compares the results of a program of several calls with the references."""
    results = executable(*(x for op in calls for x in flatten(op.inputs.values())))
    references = [[np.asarray(r) for r in run_reference(op)] for op in calls]
    count = sum(map(len, references))
    assert len(results) == count, f"{texts[0]}: expected {count} results, got {len(results)}"
    got = iter(results)
    for wanted, text, tolerance in zip(references, texts, tolerances, strict=True):
        for index, want in enumerate(wanted):
            assert_close(next(got), want, tolerance, f"{text} result {index}")


def compile_call(
    op: Call, *, dynamic: bool = False, options: Options | None = None, registry: Registry = REGISTRY
) -> CpuExecutable:
    """Compiles a call on arrays as a program of one operator."""
    return _compile_calls([op], dynamic, options, registry)


def _compile_calls(
    calls: Sequence[Call], dynamic: bool, options: Options | None, registry: Registry
) -> CpuExecutable:
    with _context(registry, len(registry)), ir.Location.unknown():
        module = calls_module(calls, registry, dynamic)
        return compile_program(module, "main", options or Options(cached=False), registry)


@functools.cache
def _context(registry: Registry, count: int) -> ir.Context:
    """A context for all programs of a registry with `count` operators, since a context is slow to create."""
    return create_context(registry)


def call_module(op: Call, dynamic: bool, registry: Registry = REGISTRY) -> ir.Module:
    """The program of one call, in the current context; all sizes are dynamic if `dynamic`."""
    return calls_module([op], registry, dynamic)


def calls_module(calls: Sequence[Call], registry: Registry = REGISTRY, dynamic: bool = False) -> ir.Module:
    """The program of independent calls, in the current context; all sizes are dynamic if `dynamic`."""
    operands = [_loose(d, dynamic) for op in calls for d in flatten(described(op).inputs.values())]
    module = ir.Module.parse(
        f"func.func @main({', '.join(f'%x{i}: {d}' for i, d in enumerate(operands))}) {{ return }}"
    )
    function = module.body.operations[0]
    block = function.regions[0].blocks[0]
    last = block.operations[0]
    ops = IRBuilder(registry, ir.InsertionPoint(last))
    rest = iter(block.arguments)

    def take(x: Any) -> Any:
        return None if x is None else tuple(next(rest) for _ in x) if isinstance(x, tuple) else next(rest)

    results = [v.handle for op in calls for v in ops.call(op.record.name, *map(take, op.inputs.values()), **op.attrs)]
    with ir.InsertionPoint(last):
        ir.Operation.create("func.return", [], results)
    last.operation.erase()
    kind = ir.FunctionType.get([a.type for a in block.arguments], [r.type for r in results])
    function.operation.attributes["function_type"] = ir.TypeAttr.get(kind)
    return module


def _loose(desc: TensorDesc, dynamic: bool) -> TensorDesc:
    """With `dynamic`, the description with sizes unknown, except sizes of 1: an unknown size does not broadcast."""
    sizes = (1 if size == 1 else None for size in desc.shape or ())
    return TensorDesc(tuple(sizes), desc.dtype) if dynamic else desc
