"""The checks of every sample: types, meaning, SBP, text; `testing.gradients` has the checks of gradients.

Each check takes a `Sample` and raises AssertionError with the operator, element type and difference. The same
functions serve the operators of this project and of users.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import control, dtypes, meaning
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Value
from oneflow.dialect.complex_parts import PartsBuilder
from oneflow.dialect.decomposition_gradient import mapped
from oneflow.dialect.dtypes import DType
from oneflow.dialect.evaluate import evaluate
from oneflow.dialect.external import run_kernel
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.numpy_builder import NumpyBuilder, describe_array, run_reference
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import (
    REGISTRY,
    Call,
    OperatorError,
    Registry,
    Rule,
    attribute_values,
    distribute,
    flatten,
    infer,
)
from oneflow.dialect.sbp import Sbp, SbpSignature, Shard, balanced_ranges
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.testing.sample import Bad, Sample
from oneflow.testing.simulate import noise, reduce_partials

Array = np.ndarray


def make_call(sample: Sample | Bad, arrays: Sequence[Any], attrs: dict[str, Any], registry: Registry) -> Call:
    """A call of the sample on arrays."""
    record = registry[sample.op]
    names = [a.name for a in record.signature.inputs]
    operands = [*arrays, *[None] * (len(names) - len(arrays))]
    pairs = zip(record.signature.inputs, operands, strict=True)
    inputs = {a.name: () if a.is_variadic and operand is None else operand for a, operand in pairs}
    return Call(record, inputs, attribute_values(record, attrs))


def described(op: Call) -> Call:
    """A call on arrays as a call on tensor descriptions, with inferred results."""

    def describe(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(describe_array, x))
        return None if x is None else describe_array(x)

    call = Call(op.record, {k: describe(x) for k, x in op.inputs.items()}, op.attrs)
    call.outputs = distribute(op.record.signature.outputs, list(infer(op.record, call)), None)
    return call


def make_case(sample: Sample, dtype: DType, registry: Registry) -> Call:
    """A call of the sample on arrays of `dtype`."""
    return make_call(sample, sample.arrays(dtype), sample.attributes(dtype), registry)


def assert_close(got: Array, want: Array, tolerance: tuple[float, float], text: str) -> None:
    """Compares results; shapes and element types have to be equal.

    Raises:
        AssertionError: the arrays differ by more than relative and absolute `tolerance`.
    """
    assert got.shape == want.shape, f"{text}: expected shape {want.shape}, got {got.shape}"
    assert got.dtype == want.dtype, f"{text}: expected dtype {want.dtype}, got {got.dtype}"
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=text)
    else:
        double = np.complex128 if want.dtype.kind == "c" else np.float64
        wide = (got.astype(double), want.astype(double))
        np.testing.assert_allclose(*wide, rtol=tolerance[0], atol=tolerance[1], err_msg=text)


def check_types(sample: Sample, dtype: DType, registry: Registry = REGISTRY) -> None:
    """Checks the inferred types against the results of the reference, for static and dynamic dimensions."""
    op = make_case(sample, dtype, registry)
    call = described(op)
    text = f"{sample} {dtype}"
    for got, desc in zip(run_reference(op), call.results, strict=True):
        assert describe_array(np.asarray(got)) == desc, f"{text}: reference gave {describe_array(got)}, types {desc}"
    for index, operand in enumerate(call.operands):
        for axis in range(operand.rank):
            _check_dynamic(call, index, axis, text)


def _check_dynamic(call: Call, number: int, axis: int, text: str) -> None:
    """Checks that with one dynamic dimension the static types refine the inferred ones, or that the call is
    refused.
    """
    counter = itertools.count()

    def loosen(desc: TensorDesc) -> TensorDesc:
        if next(counter) != number:
            return desc
        return TensorDesc(tuple(None if i == axis else d for i, d in enumerate(desc.shape or ())), desc.dtype)

    inputs = {
        k: tuple(map(loosen, d)) if isinstance(d, tuple) else None if d is None else loosen(d)
        for k, d in call.inputs.items()
    }
    try:
        loose = infer(call.record, Call(call.record, inputs, call.attrs))
    except OperatorError as error:
        assert "static" in str(error), f"{text}: refuses a dynamic dimension without saying `static`: {error}"
        return
    for static, dynamic in zip(call.results, loose, strict=True):
        assert static.refines(dynamic), f"{text}: dynamic operand {number} axis {axis} gave {dynamic} for {static}"


def check_meaning(sample: Sample, dtype: DType, registry: Registry = REGISTRY) -> None:
    """Checks the meaning (evaluated by NumPy, or the kernel) and `sharded_decomposition` against the reference."""
    op = make_case(sample, dtype, registry)
    wanted = run_reference(op)
    results_by_meaning = {"": run_meaning(op)}
    if op.record.sharded_decomposition is not None:
        results_by_meaning[" by parts"] = _run_rule(op.record.sharded_decomposition, op)
    for way, results in results_by_meaning.items():
        for index, (got, want) in enumerate(zip(results, wanted, strict=True)):
            text = f"{sample} {dtype}{way} result {index}"
            assert_close(np.asarray(got), np.asarray(want), sample.tolerance(dtype), text)


#: Special values: poles, kinks and underflow. 8e-39 is subnormal in f32 with a finite reciprocal.
EDGES = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 8e-39, 1e-308, -3e-5, 50.0, -50.0)


def with_edges(array: Array, rng: np.random.Generator) -> Array:
    """The array with a third of its floats replaced by `EDGES`."""
    if describe_array(array).dtype.kind != "float":
        return array
    with np.errstate(over="ignore"):
        return np.where(rng.random(array.shape) < 1 / 3, rng.choice(EDGES, array.shape).astype(array.dtype), array)


def edge_case(sample: Sample, dtype: DType, seed: int, registry: Registry = REGISTRY) -> Call:
    """A call of the sample with NaN, infinities, zeros of both signs and subnormal numbers in its operands."""
    rng = np.random.default_rng(seed)

    def edged(x: Any) -> Any:
        return tuple(map(edged, x)) if isinstance(x, tuple) else None if x is None else with_edges(x, rng)

    return make_call(sample, list(map(edged, sample.arrays(dtype))), sample.attributes(dtype), registry)


def check_edges(sample: Sample, dtype: DType, registry: Registry = REGISTRY) -> None:
    """Checks the meaning against the reference on operands with `EDGES`, including NaN."""
    for seed in range(3):
        op = edge_case(sample, dtype, seed, registry)
        for index, (got, want) in enumerate(zip(run_meaning(op), run_reference(op), strict=True)):
            text = f"{sample} {dtype} seed {seed} result {index}"
            assert_close(np.asarray(got), np.asarray(want), edge_tolerance(sample, dtype), text)


def edge_tolerance(sample: Sample, dtype: DType) -> tuple[float, float]:
    """The tolerance of the sample; wider for f32, where results that involve e^50 lose digits."""
    relative, absolute = sample.tolerance(dtype)
    return max(relative, 1e-5), max(absolute, 1e-6)


def run_meaning(op: Call) -> list[Array]:
    """The results of a call on arrays by the meaning of the operator."""
    call = described(op)
    if any(d.dtype.is_complex for d in (*call.operands, *call.results)):
        return _run_parts(op, call.results)
    if op.record.kernel is not None:
        return list(run_kernel(op))
    if op.record.control is not None:
        return control.run(_MeaningBuilder(), op)
    if op.record.decompose is None:
        stages = meaning.stages(meaning.input_stages(call), call.results)
        return evaluate(stages, flatten(op.inputs.values()))
    return _run_rule(op.record.decompose, op)


def _run_parts(op: Call, results: Sequence[TensorDesc]) -> list[Array]:
    """The results of a call with complex numbers by the slot `parts`, its operators evaluated by their meanings."""
    ops = PartsBuilder(_MeaningBuilder())

    def wrap(x: Any) -> Value:
        return ops.pair(ops.wrap(x.real), ops.wrap(x.imag)) if np.iscomplexobj(x) else ops.wrap(x)

    def array(value: Value) -> Array:
        if not value.dtype.is_complex:
            return np.asarray(value.handle)
        re, im = (part.handle for part in ops.parts(value))
        assembled = np.empty(re.shape, value.dtype.numpy)
        assembled.real, assembled.imag = re, im
        return assembled

    values = ops.emit(Call(op.record, {k: mapped(wrap, x) for k, x in op.inputs.items()}, op.attrs), results)
    return [array(v) for v in values]


def _run_rule(rule: Rule, op: Call) -> list[Array]:
    """The results of a call on arrays by a decomposition rule, whose operators are evaluated by their meanings."""
    ops = _MeaningBuilder()
    wrap = {k: tuple(map(ops.wrap, x)) if isinstance(x, tuple) else None if x is None else ops.wrap(x)
            for k, x in op.inputs.items()}  # fmt: skip
    result = rule(ops, Call(op.record, wrap, op.attrs))
    return [r.handle for r in (result if isinstance(result, (tuple, list)) else [result])]


class _MeaningBuilder(NumpyBuilder):
    """Evaluates every operator by its meaning, so that nested decompositions are checked."""

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Evaluates the meaning of the operator."""
        inputs = {
            k: tuple(v.handle for v in x) if isinstance(x, tuple) else None if x is None else x.handle
            for k, x in op.inputs.items()
        }
        arrays = run_meaning(Call(op.record, inputs, op.attrs))
        return [self._checked(op, a, d) for a, d in zip(arrays, results, strict=True)]


