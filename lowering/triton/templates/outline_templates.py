"""`oneflow-outline-templates`: operators with kernels written by hand become calls of the kernels that support them.

    register_template("attention", Template(fits, (TemplateKernel("", ("out", "logsumexp"), emit),)))

Each kernel of a template takes all operands of the call and computes some of its results. An unsupported call is
decomposed as on any other device. If an operand is a view of another tensor, a kernel can read the other tensor; if a
result is only used through a view, a kernel can write the result in the layout of the view.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from oneflow.dialect import dtypes
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import func, ir, tensor
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.record import Call, Registry, distribute
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.linalg.dynamic_sizes import DynamicSizes
from oneflow.lowering.triton.codegen.kernel import Kernel, Tensor, bytes_of
from oneflow.lowering.triton.codegen.views import View, Views
from oneflow.lowering.triton.early_compilation import announce, has_listener
from oneflow.lowering.triton.source import Source
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass

#: The attribute of a kernel function that names its template and describes the call, as JSON.
TEMPLATE = "oneflow.template"
#: Operators that sum their first operand over `axis`.
SUM_OPERATORS = (dialect.PREFIX + "reduce_sum", dialect.PREFIX + "reduce_sum_like")


@dataclass(frozen=True)
class TemplateInstance:
    """A template's kernel for one call: its tensors by the names of operands and results, and the attributes.

    Absent operands are not among the tensors. `unsigned` are the names of operands of unsigned integers, whose types
    are signless here.
    """

    kernel: Kernel
    tensors: Mapping[str, Tensor]
    attributes: Mapping[str, Any]
    unsigned: Sequence[str] = ()


@dataclass(frozen=True)
class TemplateKernel:
    """One kernel of a template: the suffix of its name, the results that it computes, and its emitter."""

    suffix: str
    results: tuple[str, ...]
    emit: Callable[[TemplateInstance], Source]


#: Whether kernels support a view of a tensor, by the view and the bytes of an element.
AcceptsView = Callable[[View, int], bool]


@dataclass(frozen=True)
class PartialSums:
    """Partial sums that a kernel can compute with a result: sums of the result over all dimensions but `kept`.

    Partial sums are f32 of shape (parts, elements of `kept`); `parts` returns the number of parts for a result shape.
    """

    kept: tuple[int, ...]
    parts: Callable[[Sequence[int]], int]


@dataclass(frozen=True)
class Template:
    """The kernels of one operator.

    Attributes:
        fits: whether the kernels support a call, whose operands are `TensorDesc`s.
        kernels: the kernels.
        views: which views of other tensors an operand or result may be, by name; others are contiguous.
        sums: the partial sums of results, by name. If a call has partial sums, the kernel has a tensor `<name>_sums`.
        sizes: the origin of each dimension of a result, as (operand, dimension); without `sizes` all dimensions have
            to be static.
    """

    fits: Callable[[Call], bool]
    kernels: tuple[TemplateKernel, ...]
    views: Mapping[str, AcceptsView] = field(default_factory=dict)
    sums: Mapping[str, PartialSums] = field(default_factory=dict)
    sizes: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)

    def accepts_types(self, types: Sequence[ir.Type]) -> bool:
        """Whether the kernels support tensors of these types."""
        ranked = all(isinstance(t, ir.RankedTensorType) for t in types)
        return ranked and (bool(self.sizes) or all(t.has_static_shape for t in types))

    def accepts_view(self, name: str, view: View, element: ir.Type) -> bool:
        """Whether an operand or result can be a view of a tensor of element type `element`."""
        return name in self.views and self.views[name](view, bytes_of(str(element)))


TEMPLATES: dict[str, Template] = {}
#: The modules that register templates.
MODULES = ("attention", "groupwise_products", "norm_gradients")


def register_template(name: str, template: Template) -> None:
    """Registers the template of the operator `name`.

    Raises:
        ValueError: the operator has a template already.
    """
    if name in TEMPLATES:
        raise ValueError(f"operator {name} has a Triton template already")
    TEMPLATES[name] = template


def templates() -> Mapping[str, Template]:
    """The templates by the names of their operators."""
    for module in MODULES:
        importlib.import_module(f"oneflow.lowering.triton.templates.{module}")
    return TEMPLATES


@register_pass
@dataclass(frozen=True)
class OutlineTemplates(Pass):
    """Replaces operators that have templates by calls of the templates' kernels.

        %0, %1 = "oneflow.attention"(%q, %k, %v)
          ->   %0, %1 = call @oneflow_attention_0(%q, %k, %v, %empty, %empty)

    If the kernel allows, an operand that is a view (transposed, reshaped, a slice) is read from the viewed tensor,
    and a result that is used transposed is computed in the transposed layout:

        %q = "oneflow.transpose"(%x) ; %0 = "oneflow.attention"(%q, ..) ; %y = "oneflow.transpose"(%0)
          ->   %y = call @oneflow_attention_0(%x, .., %empty)

    Some kernels also compute partial sums of a result over its rows, which are gradients of biases.
    """

    name: ClassVar[str] = "oneflow-outline-templates"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Outlines every operation that its template supports."""
        ops: list[ir.Operation] = []
        dialect.walk(module.operation, ops.append)
        views, sizes = Views(registry), DynamicSizes(module)
        for op in ops:
            record = dialect.record_of(op, registry)
            template = templates().get(record.name)
            if template is not None and template.accepts_types([v.type for v in (*op.operands, *op.results)]):
                call = dialect.operand_call(op, record, lambda v: from_mlir(v.type))
                results = [from_mlir(r.type) for r in op.results]
                call.outputs = distribute(record.signature.outputs, results, None)
                if template.fits(call):
                    _Outlining(module, op, call, views, sizes).build()
        views.erase_unused(module)
        sizes.write_sites()
        if has_listener():
            _announce(module)


