"""Triton kernels on host memory, in Triton's interpreter: where an operator has a Triton kernel alone, and in tests.

Parts of the interpreter are replaced: reductions and scans by any function run on whole slices instead of one
element at a time, blocks of one comparison's result keep its type, conversions to bf16 round to nearest even, and
libdevice's functions are NumPy's.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import Source
from oneflow.runtime.cuda.compiler import triton
from oneflow.runtime.user_ops.device_functions import KINDS, POINTEES, instruction, libdevice


def interpret_kernel(source: Source, arguments: Sequence[int]) -> None:
    """Runs a kernel on addresses and sizes, every program in order; within `interpreting`."""
    programs = program_count(source, arguments)
    interpreter, function = triton("runtime.interpreter"), _function(source.text, source.name)
    builder = interpreter.interpreter_builder
    builder.set_grid_dim(max(programs, 1), 1, 1)
    tensors = [_argument(kind, value) for (_, kind), value in zip(source.parameters, arguments, strict=True)]
    for number in range(programs):
        builder.set_grid_idx(number, 0, 0)
        function(*tensors)


def program_count(source: Source, arguments: Sequence[int]) -> int:
    """The number of programs of a launch with these arguments."""
    return source.grid.value(dict(zip((p.name for p in source.parameters), arguments, strict=True)))


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
    positions = np.arange(data.shape[axis]).reshape([-1 if i == axis else 1 for i in range(data.ndim)])
    while step < data.shape[axis]:
        before = _tensor(np.roll(value.handle.data, step, axis), value, [value])
        joined = combine_fn(before, value).handle.data
        value = _tensor(np.where(positions < step, value.handle.data, joined), value, [value])
        step *= 2
    return value


def _inline_assembly(text: str, constraints: str, args: Sequence[Any], dtype: Any, is_pure: bool, pack: int) -> Any:
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
    scope = interpreter._patch_lang(_function_with_language(language))
    scope.set_attr(language.tensor, "__index__", lambda self: int(self.handle.data.item()))
    scope.set_attr(language, "reduce", _reduce)
    scope.set_attr(language, "sum", _fold(np.add.reduce))
    scope.set_attr(language, "max", _fold(np.fmax.reduce))
    scope.set_attr(language, "associative_scan", _scan)
    scope.set_attr(language, "inline_asm_elementwise", _inline_assembly)
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


def _function_with_language(language: Any) -> Any:
    """A function whose globals have the language, which the interpreter reads."""
    return types.FunctionType((lambda: None).__code__, {"tl": language})
