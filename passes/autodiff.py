"""`oneflow-autodiff`: joint graphs, functions that run the forward and the backward pass of others.

The gradient is ordinary IR: the gradient slots of the operators build the gradient on a copy of the function.
`dialect/reverse.py` visits the operations in reverse order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect import reverse
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Value
from oneflow.dialect.integer_paths import refuse_integers
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.record import OperatorError, Registry, suggestion
from oneflow.dialect.tensor_desc import from_mlir
from oneflow.passes.base import Pass, PassError
from oneflow.passes.inline import RETURN, body_of, functions_of, inline_calls
from oneflow.passes.registry import register_pass
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.structure import operands_of

NAME = "oneflow.name"
#: Operations of other dialects that may be removed when nothing uses them.
REMOVABLE = frozenset({dialect.CAST, "arith.constant", "tensor.dim"})


@register_pass
@dataclass(frozen=True)
class Autodiff(Pass):
    """Adds the function `@<func>_grad`, which computes the gradient of `@<func>`.

        func.func @loss(%x: tensor<3xf32>) -> tensor<f32> {
          %0 = "oneflow.square"(%x) : (tensor<3xf32>) -> tensor<3xf32>
          %1 = "oneflow.reduce_sum"(%0) {axis = array<i32: 0>} : (tensor<3xf32>) -> tensor<f32>
          return %1 : tensor<f32>
        }
    adds @loss_grad(%x: tensor<3xf32>) -> tensor<3xf32>, which computes 2 * %x.

    `func` may be left out where the module has one function. `wrt` are the indices of the arguments to
    differentiate with respect to, all floats by default; there is one result for each, of the argument's type. With
    `value-and-grad` the results of `@<func>` come first. A single float result of one element needs no cotangent.
    With several float results, complex results, results of more elements, or the option `cotangents`, the added
    function takes a cotangent for each such result after the arguments. Calls are inlined first. The added function
    can be differentiated again.
    """

    name: ClassVar[str] = "oneflow-autodiff"
    func: str = ""
    wrt: tuple[str, ...] = ()
    value_and_grad: bool = False
    cotangents: bool = False

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Adds the function.

        Raises:
            PassError: there is no such function or argument, or a path to a result has no gradient.
        """
        functions = functions_of(module)
        source = self._source(module, functions)
        name = f"{source.attributes['sym_name'].value}_grad"
        if name in functions:
            raise PassError(
                f"{self.name}: expected no function @{name}, got one; rename that function",
                functions[name].location,
            )
        body_of(source)
        copy = source.clone(ip=ir.InsertionPoint.after(source)).operation
        try:
            copy.attributes["sym_name"] = ir.StringAttr.get(name)
            if "sym_visibility" in copy.attributes:
                del copy.attributes["sym_visibility"]
            inline_calls(copy, functions)
            _Gradient(copy, registry, self).build()
        except PassError:
            copy.erase()
            raise

    def _source(self, module: ir.Module, functions: dict[str, ir.Operation]) -> ir.Operation:
        if not self.func and len(functions) == 1:
            return next(iter(functions.values()))
        if self.func not in functions:
            known = ", ".join(f"@{name}" for name in functions) or "none"
            advice = suggestion(self.func, functions, "@") or f"; the module has {known}"
            got = repr(self.func) if self.func else "nothing"
            raise PassError(f"{self.name}: expected the option func=NAME to name a function, got {got}{advice}")
        return functions[self.func]


