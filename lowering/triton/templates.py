"""`oneflow-outline-templates`: operators with kernels written by hand become calls of them, where these fit.

    register_template("attention", Template(fits, (Part("", ("out", "logsumexp"), emit),)))

A template's kernels take all operands of the call and give some of its results each. What does not fit is
decomposed as on any other device. Imports `source`, `kernel` and the pass interface.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from oneflow.dialect import dtypes
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import func, ir, tensor
from oneflow.dialect.record import Call, Registry, distribute
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.lowering.triton.kernel import Kernel, Tensor
from oneflow.lowering.triton.source import Source
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass

#: The attribute of a kernel function that says which template it is, and of which call.
TEMPLATE = "oneflow.template"


@dataclass(frozen=True)
class Filled:
    """A kernel to write: its tensors by the names of operands and results, without absent ones, and attributes."""

    kernel: Kernel
    tensors: Mapping[str, Tensor]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """One kernel of a template: the results it gives, and what writes it."""

    suffix: str
    results: tuple[str, ...]
    emit: Callable[[Filled], Source]


@dataclass(frozen=True)
class Template:
    """Kernels for one operator; `fits` says of a call on `TensorDesc`s whether they take it."""

    fits: Callable[[Call], bool]
    parts: tuple[Part, ...]


TEMPLATES: dict[str, Template] = {}


def register_template(name: str, template: Template) -> None:
    """Makes an operator run by kernels of its own on the GPU.

    Raises:
        ValueError: it has some already.
    """
    if name in TEMPLATES:
        raise ValueError(f"operator {name} has a Triton template already")
    TEMPLATES[name] = template


@register_pass
@dataclass(frozen=True)
class OutlineTemplates(Pass):
    """Replaces operators that have kernels of their own by calls of these.

    %0, %1 = "oneflow.attention"(%q, %k, %v)
      ->   %0, %1 = call @main_attention_0(%q, %k, %v, %empty, %empty)
    """

    name: ClassVar[str] = "oneflow-outline-templates"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Outlines every operation that fits its template."""
        found: list[ir.Operation] = []
        dialect.walk(module.operation, found.append)
        for op in found:
            record = dialect.record_of(op, registry)
            if record.name in TEMPLATES and all(_is_static(v.type) for v in (*op.operands, *op.results)):
                call = dialect.operand_call(op, record, lambda v: from_mlir(v.type))
                results = [from_mlir(r.type) for r in op.results]
                call.outputs = distribute(record.signature.outputs, results, None)
                if TEMPLATES[record.name].fits(call):
                    _outline(module, op, call)


def _is_static(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType) and kind.has_static_shape


def _outline(module: ir.Module, op: ir.Operation, call: Call) -> None:
    names = [n for n, v in call.inputs.items() if v is not None]
    made = dict(zip(call.outputs, op.results, strict=True))
    for part in TEMPLATES[call.record.name].parts:
        wanted = [made[n] for n in part.results]
        if not any(True for r in wanted for _ in r.uses):
            continue
        about = {"op": call.record.name, "part": part.suffix, "attributes": dict(call.attrs), "operands": names}
        called = call_template(module, op, list(op.operands), [r.type for r in wanted], about)
        for old, new in zip(wanted, called, strict=True):
            old.replace_all_uses_with(new)
    op.erase()


def call_template(
    module: ir.Module, op: ir.Operation, operands: Sequence[ir.Value], kinds: Sequence[ir.Type], about: dict[str, Any]
) -> list[ir.Value]:
    """The results, of types `kinds`, of a call before `op` of a template's kernel.

    `about` are the names of the template (`op`), its `part` and the `operands`, and `attributes`.
    """
    function = _declare(module, op, operands, kinds, about)
    with ir.Location.name(op.name, op.location), ir.InsertionPoint(op):
        empties = [tensor.EmptyOp(list(k.shape), k.element_type).result for k in kinds]
        return list(func.CallOp(list(kinds), function, [*operands, *empties]).operation.results)


def _declare(
    module: ir.Module,
    op: ir.Operation,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    about: dict[str, Any],
) -> str:
    """A kernel function that gives its destinations; the template is an attribute. Equal ones are shared."""
    text = json.dumps(about, default=str)
    kinds = [*(v.type for v in operands), *results]
    wanted = ir.FunctionType.get(kinds, list(results))
    known = [f for f in module.body.operations if TEMPLATE in f.operation.attributes]
    for other in known:
        same = ir.StringAttr(other.operation.attributes[TEMPLATE]).value == text
        if same and ir.TypeAttr(other.operation.attributes["function_type"]).value == wanted:
            return str(ir.StringAttr(other.operation.attributes["sym_name"]).value)
    name = f"oneflow_{about['op']}_{len(known)}"
    with ir.Location.name(op.name, op.location), ir.InsertionPoint.at_block_begin(module.body):
        function = func.FuncOp(name, (kinds, list(wanted.results)), visibility="private")
        block = function.add_entry_block()
        func.ReturnOp(list(block.arguments)[len(operands) :], ip=ir.InsertionPoint(block))
    function.attributes["oneflow.kernel"] = ir.StringAttr.get("template")
    function.attributes[TEMPLATE] = ir.StringAttr.get(text)
    return name


def emit_template(function: ir.Operation) -> Source:
    """The source of a kernel that a template writes."""
    about = json.loads(ir.StringAttr(function.attributes[TEMPLATE]).value)
    part = next(p for p in TEMPLATES[about["op"]].parts if p.suffix == about["part"])
    kernel = Kernel.read(function)
    names = [*about["operands"], *part.results]
    tensors = dict(zip(names, (kernel.tensors[a] for a in kernel.block.arguments), strict=True))
    return part.emit(Filled(kernel, tensors, about["attributes"]))


def is_half(desc: TensorDesc) -> bool:
    """Whether elements are f16 or bf16."""
    return desc.dtype in (dtypes.float16, dtypes.bfloat16)
