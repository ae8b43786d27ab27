"""`oneflow-outline-templates`: operators with kernels written by hand become calls of them, where these fit.

    register_template("attention", Template(fits, (Part("", ("out", "logsumexp"), emit),)))

A template's kernels take all operands of the call and give some of its results each. What does not fit is decomposed
as on any other device. Operands that are views of other tensors are read, and results that are only seen by a view
are written, where these lie.
"""

from __future__ import annotations

import contextlib
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
from oneflow.lowering.triton.codegen.kernel import Kernel, Tensor, bytes_of
from oneflow.lowering.triton.codegen.views import View, Views
from oneflow.lowering.triton.early_compilation import announce, has_listener
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.templates.dynamic_sizes import RunSizes
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass

#: The attribute of a kernel function that says which template it is, and of which call.
TEMPLATE = "oneflow.template"
#: Operators that add up their first operand over `axis`.
SUMMING = (dialect.PREFIX + "reduce_sum", dialect.PREFIX + "reduce_sum_like")


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


#: Whether kernels take a view of a tensor whose elements have so many bytes.
Accepts = Callable[[View, int], bool]


@dataclass(frozen=True)
class Sums:
    """What a kernel can give besides a result: its sums over all dimensions but `kept`.

    They are f32, of shape (parts, elements of `kept`); how many parts there are is told by the result's shape.
    """

    kept: tuple[int, ...]
    parts: Callable[[Sequence[int]], int]


@dataclass(frozen=True)
class Template:
    """Kernels for one operator; `fits` says of a call on `TensorDesc`s whether they take it.

    `views` says of operands and results, by name, which views of other tensors they may be; others are contiguous.
    `sums` are those of results, by name; where they are wanted `<name>_sums` is one more tensor of the kernel.
    `sizes` says whose each dimension of a result is, as (operand, dimension): without it all have to be known.
    """

    fits: Callable[[Call], bool]
    parts: tuple[Part, ...]
    views: Mapping[str, Accepts] = field(default_factory=dict)
    sums: Mapping[str, Sums] = field(default_factory=dict)
    sizes: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)

    def takes(self, kinds: Sequence[ir.Type]) -> bool:
        """Whether the kernels take tensors of these types."""
        ranked = all(isinstance(k, ir.RankedTensorType) for k in kinds)
        return ranked and (bool(self.sizes) or all(k.has_static_shape for k in kinds))

    def accepts(self, name: str, view: View, element: ir.Type) -> bool:
        """Whether the kernels take an operand, or give a result, as a view of a tensor of `element`s."""
        return name in self.views and self.views[name](view, bytes_of(str(element)))


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
      ->   %0, %1 = call @oneflow_attention_0(%q, %k, %v, %empty, %empty)

    An operand that is a view of a tensor (transposed, reshaped, a part of it) is that tensor where the kernel can
    read it so, and a result whose elements are wanted in another order is made in that order:

    %q = "oneflow.transpose"(%x) ; %0 = "oneflow.attention"(%q, ..) ; %y = "oneflow.transpose"(%0)
      ->   %y = call @oneflow_attention_0(%x, .., %empty)

    Sums of a result over its rows, which are the gradients of biases, come from its kernel where that can give them.
    """

    name: ClassVar[str] = "oneflow-outline-templates"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Outlines every operation that fits its template."""
        found: list[ir.Operation] = []
        dialect.walk(module.operation, found.append)
        views, sizes = Views(registry), RunSizes(module)
        for op in found:
            record = dialect.record_of(op, registry)
            template = TEMPLATES.get(record.name)
            if template is not None and template.takes([v.type for v in (*op.operands, *op.results)]):
                call = dialect.operand_call(op, record, lambda v: from_mlir(v.type))
                results = [from_mlir(r.type) for r in op.results]
                call.outputs = distribute(record.signature.outputs, results, None)
                if template.fits(call):
                    _Outlined(module, op, call, views, sizes).build()
        views.erase_unused(module)
        sizes.finish()
        if has_listener():
            _announce(module)


def _announce(module: ir.Module) -> None:
    """Says what templates write, which no later pass changes. What they cannot write is told when all is written."""
    for op in module.body.operations:
        if TEMPLATE in op.operation.attributes:
            with contextlib.suppress(Unsupported):
                announce(emit_template(op.operation))