@dataclass
class _Program:
    """The body of a function as entries of reverse mode with their locations.

    `location` is the location of the operation that is being read.
    """

    ops: IRBuilder
    location: ir.Location
    values: dict[ir.Value, Value] = field(default_factory=dict)
    entries: list[reverse.Entry] = field(default_factory=list)
    locations: dict[int, ir.Location] = field(default_factory=dict)

    def add(self, op: ir.Operation, registry: Registry) -> None:
        """Appends an operation to the list."""
        self.location = op.location
        entry = self._entry(op, registry)
        self.entries.append(entry)
        self.locations[id(entry)] = self.location

    def _entry(self, op: ir.Operation, registry: Registry) -> reverse.Entry:
        if op.name.startswith(dialect.PREFIX):
            call = dialect.operand_call(op, dialect.record_of(op, registry), self.value)
            return dialect.bind_results(op, call, [self._define(r) for r in op.results])
        operands = tuple(self.value(v) for v in operands_of(op) if from_mlir(v.type) is not None)
        if op.name == dialect.CAST and operands:
            return reverse.Alias((operands[0],), (self._define(op.results[0], operands[0]),))
        results = [r for r in op.results if from_mlir(r.type) is not None]
        return reverse.OpaqueStep(op.name, operands, tuple(self._define(r) for r in results))

    def value(self, handle: ir.Value) -> Value:
        """The value of a handle; a value that a region reads from outside is defined at its first use."""
        return self.values[handle] if handle in self.values else self._define(handle)

    def _define(self, handle: ir.Value, source: Value | None = None) -> Value:
        desc = dialect.stated_desc(handle)
        if source is not None and source.desc.shape is not None:
            desc = desc.meet(source.desc)
        if desc.shape is None:
            raise PassError(
                f"expected tensors of known rank, got {handle.type}; run oneflow-infer-types first", self.location
            )
        self.values[handle] = Value(self.ops, handle, desc)
        return self.values[handle]


def _is_inexact(value: ir.Value) -> bool:
    desc = from_mlir(value.type)
    return desc is not None and desc.dtype.is_inexact


def _is_loss(result: Value) -> bool:
    """Whether a result is differentiated as it is: a real number."""
    return result.desc.element_count == 1 and not result.dtype.is_complex


def _attributes(function: ir.Operation, name: str, count: int) -> list[ir.Attribute]:
    """The attributes of each argument or result."""
    attributes = function.attributes
    return list(attributes[name]) if name in attributes else [ir.DictAttr.get({})] * count


def _named(source: ir.Attribute, suffix: str) -> ir.DictAttr:
    """The name in `source` with a suffix, if it has one."""
    known = {named.name: named.attr for named in ir.DictAttr(source)}
    named = {NAME: ir.StringAttr.get(f"{known[NAME].value}.{suffix}")} if NAME in known else {}
    return ir.DictAttr.get(named)


def _top_level(function: ir.Operation) -> list[ir.Operation]:
    """The operations of a function, without nested ones; a walk is faster than the block's own list."""
    operations: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "func.func":
            return ir.WalkResult.ADVANCE
        operations.append(op)
        return ir.WalkResult.SKIP

    function.walk(visit, ir.WalkOrder.PRE_ORDER)
    return operations


