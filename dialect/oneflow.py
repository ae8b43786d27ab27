"""The `oneflow` and `sbp` dialects, made from the registry: loading, parsing, verifying, normal form.

Each record becomes an operation of IRDL. MLIR's verifier then checks counts of operands; everything
else is checked by `verify`, one walk over a module that costs little and runs after reading and after every
pass. MLIR requires one type for all tensors of a variadic operand, so a list of different shapes is cast to
the common type (`tensor.cast` to `tensor<?x3xf32>`), and descriptions look through the cast.
"""

from __future__ import annotations

import functools
import types as python_types
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ext, has_no_module, ir, irdl
from oneflow.dialect.attributes import FUNCTION
from oneflow.dialect.body import CAST as RETYPED
from oneflow.dialect.body import CONSTANT, Body, BodyStep, BodySteps, ValueId, not_an_operator
from oneflow.dialect.locks import Lock
from oneflow.dialect.record import (
    REGISTRY,
    Call,
    Operator,
    OperatorError,
    Registry,
    attribute_values,
    distribute,
    infer,
)
from oneflow.dialect.signature import MAX_MIXED_OPERANDS, ArgDef
from oneflow.dialect.tensor_desc import TensorDesc, expected_type, from_mlir

PREFIX = "oneflow."
OPERAND_SEGMENTS = ("operandSegmentSizes", "operand_segment_sizes")
RESULT_SEGMENTS = ("resultSegmentSizes", "result_segment_sizes")
CAST = RETYPED
#: OneFlow's bookkeeping: carried along, never needed.
BOOKKEEPING = frozenset(
    """op_name device_tag device_name device_type device_id pin_memory hierarchy scope_symbol_id output_lbns
    op_type_name nd_sbp parallel sbp_signature tuning_cache""".split()
)


def create_context(registry: Registry = REGISTRY, operators: Iterable[str] | None = None) -> ir.Context:
    """A context that knows operators of the registry: the named operators, or all operators that are registered now.

    Readers and builders declare the other operators at their first use (`declare`).
    """
    context = ir.Context()
    has_no_module("oneflow")
    with _loading.held(), context, ir.Location.unknown():
        sbp = _sbp_dialect()
        sbp.load()
        sbp._mlir_module = None  # the module holds the context, so that neither would ever be freed
    declare(context, list(registry) if operators is None else [registry[name] for name in operators])
    return context


def declare(context: ir.Context, records: Iterable[Operator]) -> None:
    """Declares the operations of records in a context, once, also where a record occurs repeatedly."""
    named = {record.name: record for record in records}
    new = [record for name, record in named.items() if not context.is_registered_operation(PREFIX + name)]
    if not new:
        return
    with context, ir.Location.unknown():
        irdl.load_dialects(ir.Module.parse(f"irdl.dialect @oneflow {{ {' '.join(map(_definition, new))} }}"))
        for record in new:
            if record.pure:
                ext.Pure.attach(PREFIX + record.name)


_owners: weakref.WeakKeyDictionary[ir.Context, Lock] = weakref.WeakKeyDictionary()


@contextmanager
def exclusive(context: ir.Context) -> Iterator[None]:
    """A context manager in which one thread works in `context`, and other threads wait at theirs.

    Builders and passes declare operators at their first use. MLIR changes tables of the context then, which no other
    thread may read: a program that several threads lower is lowered within this context manager.
    """
    with _loading.held():
        owner = _owners.setdefault(context, Lock(reentrant=True))
    with owner.held():
        yield


def _definition(record: Operator) -> str:
    """The operation of a record as IRDL."""
    groups = {"operands": _slots(record.signature.inputs), "results": _slots(record.signature.outputs)}
    names = iter([f"%{i}" for i in range(sum(map(len, groups.values())))])
    lines = []
    for kind, args in groups.items():
        values = [next(names) for _ in args]
        parts = [f"{a.name.lstrip('_')}: {_count(a)} {value}" for a, value in zip(args, values, strict=True)]
        lines += [f"{value} = irdl.any" for value in values] + ([f"irdl.{kind}({', '.join(parts)})"] if parts else [])
    return f"irdl.operation @{record.name} {{ {' '.join(lines)} }}"