#: A view of a result that is made in its place, how its dimensions lie, and the result as a view of it.
Laid = tuple[ir.Value, list[int], View]


@dataclass
class _Outlined:
    """One call of an operator that becomes calls of its template's kernels."""

    module: ir.Module
    op: ir.Operation
    call: Call
    views: Views
    sizes: RunSizes

    def __post_init__(self) -> None:
        self.template = TEMPLATES[self.call.record.name]
        self.names = [n for n, v in self.call.inputs.items() if v is not None]
        self.seen: dict[str, View] = {}
        self.operands = list(map(self._operand, self.names, self.op.operands))

    def build(self) -> None:
        """Replaces the operation."""
        made = dict(zip(self.call.outputs, self.op.results, strict=True))
        self.sizes.expect(self.op, self.call)
        for part in self.template.parts:
            if any(True for n in part.results for _ in made[n].uses):
                self._part(part, made)
        self.op.erase()

    def _operand(self, name: str, value: ir.Value) -> ir.Value:
        """What a kernel takes for an operand: the farthest tensor that it can read it in."""
        for source, view in self.views.sources(value):
            if self.template.accepts(name, view, source.type.element_type):
                value, self.seen[name] = source, view.normalized
        return value

    def _part(self, part: Part, made: Mapping[str, ir.Value]) -> None:
        laid = {n: found for n in part.results if (found := self._laid(n, made[n])) is not None}
        summed = {n: sums for n in part.results if (sums := self._sums(n, made[n], laid.get(n)))}
        seen = self.seen | {n: view for n, (_, _, view) in laid.items()}
        about = {
            "op": self.call.record.name, "part": part.suffix, "attributes": dict(self.call.attrs),
            "operands": self.names, "views": {n: [v.shape, v.strides, v.first] for n, v in seen.items()},
            "sums": list(summed),
        }  # fmt: skip
        kinds = [(laid[n][0] if n in laid else made[n]).type for n in part.results]
        kinds += [self._partial(n, made[n].type.shape) for n in summed]
        sizes = [self._dimensions(n) for n in part.results] + [() for _ in summed]
        called = iter(call_template(self.module, self.op, self.operands, kinds, about, sizes))
        for name in part.results:
            new = next(called)
            made[name].replace_all_uses_with(self._turned(made[name], new, laid[name]) if name in laid else new)
        for name in summed:
            self._add_up(next(called), summed[name])

    def _dimensions(self, name: str) -> list[ir.Value]:
        """The sizes of a result that only a run tells, as values."""
        given = dict(zip((n for n, v in self.call.inputs.items() if v is not None), self.op.operands, strict=True))
        unknown = [i for i, size in enumerate(self.call.outputs[name].shape) if size is None]
        return [self.sizes.value(self.op, given[n], i) for n, i in (self.template.sizes[name][u] for u in unknown)]

    def _partial(self, name: str, shape: Sequence[int]) -> ir.Type:
        """The type of the sums of a result."""
        sums = self.template.sums[name]
        return TensorDesc((sums.parts(shape), math.prod(shape[i] for i in sums.kept)), dtypes.float32).to_mlir()

    def _sums(self, name: str, result: ir.Value, laid: Laid | None) -> list[ir.Operation]:
        """The operations that add up the rows of a result."""
        shape = tuple(result.type.shape)
        value, view = (result, View.contiguous(shape)) if laid is None else (laid[0], laid[2])
        kept = self.template.sums[name].kept if name in self.template.sums else ()
        if not kept or not result.type.has_static_shape or not view.is_leading_row(kept):
            return []
        row = math.prod(shape[i] for i in kept)
        tensors = [(value, View.contiguous(tuple(value.type.shape))), *self.views.uses(value)]
        return [op for v, seen in tensors for op in sums_of(v, seen, row, self.views.registry)]

    def _add_up(self, partial: ir.Value, sums: Sequence[ir.Operation]) -> None:
        """The sums of parts in place of `sums`."""
        for op in sums:
            ops = IRBuilder(self.views.registry, ir.InsertionPoint(op), op.location)
            old = op.results[0]
            whole = ops.cast(ops.reduce_sum(ops.wrap(partial), axis=[0], keepdims=False), dtype=ops.wrap(old).dtype)
            shaped = ops.reshape(whole, shape=list(old.type.shape)) if old.type.rank != 1 else whole
            old.replace_all_uses_with(shaped.handle)
            self.views.looked_through.add(old)

    def _laid(self, name: str, result: ir.Value) -> Laid | None:
        """The view of a result that is made in its place, where there is one."""
        users = {use.owner.operation for use in result.uses}
        if not all(map(dialect.is_oneflow, users)):
            return None
        for value, view in self.views.uses(result):
            order, shape = view.order, tuple(result.type.shape)
            back = View.contiguous(view.shape).permuted(order).reshaped(shape)
            moves = order != list(range(len(order))) and view.covers(math.prod(shape))
            if moves and back is not None and self.template.accepts(name, back, result.type.element_type):
                return value, order, back.normalized
        return None

    def _turned(self, old: ir.Value, new: ir.Value, laid: Laid) -> ir.Value:
        """A result for those that do not see it by the view that it was made for, which `new` takes the place of."""
        value, order, _ = laid
        value.replace_all_uses_with(new)
        ops = IRBuilder(self.views.registry, ir.InsertionPoint(self.op), self.op.location)
        turned = ops.transpose(ops.wrap(new), perm=order)
        shaped = turned if turned.shape == tuple(old.type.shape) else ops.reshape(turned, shape=list(old.type.shape))
        self.views.looked_through |= {turned.handle, shaped.handle}
        return shaped.handle