def _announce(module: ir.Module) -> None:
    """Announces the sources of templates, which no later pass changes; `oneflow-emit-triton` reports failures."""
    for op in module.body.operations:
        if TEMPLATE in op.operation.attributes:
            with contextlib.suppress(Unsupported):
                announce(emit_template(op.operation))


@dataclass(frozen=True)
class _Transposed:
    """A result that the kernel computes in the layout of a view of it.

    Attributes:
        value: the view.
        order: the permutation from the view to the result.
        view: the result as a view of `value`.
    """

    value: ir.Value
    order: list[int]
    view: View


@dataclass
class _Outlining:
    """Replaces one call of an operator by calls of its template's kernels."""

    module: ir.Module
    op: ir.Operation
    call: Call
    views: Views
    sizes: DynamicSizes

    def __post_init__(self) -> None:
        self.template = templates()[self.call.record.name]
        self.names = [n for n, v in self.call.inputs.items() if v is not None]
        self.operand_views: dict[str, View] = {}
        self.operands = list(map(self._operand, self.names, self.op.operands))

    def build(self) -> None:
        """Replaces the operation."""
        results = dict(zip(self.call.outputs, self.op.results, strict=True))
        self.sizes.assert_satisfied(self.op, self.call)
        for kernel in self.template.kernels:
            if any(True for n in kernel.results for _ in results[n].uses):
                self._call_kernel(kernel, results)
        self.op.erase()

    def _operand(self, name: str, value: ir.Value) -> ir.Value:
        """The tensor that a kernel reads for an operand: the source of the longest supported chain of views."""
        for source, view in self.views.sources(value):
            if self.template.accepts_view(name, view, source.type.element_type):
                value, self.operand_views[name] = source, view.normalized
        return value

    def _call_kernel(self, kernel: TemplateKernel, results: Mapping[str, ir.Value]) -> None:
        """Calls one kernel, and replaces the `results` of the operation that the kernel computes."""
        transposed = {n: t for n in kernel.results if (t := self._transposed(n, results[n])) is not None}
        summed = {n: sums for n in kernel.results if (sums := self._sum_operations(n, results[n], transposed.get(n)))}
        views = self.operand_views | {n: t.view for n, t in transposed.items()}
        description = {
            "op": self.call.record.name, "part": kernel.suffix, "attributes": dict(self.call.attrs),
            "operands": self.names, "views": {n: [v.shape, v.strides, v.first] for n, v in views.items()},
            "sums": list(summed),
            "unsigned": [n for n in self.names if self.call.inputs[n].dtype in dtypes.UNSIGNED],
        }  # fmt: skip
        types = [(transposed[n].value if n in transposed else results[n]).type for n in kernel.results]
        types += [self._partial_sums_type(n, results[n].type.shape) for n in summed]
        sizes: list[Sequence[ir.Value]] = [self._dynamic_sizes(n) for n in kernel.results]
        sizes += [() for _ in summed]
        called = iter(call_template(self.module, self.op, self.operands, types, description, sizes))
        for name in kernel.results:
            old, new = results[name], next(called)
            old.replace_all_uses_with(self._restored(old, new, transposed[name]) if name in transposed else new)
        for name in summed:
            self._replace_sums(next(called), summed[name])

    def _dynamic_sizes(self, name: str) -> list[ir.Value]:
        """The dynamic sizes of a result, as values."""
        operands = dict(zip((n for n, v in self.call.inputs.items() if v is not None), self.op.operands, strict=True))
        unknown = [i for i, size in enumerate(self.call.outputs[name].shape) if size is None]
        return [self.sizes.value(self.op, operands[n], i) for n, i in (self.template.sizes[name][u] for u in unknown)]

    def _partial_sums_type(self, name: str, shape: Sequence[int]) -> ir.Type:
        """The type of the partial sums of a result."""
        sums = self.template.sums[name]
        return TensorDesc((sums.parts(shape), math.prod(shape[i] for i in sums.kept)), dtypes.float32).to_mlir()

    def _sum_operations(self, name: str, result: ir.Value, transposed: _Transposed | None) -> list[ir.Operation]:
        """The operations that sum a result over its rows."""
        shape = tuple(result.type.shape)
        value, view = (result, View.contiguous(shape)) if transposed is None else (transposed.value, transposed.view)
        kept = self.template.sums[name].kept if name in self.template.sums else ()
        if not kept or not result.type.has_static_shape or not view.is_leading_row(kept):
            return []
        row = math.prod(shape[i] for i in kept)
        tensors = [(value, View.contiguous(tuple(value.type.shape))), *self.views.uses(value)]
        return [op for v, view_of_value in tensors for op in sums_of(v, view_of_value, row, self.views.registry)]

    def _replace_sums(self, partial: ir.Value, sums: Sequence[ir.Operation]) -> None:
        """Replaces `sums` by the sum of the partial sums."""
        for op in sums:
            ops = IRBuilder(self.views.registry, ir.InsertionPoint(op), op.location)
            old = op.results[0]
            total = ops.cast(ops.reduce_sum(ops.wrap(partial), axis=[0], keepdims=False), dtype=ops.wrap(old).dtype)
            shaped = ops.reshape(total, shape=list(old.type.shape)) if old.type.rank != 1 else total
            old.replace_all_uses_with(shaped.handle)
            self.views.looked_through.add(old)

    def _transposed(self, name: str, result: ir.Value) -> _Transposed | None:
        """The view of a result in whose layout the kernel computes the result; None where there is none."""
        users = {use.owner.operation for use in result.uses}
        if not all(map(dialect.is_oneflow, users)):
            return None
        for value, view in self.views.uses(result):
            order, shape = view.order, tuple(result.type.shape)
            inverse = View.contiguous(view.shape).permuted(order).reshaped(shape)
            permutes = order != list(range(len(order))) and view.covers(math.prod(shape))
            if not permutes or inverse is None:
                continue
            if self.template.accepts_view(name, inverse, result.type.element_type):
                return _Transposed(value, order, inverse.normalized)
        return None

    def _restored(self, old: ir.Value, new: ir.Value, transposed: _Transposed) -> ir.Value:
        """Replaces the view by `new`, and returns the result in its own layout for the other users."""
        transposed.value.replace_all_uses_with(new)
        ops = IRBuilder(self.views.registry, ir.InsertionPoint(self.op), self.op.location)
        result = ops.transpose(ops.wrap(new), perm=transposed.order)
        shaped = result if result.shape == tuple(old.type.shape) else ops.reshape(result, shape=list(old.type.shape))
        self.views.looked_through |= {result.handle, shaped.handle}
        return shaped.handle


