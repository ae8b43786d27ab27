"""Runs programs at the `triton` stage without a device: the plan on NumPy memory, kernels in Triton's interpreter.

Parts of the interpreter are replaced: reductions and scans by any function run on whole slices instead of one
element at a time, blocks of one comparison's result keep its type, conversions to bf16 round to nearest even, and
libdevice's functions are NumPy's and SciPy's.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import BY_MLIR, DType
from oneflow.dialect.external import Launch
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, Call, Registry, flatten
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.targets.selection import gpu_target, using_gpu
from oneflow.lowering.triton.launch.program import Program, read_program
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import GLUON, Source
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda.compiler import triton
from oneflow.runtime.cuda.host import HostProgram
from oneflow.runtime.external import make_externals
from oneflow.runtime.failures import out_of_bounds_error, size_error
from oneflow.testing.backend import calls_module
from oneflow.testing.checks import assert_close, make_call
from oneflow.testing.device_functions import KINDS, POINTEES, instruction, libdevice
from oneflow.testing.gluon_interpreter import interpret_gluon
from oneflow.testing.sample import Sample

#: Parameters of launches that group and fuse no calls.
ALONE: dict[str, Any] = {"max_fused_entry_calls": 0, "max_parameters": 0, "grouped": {}}


def check_triton(
    sample: Sample, dtype: DType, *, dynamic: bool = False, registry: Registry = REGISTRY,
    context: ir.Context | None = None,
) -> list[str]:  # fmt: skip
    """The operator's kernels, interpreted, give the reference's results; with `dynamic`, made for every size.

    Returns which kernels run on the host and why.

    Raises:
        AssertionError: a result differs by more than the sample's tolerance.
        OperatorError: the operator does not allow dynamic sizes (it says `static`).
    """
    return check_triton_cases([(sample, dtype)], dynamic=dynamic, registry=registry, context=context)


def check_triton_cases(
    cases: Sequence[tuple[Sample, DType]], *, dynamic: bool = False, registry: Registry = REGISTRY,
    context: ir.Context | None = None,
) -> list[str]:  # fmt: skip
    """As `check_triton`, for samples that are independent calls of one program, with kernels for each call."""
    calls = [make_call(sample, sample.arrays(dtype), sample.attributes(dtype), registry) for sample, dtype in cases]
    program = lower_calls(calls, dynamic, registry, context)
    results = interpret_program(program, *(x for op in calls for x in flatten(op.inputs.values())), registry=registry)
    references = [[np.asarray(r) for r in run_reference(op)] for op in calls]
    count = sum(map(len, references))
    assert len(results) == count, f"{cases[0][0]}: expected {count} results, got {len(results)}"
    got = iter(results)
    for (sample, dtype), wanted in zip(cases, references, strict=True):
        for number, want in enumerate(wanted):
            text = f"{sample} {dtype}{' dynamic' if dynamic else ''} result {number}"
            assert_close(_retyped(next(got), want.dtype), want, sample.tolerance(dtype), text)
    return [h.message for h in program.hosts]


def _retyped(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A result of a plan in its own type: plans have complex numbers as pairs of reals, and unsigned integers as
    signed integers.
    """
    if dtype.kind == "c":
        return array.view(dtype)[..., 0]
    return array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array


def lower_call(
    op: Call, dynamic: bool = False, registry: Registry = REGISTRY, context: ir.Context | None = None
) -> Program:
    """A call on arrays as a program of one operator at the `triton` stage, in a new context or a given context."""
    return lower_calls([op], dynamic, registry, context)


def lower_calls(
    calls: Sequence[Call], dynamic: bool = False, registry: Registry = REGISTRY, context: ir.Context | None = None
) -> Program:
    """As `lower_call`, for independent calls; each kernel is of one call, and launched alone."""
    context = context or create_context(registry)
    target = gpu_target()
    fitted = {**target.fitted, "launches": {**target.fitted.get("launches", {}), **ALONE}}
    with context, ir.Location.unknown(), using_gpu(replace(target, fitted=fitted)):
        module = calls_module(calls, registry, dynamic)
        Pipeline.parse(pipeline_between(None, "triton"), context).run(module, registry)
        return read_program(module)


