"""Integer division at its edge cases is the same folded, compiled and interpreted."""

import numpy as np
import pytest

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.passes import all as every_pass  # noqa: F401
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.executable import compile_module
from oneflow.testing.interpreter import interpret


def quotient(a, b):
    """The quotient rounded down; 0 where the divisor is 0."""
    return a // b if b else 0


def modulo(a, b):
    """The remainder with the sign of the divisor; 0 where the divisor is 0."""
    return a % b if b else 0


def remainder(a, b):
    """The remainder with the sign of the dividend; 0 where the divisor is 0."""
    return (abs(a) % abs(b)) * (-1 if a < 0 else 1) if b else 0


OPERATORS = {"floordiv": quotient, "broadcast_floor_mod": modulo, "broadcast_fmod": remainder}


def pairs(dtype):
    info = np.iinfo(dtype)
    values = [v for v in (info.min, info.min + 1, -7, -2, -1, 0, 1, 2, 7, info.max) if v >= info.min]
    return [np.array(g.ravel(), dtype) for g in np.meshgrid(np.array(values, dtype), np.array(values, dtype))]


def expected(rule, a, b):
    info = np.iinfo(a.dtype)
    exact = [rule(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    return np.array([(v - info.min) % (1 << info.bits) + info.min for v in exact], a.dtype)


def program(name, kind, first="%a", second="%b", head=""):
    return f"""func.func @main(%a: {kind}, %b: {kind}) -> {kind} {{
      {head}
      %0 = "oneflow.{name}"({first}, {second}) : ({kind}, {kind}) -> {kind}
      return %0 : {kind}
    }}"""


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("name", OPERATORS)
def test_compiled_and_interpreted_quotients_are_equal(name, dtype):
    a, b = pairs(dtype)
    want = expected(OPERATORS[name], a, b)
    element = {np.uint8: "ui8"}.get(dtype, f"i{np.iinfo(dtype).bits}")
    text = program(name, f"tensor<{len(a)}x{element}>")
    context = create_context()
    with context, ir.Location.unknown():
        (computed,) = compile_module(read_module(text, context))(a, b)
        (interpreted,) = interpret(read_module(text, context), "main", a, b)
    np.testing.assert_array_equal(computed, want)
    np.testing.assert_array_equal(interpreted, want)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("name", OPERATORS)
def test_folded_quotients_are_equal(name, dtype):
    a, b = pairs(dtype)
    want = expected(OPERATORS[name], a, b)
    kind = f"tensor<{len(a)}xi{np.iinfo(dtype).bits}>"
    head = "\n".join(f"%c{i} = arith.constant dense<{x.tolist()}> : {kind}" for i, x in enumerate((a, b)))
    context = create_context()
    with context, ir.Location.unknown():
        module = read_module(program(name, kind, "%c0", "%c1", head), context)
        Pipeline.parse("builtin.module(oneflow-canonicalize)", context).run(module)
        (constant,) = [o for o in module.body.operations[0].body.blocks[0].operations if "value" in o.attributes]
        np.testing.assert_array_equal(np.array(constant.attributes["value"]), want)