def _slots(args: Sequence[ArgDef]) -> list[ArgDef]:
    """Operands or results in IRDL: mixed operands, each of its own type, are numbered optional operands."""
    return [
        ArgDef(f"{a.name}_{i}", 0, 1) if a.mixed else a
        for a in args
        for i in range(MAX_MIXED_OPERANDS if a.mixed else 1)
    ]


def segment_sizes(args: Sequence[ArgDef], counts: Sequence[int]) -> list[int]:
    """The segment sizes of an operation whose names have these numbers of operands or results."""
    pairs = zip(args, counts, strict=True)
    return [
        n for a, count in pairs for n in ([1] * count + [0] * (MAX_MIXED_OPERANDS - count) if a.mixed else [count])
    ]


def _count(arg: ArgDef) -> str:
    """IRDL's word for the number of values that an operand or result has."""
    return "" if arg.is_single else "optional" if arg.is_optional else "variadic"


def _annotated_class(name: str, base: Any, options: dict[str, Any], fields: dict[str, Any]) -> None:
    """Makes a subclass with annotated fields, which `ext` reads and keeps."""

    def annotate(namespace: dict[str, Any]) -> None:
        namespace["__annotations__"] = fields

    python_types.new_class(name, (base,), options, annotate)


_loading = Lock()


@functools.cache
def _sbp_dialect() -> Any:
    dialect: Any = python_types.new_class("SbpDialect", (ext.Dialect,), {"name": "sbp"})
    fields_of = {"split": {"axis": ir.IntegerAttr}, "broadcast": {}, "partial_sum": {}, "partial_max": {}}
    for name, fields in fields_of.items():
        _annotated_class(name.title(), dialect.Attribute, {"name": name}, dict(fields))
    return dialect


def is_oneflow(op: ir.Operation) -> bool:
    """Whether this is an operation of the dialect."""
    return bool(op.name.startswith(PREFIX))


def record_of(op: ir.Operation, registry: Registry = REGISTRY) -> Operator:
    """The record of an operation of the dialect."""
    return registry[op.name[len(PREFIX) :]]