def sums_of(value: ir.Value, view: View, row: int, registry: Registry) -> list[ir.Operation]:
    """The operations that sum a tensor over all dimensions but a row of `row` contiguous elements."""
    users = dict.fromkeys(use.owner.operation for use in value.uses)
    sums = []
    for op in (op for op in users if op.name in SUM_OPERATORS and op.operands[0] == value):
        axes = {a % len(view.shape) for a in dialect.read_attributes(op, dialect.record_of(op, registry))["axis"]}
        kept = tuple(i for i in range(len(view.shape)) if axes and i not in axes)
        if view.is_leading_row(kept) and math.prod(view.shape[i] for i in kept) == row:
            sums.append(op)
    return sums


def call_template(
    module: ir.Module,
    op: ir.Operation,
    operands: Sequence[ir.Value],
    types: Sequence[ir.Type],
    description: dict[str, Any],
    sizes: Sequence[Sequence[ir.Value]] = (),
) -> list[ir.Value]:
    """Calls a template's kernel before `op`; returns the results, which have `types`.

    Args:
        module: the module to which the kernel function is added.
        op: the operation that the kernel replaces.
        operands: the kernel's operands.
        types: the types of the results.
        description: the names of the template (`op`), its kernel (`part`) and the `operands`; the `attributes`;
            `views`: the tensors that are views of arguments, by name; `sums`: the results with partial sums;
            `unsigned`: the operands of unsigned integers.
        sizes: the dynamic sizes of each result.
    """
    function = _declare(module, op, operands, types, description)
    with ir.Location.name(op.name, op.location), ir.InsertionPoint(op):
        empties = [_empty(k, s) for k, s in zip(types, sizes or [()] * len(types), strict=True)]
        return list(func.CallOp(list(types), function, [*operands, *empties]).operation.results)