def interpret_program(program: Program, *arrays: Any, registry: Registry = REGISTRY) -> list[np.ndarray]:
    """The results of a program on arrays.

    Raises:
        OutOfBoundsError: a position in the data is out of range.
        SizeError: sizes known only now do not fit.
    """
    run = _Run(program, registry)
    donates = "run.donated(" in program.plan
    copies = [np.array(a, order="C") if donates else np.ascontiguousarray(a) for a in arrays]
    run.kept += copies
    run.arguments = copies
    arguments = [x for number, a in enumerate(copies) for x in (run.address(a), *_sizes(program, number, a))]
    with interpreting():
        program.function()(run, *arguments)
    run.check()
    return [run.results[i] for i in range(len(program.results))]


def _sizes(program: Program, number: int, array: np.ndarray) -> list[int]:
    """The dynamic sizes of argument `number` that the plan asks for."""
    names = program.plan.partition("(")[2].partition(")")[0].split(", ")
    return [size for axis, size in enumerate(array.shape) if f"in{number}_{axis}" in names]


class _Run:
    """The plan's side of a run on NumPy memory."""

    def __init__(self, program: Program, registry: Registry) -> None:
        self.program, self.registry = program, registry
        self.kept: list[np.ndarray] = []
        self.arguments: list[np.ndarray] = []
        self.results: dict[int, np.ndarray] = {}
        self.sites = np.zeros(3 * max(len(program.sites), 1), np.int64)
        self.failure = self.address(self.sites)
        self.workspace = self.temporary(program.workspace)

    def address(self, array: np.ndarray) -> int:
        return int(array.ctypes.data)

    def temporary(self, size: int) -> int:
        """Memory filled with a pattern that reveals reads of unwritten elements."""
        memory = np.full(size + 64, 0xAB, np.uint8)
        self.kept.append(memory)
        return self.address(memory) + -self.address(memory) % 64

    def release(self, address: int) -> None:
        """Nothing: memory lives as long as the run."""

    def result(self, number: int, size: int, shape: tuple[int, ...]) -> int:
        desc = self.program.results[number]
        memory = np.full(max(size, 1), 0xAB, np.uint8)
        self.results[number] = memory[:size].view(desc.dtype.numpy).reshape(shape)
        return self.address(memory)

    def donated(self, number: int, argument: int, size: int, shape: tuple[int, ...]) -> int:
        self.results[number] = self.arguments[argument].reshape(shape)
        return self.address(self.arguments[argument])

    def at(self, offset: int, size: int) -> int:
        return self.workspace + offset

    def part(self, address: int, offset: int) -> int:
        return address + offset

    def shape(self, number: int, shape: tuple[int, ...]) -> None:
        self.results[number] = self.results[number].reshape(shape)

    def constant(self, number: int) -> int:
        return self.address(self.program.constants[number])

    def copy(self, target: int, source: int, size: int) -> None:
        if size:
            _memory(target, size)[:] = _memory(source, size)

    def fill(self, address: int, count: int, value: float, element: str) -> None:
        kind = _kind(element)
        _memory(address, count * kind.itemsize).view(kind)[:] = value

    def read(self, address: int, offset: int, element: str) -> Any:
        kind = _kind(element)
        return _memory(address + offset * kind.itemsize, kind.itemsize).view(kind)[0].item()

    def host(self, number: int, inputs: Sequence[tuple[int, int]], results: Sequence[tuple[int, int]]) -> None:
        texts = self.program.externals
        context = create_context(self.registry)
        external = make_externals(texts, self.registry, context, lambda: [""] * len(texts))[number]
        addresses = [a for a, _ in (*inputs, *results)]
        memory = (ctypes.c_void_p * len(addresses))(*addresses)
        assert Launch(external.kernel.function)(external.kernel.context, memory, None) == 0, external.kernel.error()

    def on_host(self, name: str, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        kernel = next(h for h in self.program.hosts if h.name == name)
        HostProgram(kernel, self.program.sites).run(inputs, results)

    def check_size(self, got: int, wanted: int, site: int) -> None:
        if got != wanted:
            raise size_error(self.program.sites[site], got, wanted)

    def check_index(self, got: int, wanted: int, site: int) -> int:
        if not 0 <= got < wanted:
            raise out_of_bounds_error(self.program.sites[site], got, wanted)
        return got

    def check(self) -> None:
        """Raises the first failure that kernels recorded."""
        for site, (failed, got, wanted) in enumerate(self.sites.reshape(-1, 3).tolist()):
            if failed:
                self.check_index(got, wanted, site)

    def launch(self, name: str, *arguments: int, writes: int = 0) -> None:
        interpret_kernel(self.program.sources[name], arguments)


def interpret_kernel(source: Source, arguments: Sequence[int]) -> None:
    """Runs a kernel on addresses and sizes, every program in order; within `interpreting`."""
    programs = source.grid.value(dict(zip((p.name for p in source.parameters), arguments, strict=True)))
    if source.language == GLUON:
        kinds = [kind for _, kind in source.parameters]
        return interpret_gluon(source.text, identifier(source.name), kinds, arguments, programs)
    interpreter, function = triton("runtime.interpreter"), _function(source.text, source.name)
    builder = interpreter.interpreter_builder
    builder.set_grid_dim(max(programs, 1), 1, 1)
    tensors = [_argument(kind, value) for (_, kind), value in zip(source.parameters, arguments, strict=True)]
    for number in range(programs):
        builder.set_grid_idx(number, 0, 0)
        function(*tensors)


def _kind(element: str) -> np.dtype:
    """The NumPy type of an MLIR element type."""
    return np.dtype(np.int8) if element == "i8" else BY_MLIR[element].numpy


def _memory(address: int, size: int) -> np.ndarray:
    view = types.SimpleNamespace(
        __array_interface__={"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}
    )
    return np.asarray(view)


def _argument(kind: str, value: int) -> Any:
    language, interpreter = triton("language"), triton("runtime.interpreter")
    if kind.startswith("*"):
        pointer = language.pointer_type(getattr(language, POINTEES[kind[1:]]))
        return language.tensor(interpreter.TensorHandle(np.array([value], np.uint64), pointer), pointer)
    pointer = getattr(language, POINTEES.get(kind, "int1"))
    data = np.array([value], interpreter._get_np_dtype(pointer))
    return language.tensor(interpreter.TensorHandle(data, pointer), pointer)


@functools.lru_cache(maxsize=4096)
def _function(text: str, name: str) -> Callable[..., None]:
    """A kernel as a Python function on the interpreter's tensors."""
    interpreter = triton("runtime.interpreter")
    tree = ast.parse(text)
    tree.body = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    tree = ast.fix_missing_locations(interpreter.ASTTransformer().visit(tree))
    jit = types.SimpleNamespace(jit=lambda f: f)
    namespace = {"triton": jit, "tl": triton("language"), "libdevice": _Libdevice(),
                 "interpreter_semantic": interpreter.interpreter_semantic}  # fmt: skip
    exec(compile(tree, f"<interpreted {name}>", "exec"), namespace)
    function: Callable[..., None] = namespace[identifier(name)]
    return function


class _Libdevice:
    """libdevice on the interpreter's tensors."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = libdevice(name)
        return lambda *tensors: _tensor(function(*(t.handle.data for t in tensors)), tensors[0], tensors)


def _tensor(data: np.ndarray, like: Any, inputs: Sequence[Any]) -> Any:
    """NumPy data as a tensor of the element type of `like`."""
    language, interpreter = triton("language"), triton("runtime.interpreter")
    data = np.asarray(data).astype(like.handle.data.dtype)
    block = any(t.type.is_block() for t in inputs)
    kind = language.block_type(like.dtype, list(data.shape)) if block else like.dtype
    return language.tensor(interpreter.TensorHandle(data, like.dtype), kind)


def _part(value: Any, axis: int, part: slice) -> Any:
    """Some of the slices of a tensor along an axis."""
    index = [slice(None)] * value.handle.data.ndim
    index[axis] = part
    return _tensor(value.handle.data[tuple(index)], value, [value])


def _reduce(value: Any, axis: Any, combine_fn: Callable[..., Any], keep_dims: bool = False) -> Any:
    """Neighbours are combined until one is left: the size of a block is a power of two."""
    assert keep_dims, "kernels with their own reduction functions keep the dimensions"
    axis, values = int(axis), value if isinstance(value, tuple) else (value,)
    while values[0].handle.data.shape[axis] > 1:
        halves = (_part(v, axis, slice(start, None, 2)) for start in (0, 1) for v in values)
        reduced = combine_fn(*halves)
        values = reduced if isinstance(reduced, tuple) else (reduced,)
    return values if isinstance(value, tuple) else values[0]


def _fold(function: Callable[..., np.ndarray]) -> Callable[..., Any]:
    """A reduction along an axis, which is dropped; the maximum ignores NaN, as on the device."""

    def fold(value: Any, axis: int) -> Any:
        return _tensor(function(value.handle.data, axis=axis), value, [value])

    return fold


def _scan(value: Any, axis: Any, combine_fn: Callable[..., Any]) -> Any:
    """Each slice is combined with the slice `step` before it, for steps of 1, 2, 4 and so on."""
    axis, step, data = int(axis), 1, value.handle.data
    places = np.arange(data.shape[axis]).reshape([-1 if i == axis else 1 for i in range(data.ndim)])
    while step < data.shape[axis]:
        before = _tensor(np.roll(value.handle.data, step, axis), value, [value])
        joined = combine_fn(before, value).handle.data
        value = _tensor(np.where(places < step, value.handle.data, joined), value, [value])
        step *= 2
    return value


def _hardware(text: str, constraints: str, args: Sequence[Any], dtype: Any, is_pure: bool, pack: int) -> Any:
    """The result of an instruction, without its error."""
    return _tensor(instruction(text)(*(a.handle.data for a in args)), args[0], args)


def _convert_float(data: np.ndarray, source: Any, target: Any, rounding: Any) -> np.ndarray:
    """f32 to bf16 and back, as bits."""
    if source.primitive_bitwidth == 32:
        return data.astype(ml_dtypes.bfloat16).view(np.uint16)
    widened: np.ndarray = data.view(ml_dtypes.bfloat16).astype(np.float32)
    return widened.view(np.uint32)


def _name(handle: Any) -> str:
    """Triton's name of the element type of a block, such as `float8e5`."""
    name: str = POINTEES[handle.dtype.scalar.name]
    return name


def _create_dot(builder: Any, a: Any, b: Any, c: Any, precision: Any, imprecise: Any) -> Any:
    """A product of blocks in the type of the sum."""
    left, right = (x.data.view(KINDS[_name(x)]) if x.data.dtype.kind == "u" else x.data for x in (a, b))
    wide = c.data.dtype
    data = np.matmul(left.astype(wide), right.astype(wide)) + c.data
    return triton("runtime.interpreter").TensorHandle(data, c.dtype.scalar)


def _create_splat(builder: Any, kind: Any, value: Any) -> Any:
    """A block of one element; a comparison's keeps its type, which the handle of a scalar does not state."""
    data = np.full(kind.shape, value.data.reshape(-1)[0], value.data.dtype)
    return triton("runtime.interpreter").TensorHandle(data, value.dtype.scalar)


@contextlib.contextmanager
def interpreting() -> Iterator[None]:
    """Triton's language as the interpreter's, with the replacements."""
    interpreter, language = triton("runtime.interpreter"), triton("language")
    scope = interpreter._patch_lang(_speaker(language))
    scope.set_attr(language.tensor, "__index__", lambda self: int(self.handle.data.item()))
    scope.set_attr(language, "reduce", _reduce)
    scope.set_attr(language, "sum", _fold(np.add.reduce))
    scope.set_attr(language, "max", _fold(np.fmax.reduce))
    scope.set_attr(language, "associative_scan", _scan)
    scope.set_attr(language, "inline_asm_elementwise", _hardware)
    scope.set_attr(interpreter, "_convert_float", _convert_float)
    scope.set_attr(interpreter.InterpreterBuilder, "create_splat", _create_splat)
    scope.set_attr(interpreter.InterpreterBuilder, "create_dot", _create_dot)
    quiet = interpreter.InterpreterOptions(sanitize_overflow=False)
    scope.set_attr(interpreter.interpreter_builder, "options", quiet)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        scope.restore()


def _speaker(language: Any) -> Any:
    """A function whose globals have the language, which the interpreter reads."""
    return types.FunctionType((lambda: None).__code__, {"tl": language})


__all__ = [
    "check_triton", "check_triton_cases", "interpret_kernel", "interpret_program", "interpreting", "lower_call",
    "lower_calls",
]  # fmt: skip