def walk(root: ir.Operation, visit: Callable[[ir.Operation], None]) -> None:
    """Calls `visit` on every operation of the dialect below `root`, in program order."""

    def callback(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith(PREFIX):
            visit(op)
        return ir.WalkResult.ADVANCE

    root.walk(callback)


def segments(attributes: ir.OpAttributeMap, names: Sequence[str], args: Sequence[ArgDef] = ()) -> list[int] | None:
    """The segment sizes under one of `names`, one for each of `args`, or None."""
    for name in names:
        if name in attributes:
            return _joined_segments([int(getattr(s, "value", s)) for s in attributes[name]], args)
    return None


def _joined_segments(sizes: list[int], args: Sequence[ArgDef]) -> list[int]:
    """Segment sizes with one for all slots of a mixed operand, as `segment_sizes` writes them."""
    if not any(a.mixed for a in args) or len(sizes) != len(_slots(args)):
        return sizes
    rest = iter(sizes)
    return [sum(next(rest) for _ in range(MAX_MIXED_OPERANDS if a.mixed else 1)) for a in args]


def operand_call(op: ir.Operation, record: Operator, convert: Callable[[ir.Value], Any]) -> Call:
    """The call an operation makes, its operands through `convert`.

    Raises:
        OperatorError: operands, results or attributes do not fit the signature.
    """
    attributes, args = op.attributes, record.signature.inputs
    try:
        operands = [convert(v) for v in op.operands]
        inputs = distribute(args, operands, segments(attributes, OPERAND_SEGMENTS, args))
    except ValueError as error:
        raise OperatorError(f"{op.name}: operands: {error}") from None
    return Call(record, inputs, read_attributes(op, record))


def bind_results(op: ir.Operation, call: Call, values: Sequence[Any]) -> Call:
    """`call` with results under their names.

    Raises:
        OperatorError: the number of results does not fit the signature.
    """
    try:
        sizes = segments(op.attributes, RESULT_SEGMENTS, call.record.signature.outputs)
        call.outputs = distribute(call.record.signature.outputs, list(values), sizes)
    except ValueError as error:
        raise OperatorError(f"{op.name}: results: {error}") from None
    return call


def read_attributes(op: ir.Operation, record: Operator) -> dict[str, Any]:
    """The Python values of an operation's attributes, defaults filled in.

    Raises:
        OperatorError: an attribute is unknown, missing or of the wrong kind.
    """
    known = record.signature.attr_by_name
    values: dict[str, Any] = {}
    attributes = op.attributes
    for name in attributes:
        if name in known:
            try:
                read = known[name].kind.read(attributes[name])
                values[name] = read_body(op, read) if known[name].kind is FUNCTION else read
            except ValueError as error:
                raise OperatorError(f"{op.name}: attribute {name}: {error}") from None
        elif name not in BOOKKEEPING and name not in (*OPERAND_SEGMENTS, *RESULT_SEGMENTS) and "." not in name:
            values[name] = attributes[name]  # an error of the attribute, as for calls
    return attribute_values(record, values)


def read_body(op: ir.Operation, symbol: str) -> Body:
    """The body that an operation names.

    Raises:
        ValueError: its module has no such function of tensors.
    """
    function = _function(op, symbol)
    if function is None:
        raise ValueError(f"expected a function of the module, got @{symbol}")
    kind = function.attributes["function_type"].value
    descs = [from_mlir(t) for t in (*kind.inputs, *kind.results)]
    unknown = next((t for t, d in zip((*kind.inputs, *kind.results), descs, strict=True) if d is None), None)
    if unknown is not None or len(function.regions[0].blocks) != 1:
        got = "several blocks or none" if unknown is None else unknown
        raise ValueError(f"expected @{symbol} to be a function of tensors of one block, got {got}")
    count = len(kind.inputs)
    inputs, outputs = ([d for d in part if d is not None] for part in (descs[:count], descs[count:]))
    return Body(inputs, outputs, lambda: _read_steps(function, symbol), symbol, module_of(op))


def named_functions(op: ir.Operation) -> dict[str, str]:
    """The functions that an operator names as its bodies, by attribute. Operators with bodies have results in
    segments.
    """
    attributes = op.attributes
    if RESULT_SEGMENTS[0] not in attributes:
        return {}
    return {name: a.value for name, a in attributes.items() if isinstance(a, ir.FlatSymbolRefAttr)}


def module_of(op: ir.Operation) -> ir.Operation | None:
    """The module around an operation."""
    return _ancestor(op, "builtin.module")


def _ancestor(op: ir.Operation, name: str) -> ir.Operation | None:
    """The innermost operation called `name` around an operation."""
    ancestor = op.parent
    while ancestor is not None and ancestor.operation.name != name:
        ancestor = ancestor.operation.parent
    return None if ancestor is None else ancestor.operation


def _function(op: ir.Operation, symbol: str) -> ir.Operation | None:
    module = module_of(op)
    functions = [o.operation for o in module.regions[0].blocks[0].operations] if module is not None else []
    named = (f for f in functions if f.name == "func.func")
    return next((f for f in named if ir.StringAttr(f.attributes["sym_name"]).value == symbol), None)


def _read_steps(function: ir.Operation, symbol: str) -> BodySteps:
    """The steps of a function that is a body."""
    block = function.regions[0].blocks[0]
    ids = {argument: -1 - i for i, argument in enumerate(block.arguments)}
    *operations, last = [o.operation for o in block.operations]
    steps, count = [], 0
    for op in operations:
        steps.append(_read_step(op, ids, symbol))
        ids.update((result, count + i) for i, result in enumerate(op.results))
        count += len(op.results)
    return BodySteps(tuple(steps), tuple(ids[v] for v in last.operands))


def _read_step(op: ir.Operation, ids: dict[ir.Value, ValueId], symbol: str) -> BodyStep:
    descs = tuple(stated_desc(r) for r in op.results)
    location = op.location
    is_file = isinstance(location, ir.FileLineColLoc)
    where = (location.filename, location.start_line, location.start_col) if is_file else None
    if op.name == CAST:
        return BodyStep(CAST, (ids[op.operands[0]],), {}, descs, where)
    if op.name == CONSTANT and isinstance(op.attributes["value"], ir.DenseElementsAttr):
        return BodyStep(CONSTANT, (), {"value": _read_constant(op, descs[0])}, descs, where)
    if not is_oneflow(op):
        raise not_an_operator(f"@{symbol}", op.name)
    call = operand_call(op, record_of(op), ids.__getitem__)
    return BodyStep(call.record.name, tuple(call.inputs.values()), call.attrs, descs, where)


def _read_constant(op: ir.Operation, desc: TensorDesc) -> np.ndarray:
    """The array of an `arith.constant`."""
    attribute = op.attributes["value"]
    if attribute.is_splat:
        return np.full(desc.static_shape, attribute.get_splat_value().value, desc.dtype.numpy)
    if desc.dtype in (dtypes.bfloat16, *dtypes.FLOAT8):
        raise OperatorError(f"{op.name}: expected an array of {desc.dtype.mlir} in a body to have one value")
    return np.array(attribute).astype(desc.dtype.numpy).reshape(desc.static_shape)


def stated_desc(value: ir.Value) -> TensorDesc:
    """The description of a value's type.

    Raises:
        OperatorError: the value is not a tensor of a type that OneFlow has.
    """
    desc = from_mlir(value.type)
    if desc is None:
        raise OperatorError(f"{expected_type(value.type)}, got {value.type}")
    return desc


def desc_of(value: ir.Value) -> TensorDesc:
    """The description of a value: of its type, or of the source of its cast.

    Raises:
        OperatorError: the value is not a tensor of a type that OneFlow has.
    """
    desc = stated_desc(value)
    if desc.is_static or isinstance(value.owner, ir.Block) or value.owner.name != CAST:
        return desc
    return desc_before_cast(desc, value.owner.operands[0])


def desc_before_cast(desc: TensorDesc, source: ir.Value) -> TensorDesc:
    """The description of a value of type `desc` that was cast from `source`, with the sizes that the source has."""
    known = from_mlir(source.type)
    return desc.meet(known) if known is not None and known.compatible(desc) else desc


class Inference:
    """Infers results by the operators' rules; equal calls are computed once.

    `casts` are the operands of the casts met so far, by their results: the owner of a value is slow to query.
    """

    def __init__(self, registry: Registry = REGISTRY) -> None:
        self.registry = registry
        self.casts: dict[ir.Value, ir.Value] = {}
        self._by_types: dict[Any, tuple[TensorDesc, ...] | None] = {}
        self._by_descs: dict[Any, tuple[TensorDesc, ...] | None] = {}

    def results(self, op: ir.Operation) -> tuple[TensorDesc, ...] | None:
        """The result descriptions; None while an operand is unranked, and of operators that are only declared.

        Raises:
            OperatorError: the operator does not allow this call.
        """
        attributes = tuple(op.attributes.items()) if len(op.attributes) else ()
        by_types = (op.name, tuple([v.type for v in op.operands]), attributes)
        if any(isinstance(a, ir.FlatSymbolRefAttr) for _, a in attributes):
            # The types of a function may change while its symbol stays.
            inferred = self._compute(op, tuple([self.desc_of(v) for v in op.operands]))
        elif by_types in self._by_types and not (self.casts and any(v in self.casts for v in op.operands)):
            inferred = self._by_types[by_types]
        else:
            inferred = self._described(op, by_types, attributes)
        if inferred is not None and len(inferred) != len(op.results):
            record, count = record_of(op, self.registry), len(op.results)
            outputs = record.signature.outputs
            names = f" ({', '.join(map(str, outputs))})" if outputs else ""
            remedy = _missing_updates(record, range(count, len(inferred)))
            raise OperatorError(f"{op.name}: results: expected {len(inferred)}{names}, got {count}{remedy}")
        return inferred

    def _described(self, op: ir.Operation, by_types: Any, attributes: Any) -> tuple[TensorDesc, ...] | None:
        """As `results`, looking through casts, which types alone do not show."""
        descs = tuple([self.desc_of(v) for v in op.operands])
        key = (op.name, descs, attributes)
        if key not in self._by_descs:
            self._by_descs[key] = self._compute(op, descs)
        inferred = self._by_descs[key]
        if not any(v in self.casts for v in op.operands):
            self._by_types[by_types] = inferred
        return inferred

    def desc_of(self, value: ir.Value) -> TensorDesc:
        """As the function, through `casts`.

        Raises:
            OperatorError: a value is not a tensor of a type that OneFlow has.
        """
        desc = stated_desc(value)
        if desc.is_static or value not in self.casts:
            return desc
        return desc_before_cast(desc, self.casts[value])

    def _compute(self, op: ir.Operation, descs: Sequence[TensorDesc]) -> tuple[TensorDesc, ...] | None:
        record = record_of(op, self.registry)
        rest = iter(descs)
        call = operand_call(op, record, lambda value: next(rest))
        if segments(op.attributes, RESULT_SEGMENTS) is not None:
            bind_results(op, call, list(op.results))
        unknown = "declared" in record.traits or any(d.shape is None for d in descs)
        return None if unknown else infer(record, call)


def _missing_updates(record: Operator, indices: range) -> str:
    """The remedy where results of these numbers are missing, as in OneFlow, which updates operands in place."""
    updates = {f"{a.name}_out" for a in record.signature.inputs}
    missing = [o.name for o in record.signature.outputs[indices.start : indices.stop] if o.name in updates]
    return f"; tensors are values: add the results {', '.join(missing)} for the updated operands" if missing else ""


def disagreement(op: ir.Operation, results: Sequence[TensorDesc] | None) -> str | None:
    """The message where the stated results contradict the inferred results, or None."""
    for index, value in enumerate(op.results):
        stated = stated_desc(value)
        if results is not None and not stated.compatible(results[index]):
            return f"{op.name}: expected result {index} of type {results[index]}, got {stated}"
        for desc in (stated, *([results[index]] if results is not None else [])):
            if desc.is_too_large:
                return f"{op.name}: result {index} has more than 2^63 - 1 bytes: {desc}"
    return None


def message_of(op: ir.Operation, error: OperatorError) -> str:
    """An error's text, which names the operator."""
    text = str(error)
    return text if text.startswith(PREFIX) else f"{op.name}: {text}"


class Verifier:
    """Verifies modules; equal operations (name, types, attributes) are checked once."""

    def __init__(self, registry: Registry = REGISTRY) -> None:
        self.inference = Inference(registry)
        self._valid_operations: set[Any] = set()

    def check(self, op: ir.Operation) -> str | None:
        """The message for an operation that breaks its operator's rules, or None."""
        try:
            results = self.inference.results(op)
            stated = (op.name, results, tuple([v.type for v in op.results]))
            if stated in self._valid_operations:
                return None
            message = disagreement(op, results)
        except OperatorError as error:
            return message_of(op, error)
        if message is None:
            self._valid_operations.add(stated)
        return message

    def verify(self, root: ir.Operation) -> bool:
        """Emits an error at each operation that breaks its operator's rules; whether none does."""
        ok = True
        with_bodies: list[ir.Operation] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            nonlocal ok
            name = op.name
            if name == CAST:
                self.inference.casts[op.results[0]] = op.operands[0]
            elif name.startswith(PREFIX):
                if named_functions(op):
                    with_bodies.append(op)
                message = self.check(op)
                if message is not None:
                    ok = False
                    op.location.emit_error(message)
            # Bodies compute elements, operators are on tensors.
            return ir.WalkResult.SKIP if name == "linalg.generic" else ir.WalkResult.ADVANCE

        self.inference.casts.clear()
        root.walk(visit, ir.WalkOrder.PRE_ORDER)
        for op in _recursive(with_bodies):
            ok = False
            op.location.emit_error(f"{op.name}: expected a body that does not run the function around the operator")
        return ok


#: A module and the symbol of a function in it.
_Symbol: TypeAlias = tuple[ir.Operation | None, str]


def _recursive(ops: Sequence[ir.Operation]) -> list[ir.Operation]:
    """The operators with bodies whose bodies run the function around the operator."""
    bodies = {op: {(module_of(op), symbol) for symbol in named_functions(op).values()} for op in ops}
    runs: dict[_Symbol, set[_Symbol]] = defaultdict(set)
    for op, names in bodies.items():
        runs[_parent_function(op)] |= names
    for _ in range(len(runs)):
        for names in runs.values():
            names.update(*(runs[name] for name in tuple(names) if name in runs))
    return [op for op in ops if _parent_function(op) in bodies[op].union(*(runs.get(b, ()) for b in bodies[op]))]


def _parent_function(op: ir.Operation) -> _Symbol:
    """The function that has an operation."""
    function = _ancestor(op, "func.func")
    name = "" if function is None else str(ir.StringAttr(function.attributes["sym_name"]).value)
    return module_of(op), name


def verify(root: ir.Operation, registry: Registry = REGISTRY) -> bool:
    """Emits an error at each operation below `root` that breaks its operator's rules; whether none does."""
    return Verifier(registry).verify(root)
