"""`oneflow-infer-types` on generated programs: refinement only, stability, and agreement with the references."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import oneflow.dialect.ops  # noqa: F401  registers the operators
from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import DType
from oneflow.dialect.oneflow import create_context, verify
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.passes.infer_types import InferTypes

CONTEXT = create_context()
UNARY = ("relu", "tanh", "negative", "transpose")


def program(shape: list[int | None], operators: list[str], loosen: list[bool]) -> str:
    """A chain of operators whose stated result types are loosened where asked."""
    kind = str(TensorDesc(tuple(shape), from_mlir_f32()))
    lines = [f"func.func @f(%v0: {kind}) -> tensor<*xf32> {{"]
    known = kind
    for index, name in enumerate(operators):
        attributes = " {perm = array<i32: 1, 0>}" if name == "transpose" else ""
        shape = shape[::-1] if name == "transpose" else shape
        result = "tensor<*xf32>" if loosen[index] else str(TensorDesc(tuple(shape), from_mlir_f32()))
        lines.append(f'  %v{index + 1} = "oneflow.{name}"(%v{index}){attributes} : ({known}) -> {result}')
        known = result
    last = f"%v{len(operators)}"
    lines.append(f"  %r = tensor.cast {last} : {known} to tensor<*xf32>\n  return %r : tensor<*xf32>\n}}")
    return "\n".join(lines)


def from_mlir_f32() -> DType:
    """The description of f32."""
    with CONTEXT:
        desc = from_mlir(ir.Type.parse("tensor<f32>"))
    assert desc is not None
    return desc.dtype


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(0, 5)), min_size=2, max_size=2),
    st.lists(st.tuples(st.sampled_from(UNARY), st.booleans()), min_size=1, max_size=6),
)
def test_types_of_generated_chains(shape: list[int | None], chain: list[tuple[str, bool]]) -> None:
    """Any of the types may be open: the inferred types are the same, and a second run changes nothing."""
    operators, loosen = [name for name, _ in chain], [loose for _, loose in chain]
    texts = []
    for flags in (loosen, [True] * len(chain)):
        module = read_module(program(shape, operators, flags), CONTEXT)
        with CONTEXT:
            InferTypes().run(module, REGISTRY)
            once = str(module)
            InferTypes().run(module, REGISTRY)
            assert module.operation.verify()
            assert verify(module.operation)
        assert str(module) == once
        texts.append(once)
    assert texts[0] == texts[1]
    assert "tensor<*" not in texts[0]


def function(name: str, call: str, taken: str = "tensor<*xf32>") -> str:
    """A function of one call; `%c` is its argument, unranked."""
    cast = f"%c = tensor.cast %x : {taken} to tensor<*xf32>" if "%c" in call else ""
    return f"""func.func {name}(%x: {taken}) -> tensor<*xf32> {{
      {cast}
      %0 = {call} : (tensor<*xf32>) -> tensor<*xf32>
      return %0 : tensor<*xf32>
    }}"""


def test_types_through_deep_calls() -> None:
    """Types are inferred through a long chain of calls, for any order of the functions."""
    depth = 60
    functions = [function(f"private @f{i}", f"call @f{i + 1}(%x)") for i in range(depth)]
    last = function(f"private @f{depth}", '"oneflow.relu"(%x)')
    main = function("@main", "call @f0(%c)", "tensor<2x3xf32>")
    for order in ([main, *functions, last], [last, *reversed(functions), main]):
        module = read_module("\n".join(order), CONTEXT)
        with CONTEXT:
            InferTypes().run(module, REGISTRY)
        assert "*" not in str(module)