class _Gradient:
    """Turns a copy of a function into the function of its gradient."""

    def __init__(self, function: ir.Operation, registry: Registry, options: Autodiff) -> None:
        self.function, self.registry, self.options = function, registry, options
        self.block = body_of(function)
        self.ops = IRBuilder(registry)
        assert function.parent is not None
        self.ops.has_placements = notes.PLACEMENTS in function.parent.attributes
        self.program = _Program(self.ops, function.location)
        self.arguments = list(self.block.arguments)
        self.wrt = self._wrt()

    def _wrt(self) -> list[int]:
        """The indices of the arguments to differentiate with respect to."""
        count = len(self.arguments)
        if not self.options.wrt:
            return [i for i, a in enumerate(self.arguments) if _is_inexact(a)]
        for text in self.options.wrt:
            if not text.isdecimal() or int(text) >= count or self.options.wrt.count(text) > 1:
                raise self._error(f"expected wrt to be distinct argument indices below {count}, got {text!r}")
        indices = [int(text) for text in self.options.wrt]
        for index in indices:
            kind = self.arguments[index].type
            if not _is_inexact(self.arguments[index]):
                raise self._error(
                    "expected wrt to be arguments that are tensors of floats or complex numbers,"
                    f" got argument {index} of type {kind}"
                )
        return indices

    def build(self) -> None:
        """Builds the gradient before the return and returns it."""
        last = self._read()
        floats = {i: self.program.value(v) for i, v in enumerate(last.operands) if _is_inexact(v)}
        if not floats:
            raise self._error("expected a result that is a tensor of floats or complex numbers")
        self.ops.ip, self.ops.loc = ir.InsertionPoint(last), last.location
        implicit = not self.options.cotangents and list(map(_is_loss, floats.values())) == [True]
        seeds = [(v, reverse.one_of(self.ops, v.desc) if implicit else self._argument(v)) for v in floats.values()]
        inputs = [self.program.value(self.arguments[n]) for n in self.wrt]
        grads = self._pull_back(seeds, inputs)
        self.ops.loc = last.location
        values = [reverse.zeros_like(self.ops, v) if g is None else g for v, g in zip(inputs, grads, strict=True)]
        self._name(len(last.operands), [] if implicit else list(floats))
        self._return(last, [v.handle for v in values])
        self._remove_unused()

    def _read(self) -> ir.Operation:
        """Reads the body into entries; its return."""
        *body, last = _top_level(self.function)
        for op in body:
            self.program.add(op, self.registry)
        return last

    def _argument(self, result: Value) -> Value:
        """A further argument: the cotangent of a result."""
        handle = self.block.add_argument(result.desc.to_mlir(), self.ops.loc)
        return Value(self.ops, handle, result.desc)

    def _pull_back(self, seeds: reverse.Seeds, inputs: Sequence[Value]) -> list[Value | None]:
        location = self.function.location

        def before(entry: reverse.Entry) -> None:
            nonlocal location
            location = self.ops.loc = self.program.locations[id(entry)]

        try:
            grads = reverse.pull_back(self.ops, self.program.entries, seeds, inputs, before)
            refuse_integers(self.program.entries, seeds, inputs, grads)
            return grads
        except reverse.NotDifferentiable as error:
            raise PassError(str(error), self.program.locations[id(error.entry)]) from None
        except OperatorError as error:
            raise PassError(str(error), location) from None

    def _name(self, results: int, cotangents: Sequence[int]) -> None:
        """Names the added values: `x.grad` after the argument x, `y.cotangent` after the result y."""
        arguments = _attributes(self.function, "arg_attrs", len(self.arguments))
        attributes = _attributes(self.function, "res_attrs", results)
        kept = attributes if self.options.value_and_grad else []
        added = {
            "arg_attrs": [*arguments, *(_named(attributes[n], "cotangent") for n in cotangents)],
            "res_attrs": [*kept, *(_named(arguments[n], "grad") for n in self.wrt)],
        }
        for name, dictionaries in added.items():
            self.function.attributes[name] = ir.ArrayAttr.get(dictionaries)

    def _return(self, last: ir.Operation, grads: Sequence[ir.Value]) -> None:
        kept = list(last.operands) if self.options.value_and_grad else []
        returned = [*kept, *grads]
        ir.Operation.create(RETURN, operands=returned, ip=self.ops.ip, loc=last.location)
        last.erase()
        inputs = [a.type for a in self.block.arguments]
        kind = ir.FunctionType.get(inputs, [v.type for v in returned])
        self.function.attributes["function_type"] = ir.TypeAttr.get(kind)

    def _remove_unused(self) -> None:
        """Dead code elimination; removes forward operations too if only the gradient is returned."""
        for op in reversed(_top_level(self.function)):
            removable = op.name in REMOVABLE or (dialect.is_oneflow(op) and dialect.record_of(op, self.registry).pure)
            if removable and all(next(iter(r.uses), None) is None for r in op.results):
                op.erase()

    def _error(self, text: str) -> PassError:
        return PassError(f"{self.options.name}: {text}", self.function.location)