def _empty(kind: ir.Type, sizes: Sequence[ir.Value]) -> ir.Value:
    """An uninitialized tensor with the given dynamic sizes."""
    dynamic = iter(sizes)
    shape = [next(dynamic) if kind.is_dynamic_dim(i) else kind.get_dim_size(i) for i in range(kind.rank)]
    return tensor.EmptyOp(shape, kind.element_type).result


def _declare(
    module: ir.Module,
    op: ir.Operation,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    description: dict[str, Any],
) -> str:
    """The name of a kernel function for a call, which returns its destinations; equal calls share one function."""
    text = json.dumps(description, default=str)
    types = [*(v.type for v in operands), *results]
    signature = ir.FunctionType.get(types, list(results))
    known = [f for f in module.body.operations if TEMPLATE in f.operation.attributes]
    for kernel in known:
        same = ir.StringAttr(kernel.operation.attributes[TEMPLATE]).value == text
        if same and ir.TypeAttr(kernel.operation.attributes["function_type"]).value == signature:
            return str(ir.StringAttr(kernel.operation.attributes["sym_name"]).value)
    name = f"oneflow_{description['op']}_{len(known)}"
    with ir.Location.name(op.name, op.location), ir.InsertionPoint.at_block_begin(module.body):
        function = func.FuncOp(name, (types, list(signature.results)), visibility="private")
        block = function.add_entry_block()
        func.ReturnOp(list(block.arguments)[len(operands) :], ip=ir.InsertionPoint(block))
    function.attributes["oneflow.kernel"] = ir.StringAttr.get("template")
    function.attributes[TEMPLATE] = ir.StringAttr.get(text)
    return name


def emit_template(function: ir.Operation) -> Source:
    """The source of a template's kernel function."""
    description = json.loads(ir.StringAttr(function.attributes[TEMPLATE]).value)
    template_kernel = next(k for k in templates()[description["op"]].kernels if k.suffix == description["part"])
    kernel = Kernel.read(function)
    names = [*description["operands"], *template_kernel.results, *(f"{n}_sums" for n in description.get("sums", []))]
    tensors = dict(zip(names, (kernel.tensors[a] for a in kernel.block.arguments), strict=True))
    for name, (shape, strides, first) in description.get("views", {}).items():
        tensors[name] = Tensor.viewed(tensors[name], View(tuple(shape), tuple(strides), first))
    unsigned = description.get("unsigned", ())
    return template_kernel.emit(TemplateInstance(kernel, tensors, description["attributes"], unsigned))


def is_half(desc: TensorDesc) -> bool:
    """Whether elements are f16 or bf16."""
    return desc.dtype in (dtypes.float16, dtypes.bfloat16)
