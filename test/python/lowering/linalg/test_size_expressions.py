"""Result sizes that compute slots compute: the sizes agree with Python, or are located errors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import Call, Registry, define, no_grad, no_reference, no_sbp
from oneflow.dialect.scalar import Expr
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.passes.pipeline import PipelineFailure
from oneflow.runtime.executable import Options, compile_module


def compile_sized(size: Callable[[Any], Any], given: int | None, result: int | None = None) -> Any:
    """A program with one operator, whose result has `size(n)` elements: the n elements of its operand, cyclically."""
    registry = Registry()

    def types(op: Call) -> TensorDesc:
        return TensorDesc((result,), op.x.dtype)

    def compute(op: Call) -> c.Stage:
        return c.element_wise((size(op.x.shape[0]),), lambda i: op.x[i % op.x.shape[0]])

    define("resized(x) -> y", registry=registry, doc="..", types=types, compute=compute, sbp=no_sbp("test"),
           grad=no_grad("test"), reference=no_reference("test"))  # fmt: skip
    source, target = (f"tensor<{'?' if n is None else n}xf32>" for n in (given, result))
    text = f"""func.func @main(%x: {source}) -> {target} {{
      %0 = "oneflow.resized"(%x) : ({source}) -> {target}
      return %0 : {target}
    }}"""
    module = read_module(text, create_context(registry), registry=registry)
    return compile_module(module, options=Options(cached=False), registry=registry)


def real(size: Any) -> Expr:
    return s.cast(c.as_expr(size), dtypes.float64)


def whole(value: Expr) -> Expr:
    return s.cast(value, dtypes.index)


#: Sizes that bodies compute, and Python's value for a number.
RIGHT: list[tuple[Callable[[Any], Any], Callable[[int], int]]] = [
    (lambda n: whole(real(n) * 1.5), lambda n: int(n * 1.5)),
    (lambda n: whole(s.ceil(real(n) * 0.75)), lambda n: math.ceil(n * 0.75)),
    (lambda n: whole(s.sqrt(real(n)) + 0.5), lambda n: int(math.sqrt(n) + 0.5)),
    (lambda n: whole(s.where(real(n) > 2.5, real(n) / 2.5, 7.5)), lambda n: int(n / 2.5) if n > 2.5 else 7),
    (lambda n: whole(s.cast(c.as_expr(n) + 299, dtypes.uint8)), lambda n: (n + 299) % 256),
    (lambda n: n * 3 // 2, lambda n: n * 3 // 2),
]


@pytest.mark.parametrize("number", range(len(RIGHT)))
@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("static", [True, False])
def test_computed_sizes_agree_with_python(number: int, n: int, static: bool) -> None:
    size, expected = RIGHT[number]
    data = np.arange(n, dtype=np.float32) + 4
    program = compile_sized(size, n if static else None, expected(n) if static else None)
    np.testing.assert_array_equal(program(data)[0], np.resize(data, expected(n)))


#: Sizes that the algebra refuses, and the messages for an unknown size.
WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda n: n * 1.5, "expected a whole number with an operand of index, got 1.5"),
    (lambda n: n + float("nan"), "expected a whole number with an operand of index, got nan"),
    (lambda n: n / 2, "expected a float for div, got index: cast the operand, or divide integers by //"),
    (lambda n: s.sqrt(c.as_expr(n)), "expected a float for sqrt, got index"),
    (lambda n: real(n), "expected a whole number or an expression of type index as a size, got f64"),
    (lambda n: n if n > 2 else 3, "a body cannot branch on a value"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_invalid_sizes_are_located_errors(number: int) -> None:
    size, text = WRONG[number]
    with pytest.raises(PipelineFailure) as caught:
        compile_sized(size, None)
    pattern = (
        rf"^-:2:12: error: oneflow\.resized: its slot compute \(.*{Path(__file__).name}:\d+\): {re.escape(text)}"
    )
    assert re.match(pattern, str(caught.value)), str(caught.value)


@pytest.mark.parametrize("size", [lambda n: n * 1.5, lambda n: n / 2])
def test_fractional_static_sizes_are_refused(size: Callable[[Any], Any]) -> None:
    with pytest.raises(PipelineFailure, match=r"expected a whole number or an expression"):
        compile_sized(size, 2, 3)


def test_fractions_of_integers_are_refused() -> None:
    """A number takes the type of the other operand, which would truncate a fraction."""
    x = s.arg(0, dtypes.int32)
    assert (x + 2.0).args[1].value == 2
    with pytest.raises(s.BodyError, match=r"expected a whole number with an operand of i32, got 0\.5"):
        s.maximum(0.5, x)