def sbp_case(sample: Sample, registry: Registry = REGISTRY) -> Call:
    """The call that `check_sbp` shards."""
    return make_case(sample, sample.precise_dtype, registry)


def check_sbp(sample: Sample, registry: Registry = REGISTRY) -> list[SbpSignature]:
    """Checks every signature on 2 and 3 devices: sharded results of the reference reassemble to the whole.

    In f64 where the sample runs with floats first, and then in its first type of integers or 16 bits too.
    Returns the checked signatures. Other signatures have an axis shorter than the devices, or partial sums of values
    that are not finite; `test_sbp_coverage.py` requires another sample of the operator for these.
    """
    if sample.dtypes[0].is_float:
        for dtype in itertools.islice((d for d in sample.dtypes if d.is_integer or d.bits == 16), 1):
            _check_signatures(sample, make_case(sample, dtype, registry), dtype)
    return _check_signatures(sample, sbp_case(sample, registry))


def _check_signatures(sample: Sample, op: Call, dtype: DType = dtypes.float64) -> list[SbpSignature]:
    """The checked signatures of a call; signatures with sums of 16-bit floats are skipped."""
    expected = [np.asarray(r) for r in run_reference(op)]
    close = sample.tolerance(dtype) if dtype.is_float and dtype.bits == 16 else (1e-9, 1e-9)
    signatures = [s for s in op.record.signatures(described(op)) if dtype.bits != 16 or not _has_sums(s)]
    return [s for s in signatures if sum(_check_signature(sample, op, expected, s, d, close) for d in (2, 3))]


