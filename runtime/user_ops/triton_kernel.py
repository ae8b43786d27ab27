"""Kernels written in Triton: the `kernel` or `triton` slot of an operator that is defined in Python.

    kernel = triton_kernel('''
    def double(x, y, x_size, BLOCK: tl.constexpr = 1024):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, 2 * tl.load(x + at, at < x_size), at < x_size)
    ''', grid="cdiv(x_size, BLOCK)")

The first function's parameters are taken by name: an operand or result is a pointer (`x_0`, `x_1` .. where it is
repeated, None where it is missing), `x_size` its number of elements, `x_shape0` its size along axis 0, `x_rank` its
rank; an attribute is a constant, and others need a default. The kernel is compiled once per call's types and
attributes.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from oneflow.dialect.external import ExternalKernel, python_kernel
from oneflow.dialect.record import Call
from oneflow.dialect.signature import Signature
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.triton.codegen.kernel import POINTERS
from oneflow.lowering.triton.codegen.prelude import HEAD
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import Source, cdiv
from oneflow.runtime.user_ops.tensors import check_names, named_tensors

#: Where kernels run without a device; `testing` comes after the runtime, and is loaded when it is needed.
INTERPRETER = "oneflow.testing.triton_interpreter"


@dataclass(frozen=True)
class TritonKernel:
    """A kernel that is a function of Triton: its text, the number of programs, and how they are compiled.

    On a CUDA device it is one launch of a program. Elsewhere Triton's interpreter runs it, which is slow: give the
    operator another `kernel` for the host, and this as `triton`.
    """

    text: str
    grid: str
    warps: int = 4
    stages: int = 3

    def __call__(self, op: Call) -> ExternalKernel:
        """The kernel for a call on static descriptions, interpreted on memory of the host."""
        source = self.source(op, "interpreted")
        return python_kernel(functools.partial(_interpret, source, len(source.parameters)))

    def check(self, signature: Signature) -> None:
        """Checks that every name of an operator means one thing in the kernel.

        Raises:
            SignatureError: one is also that of a number of a tensor.
        """
        check_names(signature, "Triton", r"_size|_rank|_shape\d+")

    def source(self, op: Call, name: str) -> Source:
        """The kernel for a call on static descriptions as a file of Triton, whose main function is `name`.

        Raises:
            OperatorError: a parameter is no tensor, number of a tensor or attribute, or the grid cannot be computed.
        """
        tensors = {**dict(named_tensors(op.inputs)), **dict(named_tensors(op.outputs))}
        pointers = {n: POINTERS[_element(d)] for n, d in tensors.items() if d is not None}
        values = {**dict.fromkeys(tensors), **dict(_numbers(tensors)), **op.attrs}
        function, given = self.function, {}
        for parameter, default in _parameters(function):
            if parameter not in values and parameter not in pointers and default is None:
                raise op.error(
                    f"its Triton kernel has the parameter {parameter}, expected a default or one of "
                    f"{', '.join(values)}"
                )
            if parameter in pointers:
                given[parameter] = parameter
            elif parameter in values:
                given[parameter] = _literal(op, parameter, values[parameter])
            else:
                values[parameter] = ast.literal_eval(default) if default is not None else None
        body = f"{function.name}({', '.join(f'{k}={v}' for k, v in given.items())})"
        main = f"@triton.jit\ndef {identifier(name)}({', '.join(pointers)}):\n    {body}\n"
        text, parameters = f"{HEAD}{self._jitted()}{main}", tuple(pointers.items())
        return Source(name, text, parameters, self._programs(op, values), self.warps, self.stages)

    @functools.cached_property
    def function(self) -> ast.FunctionDef:
        """The main function, which stands first."""
        return next(n for n in ast.parse(self.text).body if isinstance(n, ast.FunctionDef))

    def _programs(self, op: Call, values: dict[str, Any]) -> str:
        try:
            return str(int(eval(self.grid, {"cdiv": cdiv, "max": max, "min": min}, values)))
        except Exception as error:
            raise op.error(f"the grid {self.grid!r} of its Triton kernel: {error}") from None

    def _jitted(self) -> str:
        """Every function of the text with `@triton.jit`."""
        functions = [n for n in ast.parse(self.text).body if isinstance(n, ast.FunctionDef)]
        for function in functions:
            function.decorator_list = []
        return "".join(f"\n\n@triton.jit\n{ast.unparse(f)}\n" for f in functions) + "\n\n"


def triton_kernel(
    function: str | Callable[..., Any], *helpers: str | Callable[..., Any], grid: str, warps: int = 4, stages: int = 3
) -> TritonKernel:
    """A function of Triton as a kernel of an operator: the function or its text, and those that it calls.

    Args:
        function: what every program runs; it may use `tl` and `helpers` alone.
        helpers: further functions.
        grid: how many programs there are, an expression over what parameters may be: `"cdiv(x_size, BLOCK)"`.
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
        raise ValueError(f"expected functions of Triton, got text with an error in line {error.lineno}") from None
    if not any(isinstance(n, ast.FunctionDef) for n in tree.body):
        raise ValueError("expected a function of Triton, got none in the text")
    return TritonKernel(text, grid, warps, stages)


def _interpret(source: Source, count: int, buffers: Any, stream: Any) -> None:
    """Runs a kernel on memory of the host."""
    interpreter = importlib.import_module(INTERPRETER)
    with interpreter.interpreting():
        interpreter.interpret_kernel(source, [buffers[i] or 0 for i in range(count)])


def _element(desc: TensorDesc) -> str:
    """The element type as kernels see it: bools and bytes are i8."""
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
