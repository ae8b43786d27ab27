"""Kernels written in Triton: the `kernel` or `triton` slot of an operator that is defined in Python.

    kernel = triton_kernel('''
    def double(x, y, x_size, BLOCK: tl.constexpr = 1024):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, 2 * tl.load(x + at, at < x_size), at < x_size)
    ''', grid="cdiv(x_size, BLOCK)")

The parameters of the first function are bound by name. An operand or result `x` is a pointer (`x_0`, `x_1` .. for a
variadic one, None for a missing one), `x_size` its number of elements, `x_shape0` its size along axis 0, `x_rank` its
rank. An attribute is a constant. Other parameters need a default. The kernel is compiled once for each set of types
and attributes.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from oneflow.dialect.external import ExternalKernel, python_kernel
from oneflow.dialect.lazy import lazy
from oneflow.dialect.record import Call
from oneflow.dialect.signature import Signature
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.triton.source import Parameter, Source
from oneflow.lowering.triton.symbolic_sizes import TileCount, cdiv
from oneflow.runtime.user_ops.tensors import check_names, named_tensors

codegen = lazy("oneflow.lowering.triton.codegen.kernel")
prelude = lazy("oneflow.lowering.triton.codegen.prelude")
interpreter = lazy("oneflow.runtime.user_ops.kernel_interpreter")


@dataclass(frozen=True)
class TritonKernel:
    """A kernel in Triton: the source, the grid and the compilation parameters.

    On a CUDA device the kernel is one launch of the program. On the host the kernel runs in Triton's
    interpreter, which is slow; an operator can have another `kernel` for the host and this kernel as `triton`.
    """

    text: str
    grid: str
    warps: int = 4
    stages: int = 3

    def __call__(self, op: Call) -> ExternalKernel:
        """The external kernel of a static call, interpreted on host memory."""
        source = self.source(op, "interpreted")
        return python_kernel(functools.partial(_interpret, source, len(source.parameters)))

    def check(self, signature: Signature) -> None:
        """Checks that the names of an operator are unambiguous in the kernel.

        Raises:
            SignatureError: a name equals a derived name of a tensor.
        """
        check_names(signature, "Triton", r"_size|_rank|_shape\d+")

    def source(self, op: Call, name: str) -> Source:
        """The Triton source of a static call; its main function is `name`.

        Raises:
            OperatorError: a parameter is unknown and has no default, or the grid cannot be computed.
        """
        tensors = {**dict(named_tensors(op.inputs)), **dict(named_tensors(op.outputs))}
        pointers = {n: codegen.POINTERS[_element(d)] for n, d in tensors.items() if d is not None}
        values = {**dict.fromkeys(tensors), **dict(_numbers(tensors)), **op.attrs}
        function, constants = self.function, {}
        for parameter, default in _parameters(function):
            if parameter not in values and parameter not in pointers and default is None:
                raise op.error(
                    f"its Triton kernel has the parameter {parameter}, expected a default or one of "
                    f"{', '.join(values)}"
                )
            if parameter in pointers:
                constants[parameter] = parameter
            elif parameter in values:
                constants[parameter] = _literal(op, parameter, values[parameter])
            else:
                values[parameter] = ast.literal_eval(default) if default is not None else None
        body = f"{function.name}({', '.join(f'{k}={v}' for k, v in constants.items())})"
        parameters = tuple(Parameter(*pointer) for pointer in pointers.items())
        return Source(
            name, parameters, self._programs(op, values), (body,), self.warps, self.stages,
            preamble=(prelude.HEAD, self._jitted()),
        )  # fmt: skip

    @functools.cached_property
    def function(self) -> ast.FunctionDef:
        """The main function, which is the first one."""
        return next(n for n in ast.parse(self.text).body if isinstance(n, ast.FunctionDef))

    def _programs(self, op: Call, values: dict[str, Any]) -> TileCount:
        try:
            return TileCount.of(int(eval(self.grid, {"cdiv": cdiv, "max": max, "min": min}, values)))
        except Exception as error:
            raise op.error(f"the grid {self.grid!r} of its Triton kernel: {error}") from None

    def _jitted(self) -> str:
        """Every function of the text with `@triton.jit`."""
        functions = [n for n in ast.parse(self.text).body if isinstance(n, ast.FunctionDef)]
        for function in functions:
            function.decorator_list = []
        return "".join(f"\n\n@triton.jit\n{ast.unparse(f)}\n" for f in functions)


def triton_kernel(
    function: str | Callable[..., Any], *helpers: str | Callable[..., Any], grid: str, warps: int = 4, stages: int = 3
) -> TritonKernel:
    """A Triton function as a kernel of an operator: the function or its text, and the functions that it calls.

    Args:
        function: the function of a program; the function may use only `tl` and `helpers`.
        helpers: further functions.
        grid: the number of programs, an expression over possible parameters: `"cdiv(x_size, BLOCK)"`.
        warps: warps of a program.
        stages: stages of pipelined loops.

    Raises:
        ValueError: a text is not a function of Python.
    """
    texts = [textwrap.dedent(f if isinstance(f, str) else inspect.getsource(f)) for f in (function, *helpers)]
    text = "\n\n".join(texts)
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ValueError(f"expected Triton functions, got text with an error in line {error.lineno}") from None
    if not any(isinstance(n, ast.FunctionDef) for n in tree.body):
        raise ValueError("expected a Triton function, got none in the text")
    return TritonKernel(text, grid, warps, stages)


def _interpret(source: Source, count: int, buffers: Any, stream: Any) -> None:
    """Runs a kernel on memory of the host."""
    with interpreter.interpreting():
        interpreter.interpret_kernel(source, [buffers[i] or 0 for i in range(count)])


def _element(desc: TensorDesc) -> str:
    """The element type in kernels: bools and bytes are i8."""
    return "i8" if desc.dtype.bits <= 8 else desc.dtype.mlir


def _numbers(tensors: dict[str, TensorDesc | None]) -> Iterator[tuple[str, int]]:
    for name, desc in tensors.items():
        if desc is not None:
            shape = desc.shape or ()
            yield f"{name}_size", desc.element_count or 0
            yield f"{name}_rank", len(shape)
            yield from ((f"{name}_shape{axis}", size or 0) for axis, size in enumerate(shape))


def _parameters(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Names of parameters with their defaults."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(plain) - len(arguments.defaults)), *arguments.defaults, *arguments.kw_defaults]
    for parameter, default in zip([*plain, *arguments.kwonlyargs], defaults, strict=True):
        yield parameter.arg, default


def _literal(op: Call, name: str, value: Any) -> str:
    if value is not None and type(value) not in (bool, int, float, str):
        raise op.error(f"expected a number or string for the parameter {name} of its Triton kernel, got {value!r}")
    return f'float("{value!r}")' if isinstance(value, float) and value - value != 0 else repr(value)