def sums_of(value: ir.Value, view: View, row: int, registry: Registry) -> list[ir.Operation]:
    """The sums of a tensor over all but the `row` elements that lie together."""
    users = dict.fromkeys(use.owner.operation for use in value.uses)
    found = []
    for op in (op for op in users if op.name in SUMMING and op.operands[0] == value):
        axes = {a % len(view.shape) for a in dialect.read_attributes(op, dialect.record_of(op, registry))["axis"]}
        kept = tuple(i for i in range(len(view.shape)) if axes and i not in axes)
        if view.is_leading_row(kept) and math.prod(view.shape[i] for i in kept) == row:
            found.append(op)
    return found


def call_template(
    module: ir.Module,
    op: ir.Operation,
    operands: Sequence[ir.Value],
    kinds: Sequence[ir.Type],
    about: dict[str, Any],
    sizes: Sequence[Sequence[ir.Value]] = (),
) -> list[ir.Value]:
    """The results, of types `kinds`, of a call before `op` of a template's kernel; `sizes` are those that types lack.

    `about` are the names of the template (`op`), its `part` and the `operands`, `attributes`, `views`: tensors that
    are views of what is passed, by name, and `sums`: the results whose sums are results too.
    """
    function = _declare(module, op, operands, kinds, about)
    with ir.Location.name(op.name, op.location), ir.InsertionPoint(op):
        empties = [_empty(k, s) for k, s in zip(kinds, sizes or [()] * len(kinds), strict=True)]
        return list(func.CallOp(list(kinds), function, [*operands, *empties]).operation.results)


def _empty(kind: ir.Type, sizes: Sequence[ir.Value]) -> ir.Value:
    """A tensor without values, its unknown sizes given."""
    unknown = iter(sizes)
    shape = [next(unknown) if kind.is_dynamic_dim(i) else kind.get_dim_size(i) for i in range(kind.rank)]
    return tensor.EmptyOp(shape, kind.element_type).result


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
    names = [*about["operands"], *part.results, *(f"{n}_sums" for n in about.get("sums", []))]
    tensors = dict(zip(names, (kernel.tensors[a] for a in kernel.block.arguments), strict=True))
    for name, (shape, strides, first) in about.get("views", {}).items():
        tensors[name] = Tensor.viewed(tensors[name], View(tuple(shape), tuple(strides), first))
    return part.emit(Filled(kernel, tensors, about["attributes"]))


def is_half(desc: TensorDesc) -> bool:
    """Whether elements are f16 or bf16."""
    return desc.dtype in (dtypes.float16, dtypes.bfloat16)
