"""The C++ functions of a `functional_api.yaml`: `functional::Name(..)` with the types of its signatures."""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.runtime.user_ops.functional_api import FunctionEntry, FunctionSignature, Parameter

#: C++ types by declared parameter type; lists are vectors of their element type.
CPP_TYPES = {
    "Scalar": "Scalar", "Int": "int32_t", "Int32": "int32_t", "Int64": "int64_t", "Float": "float",
    "Double": "double", "String": "std::string", "Bool": "bool", "DataType": "DataType", "Shape": "Shape",
    "TensorTuple": "TensorTuple", "Device": "Symbol<Device>", "Generator": "Generator",
}  # fmt: skip
RETURNS = {"Tensor": "Tensor", "TensorTuple": "TensorTuple", "Void": "void"}


def functional_text(entries: Sequence[FunctionEntry], file: str) -> str:
    """The C++ header that declares every function of a file, including functions without a Python binding."""
    lines = [f"// Generated from {file} by oneflow-translate --gen-functional-api.", "#pragma once"]
    lines += ['#include "oneflow/core/functional/function_library.h"', ""]
    lines += ["namespace oneflow {", "namespace one {", "namespace functional {", ""]
    seen: dict[str, None] = {}
    for entry in entries:
        for signature in entry.signatures:
            seen[_function(signature)] = None
    return "\n".join(
        [*lines, *seen, "}  // namespace functional", "}  // namespace one", "}  // namespace oneflow", ""]
    )


def _function(signature: FunctionSignature) -> str:
    if signature.refusal:
        return f"// Not {signature.functor}: {signature.refusal}.\n"
    kind = RETURNS[signature.returns]
    parameters = ", ".join(f"const {_type(p)} &{p.name}" for p in signature.parameters)
    call = ", ".join([f'"{signature.functor}"', *(p.name for p in signature.parameters)])
    return (
        f"inline Maybe<{kind}> {signature.functor}({parameters}) {{\n"
        f"  return Call<{kind}>({call});\n}}\n"
    )  # fmt: skip


def _type(parameter: Parameter) -> str:
    name = parameter.type
    if name == "Tensor":
        return "Optional<Tensor>" if parameter.is_optional else "std::shared_ptr<Tensor>"
    cpp_type = CPP_TYPES.get(name) or f"std::vector<{CPP_TYPES[name.removesuffix('List')]}>"
    return f"Optional<{cpp_type}>" if parameter.is_optional else cpp_type