def _has_sums(signature: SbpSignature) -> bool:
    return any(s.is_partial for s in (*signature.inputs, *signature.outputs))


def _check_signature(
    sample: Sample,
    op: Call,
    expected: list[Array],
    signature: SbpSignature,
    devices: int,
    close: tuple[float, float],
) -> bool:
    """Checks a signature; returns whether the call can be sharded for it."""
    operands = flatten(op.inputs.values())
    text = f"{sample} on {devices} devices with {signature}"
    assert len(signature.inputs) == len(operands), f"{text}: {len(operands)} operands"
    assert len(signature.outputs) == len(expected), f"{text}: {len(expected)} results"
    if signature.multiple % devices:
        return False
    for sbp, array in zip((*signature.inputs, *signature.outputs), (*operands, *expected), strict=True):
        assert sbp.kind != "S" or 0 <= (sbp.axis or 0) < array.ndim, f"{text}: no axis {sbp.axis}"
        if sbp.kind == "S" and array.shape[sbp.axis] < devices:
            return False
        if sbp.kind == "P" and array.dtype.kind not in "biu" and not np.isfinite(array).all():
            return False
    cut = [_cut(x, s, devices, seed) for seed, (x, s) in enumerate(zip(operands, signature.inputs, strict=True))]
    results = []
    for rank in range(devices):
        begins = (
            tuple(_range(x.shape, s, rank, devices)[0] for x, s in zip(arrays, sbps, strict=True))
            for arrays, sbps in ((operands, signature.inputs), (expected, signature.outputs))
        )
        outputs = [_shard_desc(w, s, rank, devices) for w, s in zip(expected, signature.outputs, strict=True)]
        inputs = [c[rank] for c in cut]
        shard = Shard(tuple(map(describe_array, inputs)), tuple(outputs), *begins)
        results.append(_run_shard(op, inputs, shard))
    for index, (sbp, want) in enumerate(zip(signature.outputs, expected, strict=True)):
        shards = [np.asarray(result[index]) for result in results]
        _check_reassembled(shards, sbp, want, close, f"{text}: result {index}")
    return True


