"""Operators declared in ODS (`.td`): reading `OneFlow_BaseOp` definitions, and C++ generated from these.

def OneFlow_LeakyReluOp : OneFlow_BaseOp<"leaky_relu", [NoMemoryEffect]> {
  let input = (ins OneFlow_Tensor:$x);
  let output = (outs OneFlow_Tensor:$y);
  let attrs = (ins DefaultValuedAttr<F32Attr, "0.1">:$alpha);
  let has_logical_tensor_desc_infer_fn = 1;
}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect.record import suggestion
from oneflow.tools.ods_parser import OdsError, Term
from oneflow.tools.ods_records import BASE_OP, Record, read_records


@dataclass(frozen=True)
class AttrType:
    """A type of attribute: its C++ type ("" if the SDK has none), and its attribute kind."""

    cpp: str
    kind: str


_INT32S, _INT64S = AttrType("std::vector<int32_t>", "list_int32"), AttrType("std::vector<int64_t>", "list_int64")
#: Types of attributes by their ODS names.
ATTR_TYPES = {
    "I32Attr": AttrType("int32_t", "int32"), "SI32Attr": AttrType("int32_t", "int32"),
    "I64Attr": AttrType("int64_t", "int64"), "SI64Attr": AttrType("int64_t", "int64"),
    "BoolAttr": AttrType("bool", "bool"), "StrAttr": AttrType("std::string", "string"),
    "F32Attr": AttrType("float", "float"), "F64Attr": AttrType("double", "double"),
    "ShapeAttr": AttrType("Shape", "shape"), "OneFlow_DataType": AttrType("DataType", "data_type"),
    "I32ArrayAttr": _INT32S, "SI32ArrayAttr": _INT32S, "I64ArrayAttr": _INT64S, "SI64ArrayAttr": _INT64S,
    "F32ArrayAttr": AttrType("std::vector<float>", "list_float"),
    "DTArrayAttr": AttrType("std::vector<DataType>", "list_data_type"),
    "ShapeArrayAttr": AttrType("std::vector<Shape>", "list_shape"),
    "StrArrayAttr": AttrType("std::vector<std::string>", "list_string"),
    "ComplexDoubleAttr": AttrType("", "list_double"), "BytesAttr": AttrType("", "string"),
    "FlatSymbolRefAttr": AttrType("", "string"), "OneFlow_MemoryFormat": AttrType("", "int32"),
}  # fmt: skip
#: Types of operands and results, in addition to definitions of `TensorOf`.
TENSORS = frozenset(["OneFlow_Tensor", "AnyType"])
#: The operand by which OneFlow orders operators without operands; it is not needed here.
TICK = "UserSourceOpTickInput"
#: Registrations by trait; other traits do not concern the framework.
TRAITS = {"NoGrad": "NoGrad", "CpuOnly": "SupportCpuOnly", "SupportNonContiguous": "SupportNonContiguous"}
SILENT_TRAITS = frozenset(
    """NoMemoryEffect NoSideEffect Pure Commutative Idempotent Involution SameOperandsAndResultType
    AttrSizedOperandSegments AttrSizedResultSegments DeclareOpInterfaceMethods UserOpCompatibleInterface
    CallOpInterface""".split()
)
#: The trait of operations that represent parts of OneFlow jobs, such as variables; these are not operators.
IMPORTED = "OneFlow_IsImportCompatible"
_INFER, _CONF = "user_op::InferContext *ctx", "const user_op::UserOpConfWrapper &conf"
#: The function that each bit requires: its name, its parameters, and the registration that receives it.
FUNCTIONS = {
    "has_logical_tensor_desc_infer_fn": ("InferLogicalTensorDesc", _INFER, "SetLogicalTensorDescInferFn"),
    "has_physical_tensor_desc_infer_fn": ("InferPhysicalTensorDesc", _INFER, "SetPhysicalTensorDescInferFn"),
    "has_data_type_infer_fn": ("InferDataType", _INFER, "SetDataTypeInferFn"),
    "has_get_sbp_fn": ("GetSbp", "user_op::SbpContext *ctx", "SetGetSbpFn"),
    "has_get_nd_sbp_fn": (
        "GetNdSbpSignatureList", "user_op::GetNdSbpSignatureListContext *ctx", "SetGetNdSbpSignatureListFn",
    ),
    "has_sbp_signature_infer_fn": (
        "InferSbpSignature", "user_op::InferSbpSignatureFnContext *ctx", "SetSbpSignatureInferFn",
    ),
    "has_enumerate_nd_sbp_signatures_fn": (
        "EnumerateNdSbpSignatures", "user_op::GetNdSbpSignatureListContext *ctx", "SetEnumerateNdSbpSignaturesFn",
    ),
    "has_nd_sbp_infer_fn": ("InferNdSbp", "user_op::InferNdSbpFnContext *ctx", "SetNdSbpInferFn"),
    "has_compute_complexity_fn": (
        "GetComputeComplexity", "user_op::ComputeComplexityFnContext *ctx", "SetComputeComplexityFn",
    ),
    "has_check_fn": ("CheckAttr", f"const user_op::UserOpDefWrapper &def, {_CONF}", "SetCheckAttrFn"),
    "has_input_arg_modify_fn": (
        "ModifyInputArg", f"const user_op::GetInputArgModifier &modifier, {_CONF}", "SetInputArgModifyFn",
    ),
    "has_output_arg_modify_fn": (
        "ModifyOutputArg", f"const user_op::GetOutputArgModifier &modifier, {_CONF}", "SetOutputArgModifyFn",
    ),
}  # fmt: skip
#: Ignored fields: documentation, MLIR's own hooks, how many buffers a result has, and operands and
#: attributes that every operation of OneFlow's compiler has.
IGNORED = frozenset(
    """summary description hasCanonicalizer hasCanonicalizeMethod hasFolder hasVerifier assemblyFormat
    hasCustomAssemblyFormat builders extraClassDeclaration extraClassDefinition arguments results
    same_output_regst_num trait_attrs user_op_attrs op_conf_attrs ctrl_input ctrl_output""".split()
)
#: Bits whose functions are not supported, and the remedy.
REFUSED = {
    "has_dump_nd_sbp_signature_for_op_conf_fn": "programs carry their signatures as attributes; remove it",
    "has_set_tensor_desc_infer_fn": "set has_logical_tensor_desc_infer_fn and has_physical_tensor_desc_infer_fn",
    "has_output_blob_time_shape_infer_fn": "tensors are not repeated in time; remove it",
    "has_device_and_stream_infer_fn": "kernels run where their program does; remove it, and use HobDeviceType",
}


@dataclass(frozen=True)
class OdsArg:
    """An operand or result; `kind` is "", "Optional" or "Variadic"."""

    name: str
    kind: str


@dataclass(frozen=True)
class OdsAttr:
    """An attribute: the ODS name of its type, and its default as C++ text or None."""

    name: str
    ods_type: str
    default: str | None

    @property
    def type(self) -> str:
        """The C++ type."""
        return ATTR_TYPES[self.ods_type].cpp


@dataclass(frozen=True)
class OdsOp:
    """An operator of a `.td` file."""

    name: str
    class_name: str
    where: str
    traits: tuple[str, ...]
    inputs: tuple[OdsArg, ...]
    outputs: tuple[OdsArg, ...]
    attrs: tuple[OdsAttr, ...]
    functions: tuple[str, ...]
    refused: tuple[str, ...] = ()


def read_ods(text: str, file: str) -> list[OdsOp]:
    """The operators of a `.td` file and of its includes.

    Raises:
        OdsError: the file is not well formed, or uses unknown features; the message names file and line.
    """
    records, included = read_records(text, file)
    tensors = TENSORS | {r.name for r in [*included, *records] if "TensorOf" in r.bases}
    traits = {r.name for r in [*included, *records] if r.bases.keys() & {"NativeOpTrait", "OpInterface"}}
    seen: dict[str, OdsOp] = {}
    for record in records:
        if BASE_OP not in record.bases or IMPORTED in map(str, record.bases["Op"][2]):
            continue
        op = _operator(record, tensors, traits)
        if op.name in seen:
            raise OdsError(f"{op.where}: operator {op.name} is defined already at {seen[op.name].where}")
        seen[op.name] = op
    return list(seen.values())


def _operator(record: Record, tensors: Iterable[str], known_traits: Iterable[str]) -> OdsOp:
    where, fields = record.where, record.fields
    known = {"input", "output", "attrs", *FUNCTIONS, *REFUSED, *IGNORED, *record.declared}
    for field in fields:
        if field not in known:
            raise OdsError(f"{where}: {record.name} has the unknown field {field}{suggestion(field, known)}")
    _, name, listed = record.bases["Op"]
    traits = tuple(t.name for t in listed)
    known = {*TRAITS, *SILENT_TRAITS, *known_traits}
    for trait in traits:
        if trait not in known and "::" not in trait:
            raise OdsError(f"{where}: unknown trait {trait}{suggestion(trait, known)}")
    return OdsOp(
        name,
        record.name.removeprefix("OneFlow_"),
        where,
        traits,
        tuple(_arg(t, n, where, tensors) for t, n in record.dag("input", "ins") if n != TICK),
        tuple(_arg(t, n, where, tensors) for t, n in record.dag("output", "outs")),
        tuple(_attr(t, n, where) for t, n in record.dag("attrs", "ins")),
        tuple(f for f in FUNCTIONS if fields.get(f) == 1),
        tuple(f for f in REFUSED if fields.get(f) == 1),
    )


def _arg(term: Any, name: str, where: str, tensors: Iterable[str]) -> OdsArg:
    kind, inner = "", term
    if isinstance(term, Term) and term.name in ("Optional", "Variadic") and term.args:
        kind, inner = term.name, term.args[0]
    if not isinstance(inner, Term) or inner.name not in tensors:
        raise OdsError(
            f"{where}: expected ${name} to be OneFlow_Tensor, Optional<..> or Variadic<..> of it, got {term}"
        )
    return OdsArg(name, kind)


def _attr(term: Term, name: str, where: str) -> OdsAttr:
    inner, default = term, None
    if term.name == "DefaultValuedAttr" and len(term.args) == 2 and isinstance(term.args[0], Term):
        inner, default = term.args[0], str(term.args[1])
    if inner.name not in ATTR_TYPES:
        advice = suggestion(inner.name, ATTR_TYPES)
        raise OdsError(f"{where}: ${name} has the unknown attribute type {inner.name}{advice}")
    return OdsAttr(name, inner.name, default)


def _check_writable(ops: Iterable[OdsOp]) -> None:
    """Refuses operators that the SDK cannot express in C++.

    Raises:
        OdsError: an operator has a function or an attribute of that kind.
    """
    for op in ops:
        for bit in op.refused:
            raise OdsError(f"{op.where}: {op.name}: {bit} is not supported in C++: {REFUSED[bit]}")
        for attr in op.attrs:
            if not attr.type:
                raise OdsError(f"{op.where}: {op.name}: ${attr.name}: {attr.ods_type} is not supported in C++")


def schema_text(ops: Sequence[OdsOp], file: str) -> str:
    """The C++ header of the classes whose static functions the user implements.

    Raises:
        OdsError: the SDK has no C++ for an operator.
    """
    _check_writable(ops)
    lines = [f"// Generated from {file} by oneflow-translate --gen-op-schema.", "#pragma once"]
    lines += ['#include "oneflow/core/framework/framework.h"', "", "namespace oneflow {", ""]
    lines += ["using user_op::GetInputArgModifier;", "using user_op::GetOutputArgModifier;", ""]
    for op in ops:
        lines += [f"/// {op.name}", f"class {op.class_name} {{", " public:"]
        for function in op.functions:
            name, parameters, _ = FUNCTIONS[function]
            result = "double" if function == "has_compute_complexity_fn" else "void"
            lines.append(f"  static Maybe<{result}> {name}({parameters});")
        lines += ["};", ""]
    return "\n".join([*lines, "}  // namespace oneflow", ""])


def registration_text(ops: Sequence[OdsOp], file: str, header: str) -> str:
    """The C++ source that registers the operators with the functions of the classes in `header`.

    Raises:
        OdsError: the SDK has no C++ for an operator.
    """
    _check_writable(ops)
    lines = [f"// Generated from {file} by oneflow-translate --import-ods.", f'#include "{header}"']
    lines += ["", "namespace oneflow {", ""]
    for op in ops:
        calls = "".join(f"\n    {call}" for call in _calls(op))
        lines += [f'REGISTER_USER_OP("{op.name}"){calls};', ""]
    return "\n".join([*lines, "}  // namespace oneflow", ""])


def _calls(op: OdsOp) -> Iterator[str]:
    for what, args in (("Input", op.inputs), ("Output", op.outputs)):
        for arg in args:
            call = {"": what, "Optional": f"Optional{what}", "Variadic": f"{what}WithMinimum"}[arg.kind]
            yield f'.{call}("{arg.name}"{", 0" if arg.kind == "Variadic" else ""})'
    for attr in op.attrs:
        yield f'.Attr<{attr.type}>("{attr.name}"{"" if attr.default is None else ", " + _value(attr)})'
    for trait in op.traits:
        if trait in TRAITS:
            yield f".{TRAITS[trait]}()"
    for function in op.functions:
        name, _, register = FUNCTIONS[function]
        yield f".{register}(&{op.class_name}::{name})"


def _value(attr: OdsAttr) -> str:
    text = (attr.default or "").strip()
    return f"{attr.type}()" if text in ("", "{}") else f"{attr.type}({text})"