def _cut(x: Array, sbp: Sbp, devices: int, seed: int) -> list[Array]:
    """The shards of an operand; `seed` differs between operands, since equal noise could cancel."""
    if sbp.kind == "S":
        assert sbp.axis is not None
        return [np.take(x, range(*r), axis=sbp.axis) for r in balanced_ranges(x.shape[sbp.axis], devices)]
    if sbp.kind == "B":
        return [x] * devices
    rng = np.random.default_rng(seed)
    parts = [noise(rng, x) for _ in range(devices - 1)]
    return [*parts, (x - sum(parts, np.zeros_like(x))).astype(x.dtype)]


def _range(shape: tuple[int, ...], sbp: Sbp, rank: int, devices: int) -> tuple[int, int]:
    return balanced_ranges(shape[sbp.axis], devices)[rank] if sbp.axis is not None else (0, 0)


def _shard_desc(logical: Array, sbp: Sbp, rank: int, devices: int) -> TensorDesc:
    begin, end = _range(logical.shape, sbp, rank, devices)
    shape = (end - begin if i == sbp.axis else d for i, d in enumerate(logical.shape))
    return TensorDesc(tuple(shape), describe_array(logical).dtype)


def _run_shard(op: Call, operands: list[Array], shard: Shard) -> tuple[Array, ...]:
    sizes = [len(x) if isinstance(x, tuple) else int(x is not None) for x in op.inputs.values()]
    inputs = distribute(op.record.signature.inputs, operands, sizes)
    attrs = op.attrs if op.record.local is None else {**op.attrs, **op.record.local(op, shard)}
    call = Call(op.record, inputs, attrs)
    described(call)
    return run_reference(call)


def _check_reassembled(shards: list[Array], sbp: Sbp, want: Array, close: tuple[float, float], text: str) -> None:
    if sbp.kind == "S":
        joined = [np.concatenate(shards, axis=sbp.axis)]
    elif sbp.is_partial:
        joined = [reduce_partials(shards, sbp.kind)]
    else:
        joined = shards
    for got in joined:
        assert_close(got, want, close, text)


def check_round_trip(sample: Sample, dtype: DType, context: ir.Context, registry: Registry = REGISTRY) -> None:
    """Checks that a printed operation reads back as the same operation."""
    op = make_case(sample, dtype, registry)
    call = described(op)
    with context, ir.Location.unknown():
        module = ir.Module.parse(_program(op.record.name, call))
        block = module.body.operations[0].regions[0].blocks[0]
        ops = IRBuilder(registry, ir.InsertionPoint.at_block_begin(block))
        rest = iter(block.arguments)
        operands = [tuple(next(rest) for _ in x) if isinstance(x, tuple) else None if x is None else next(rest)
                    for x in call.inputs.values()]  # fmt: skip
        ops.call(op.record.name, *operands, **op.attrs)
        text = str(module)
    again = str(read_module(text, context, registry=registry))
    assert text == again, f"{sample} {dtype}: printed\n{text}\nread again\n{again}"


def _program(name: str, call: Call) -> str:
    operands = ", ".join(f"%a{i}: {d}" for i, d in enumerate(call.operands))
    return f"func.func @{name}({operands}) {{\n  return\n}}"


def check_bad(bad: Bad, registry: Registry = REGISTRY) -> None:
    """Checks that a call is refused with the expected message, which names the operator."""
    sample = Sample(bad.op, bad.operands, bad.attrs)
    try:
        infer_bad(bad, sample, registry)
    except OperatorError as error:
        text = str(error)
        assert bad.match in text, f"{bad}: expected a message with {bad.match!r}, got {text!r}"
        assert text.startswith(f"{dialect.PREFIX}{bad.op}:"), f"{bad}: message does not name the operator: {text!r}"
        return
    raise AssertionError(f"{bad}: was not refused")


def infer_bad(bad: Bad, sample: Sample, registry: Registry) -> None:
    """Runs attribute checks and type inference of a bad call."""
    described(make_call(bad, sample.arrays(bad.dtype), sample.attributes(bad.dtype), registry))
