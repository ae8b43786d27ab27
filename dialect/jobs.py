"""OneFlow's own programs in this dialect: jobs with inputs, outputs and variables become functions of tensors.

    func.func @f(%arg0: tensor<1x3xf32>) -> tensor<1x4xf32> {
      %x = "oneflow.input"(%arg0) {nd_sbp = ["B"], ..} : (tensor<1x3xf32>) -> tensor<1x3xf32>
      %w = "oneflow.variable"() {op_name = "model.w", ..} : () -> tensor<3x4xf32>
      %0 = "oneflow.user"(%x, %w) {op_type_name = "matmul", ..} : ..
      %y = "oneflow.output"(%0) {nd_sbp = ["B"], ..} : ..
      return %y
becomes
    func.func @f(%arg0: tensor<1x3xf32>, %arg1: tensor<3x4xf32> {oneflow.name = "model.w"}) -> tensor<1x4xf32> {
      %0 = "oneflow.matmul"(%arg0, %arg1) ..
      return %0

Where operations name several devices (`hierarchy = [2, 2]`), the mesh is theirs, and arguments, results and
operations get the layouts that `nd_sbp` and `parallel` state. Control edges, which order operations, are left out:
tensors order them. `job_text` has rewritten the text of jobs as text of functions.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import bool_, int8
from oneflow.dialect.nd_sbp import IN, MESH, ND_SBP, OUT, NdSbp, check_nd_sbp, write_nd_sbp
from oneflow.dialect.oneflow import PREFIX, RESULT_SEGMENTS, operand_call, stated_desc
from oneflow.dialect.record import Operator, Registry, distribute, infer
from oneflow.dialect.sbp import B, P, S
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir

NAME = "oneflow.name"
FUNCTION, RETURN = "func.func", "func.return"
#: Operations that have no operator.
RUNTIME = ("oneflow.system", "oneflow.conf")
#: OneFlow's names for special cases of operators: the operators, and the attributes that the cases are.
ALIASES: dict[str, tuple[str, dict[str, bool]]] = {
    "add_n2": ("add_n", {}),
    "normalization_infer": ("normalization", {"training": False}),
}
#: The attributes that describe the tensors of an operation of any type; all other attributes belong to the operator.
GENERIC = ("op_type_name", "input_sizes", "output_sizes", "operand_segment_sizes", "result_segment_sizes")
_LAYOUT = re.compile(r"\[[^\]]*\]|#sbp\.[^,]*")
_SBP = re.compile(r"#sbp\.(?:S<\s*(\d+)\s*>|(B|P|Any))")
_WHOLE = {"B": B, "P": P}


def convert_jobs(root: ir.Operation, registry: Registry) -> None:
    """Rewrites the jobs of one block below `root` as functions; emits an error where that is impossible.

    The context accepts any operation.
    """
    for function in [op for op in _nested_operations(root) if op.name == FUNCTION]:
        if len(function.regions[0].blocks) == 1:
            _Job(function, registry).convert()


def _nested_operations(root: ir.Operation) -> list[ir.Operation]:
    """The operations below `root` in program order."""
    operations: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        operations.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(visit, ir.WalkOrder.PRE_ORDER)
    return operations


@dataclass
class _Job:
    """A function: the attributes of its arguments and results, the operations to remove, the arguments of variables
    by name, and the new values of updated arguments by index.
    """

    function: ir.Operation
    registry: Registry
    replaced: list[ir.Operation] = field(default_factory=list)
    variables: dict[str, int] = field(default_factory=dict)
    updates: dict[int, ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.block = block = self.function.regions[0].blocks[0]
        self.arguments = _dictionaries(self.function, "arg_attrs", len(block.arguments))
        self.results = _dictionaries(
            self.function, "res_attrs", len(ir.FunctionType(self.function.attributes["function_type"].value).results)
        )

    def convert(self) -> None:
        """Replaces the operations that only jobs have."""
        operations = _nested_operations(self.function)[1:]
        if not operations or operations[-1].name != RETURN:
            self.function.location.emit_error("expected oneflow.return at the end of the job")
            return
        for op in operations:
            try:
                self._convert(op)
            except ValueError as error:
                op.location.emit_error(f"{op.name}: {error}")
                return
        self._erase()
        self._annotate()

    def _convert(self, op: ir.Operation) -> None:
        """Replaces an operation that exists only in jobs.

        Raises:
            ValueError: the operation cannot be a part of a function.
        """
        converters: dict[str, Callable[[ir.Operation], ir.Value]] = {
            "oneflow.input": self._input,
            "oneflow.output": self._output,
            "oneflow.variable": self._variable,
            "oneflow.variable_ir": _constant,
        }
        if op.name in RUNTIME:
            raise ValueError("expected an operator of tensors: this is a step of OneFlow's runtime")
        if op.name in converters and not len(op.results):
            raise ValueError("expected a tensor as its result, got none")
        if op.name in converters:
            self._replace(op, converters[op.name](op))
        elif op.name.startswith(PREFIX):
            self._lay_out(self._complete(self._plain(op)))

    def _replace(self, op: ir.Operation, value: ir.Value) -> None:
        """Replaces uses of an operation, which is erased later, by the value of its tensor.

        Raises:
            ValueError: the value is of another type.
        """
        desc, stated = from_mlir(value.type), from_mlir(op.results[0].type)
        if desc != stated and not _is_bool(desc, stated):
            raise ValueError(f"expected a result of type {value.type}, got {op.results[0].type}")
        op.results[0].replace_all_uses_with(value)
        self.replaced.append(op)

    def _erase(self) -> None:
        """Erases the replaced operations with their control edges, users first."""
        for op in reversed(self.replaced):
            if any(True for result in op.results for _ in result.uses):
                op.location.emit_error(
                    f"{op.name}: expected no operator of tensors to use the control edge, its last result"
                )
                return
            op.erase()

    def _input(self, op: ir.Operation) -> ir.Value:
        (value,) = _data(list(op.operands), 1)
        if _is_argument(value):
            kind = _type_of_source(op)
            if _is_bool(from_mlir(kind), from_mlir(value.type)):
                value.set_type(kind)
            self._annotate_layout(self.arguments[ir.BlockArgument(value).arg_number], op, _stated(op))
        return value

    def _output(self, op: ir.Operation) -> ir.Value:
        (value,) = _data(list(op.operands), 1)
        for use in op.results[0].uses:
            if use.owner.name == RETURN:
                self._annotate_layout(self.results[use.operand_number], op, _stated(op))
        return value

    def _variable(self, op: ir.Operation) -> ir.Value:
        """The argument for a variable: operations of one name read one variable."""
        name = _text(op, "op_name")
        if name and name in self.variables:
            return self.block.arguments[self.variables[name]]
        self.variables[name] = len(self.block.arguments)
        self.arguments.append({NAME: ir.StringAttr.get(name)} if name else {})
        _, results = _parallel_signature(op)
        # A flat list is the layout of the one result on a mesh of several axes.
        layout = tuple(sbp for side in results for sbp in side)
        self._annotate_layout(self.arguments[-1], op, layout)
        return self.block.add_argument(_type_of_source(op), op.location)

    def _plain(self, op: ir.Operation) -> ir.Operation:
        """The operation under its operator's name, without control edges; `op` itself where nothing changes.

        Raises:
            ValueError: no operator has the name.
        """
        generic = op.name == "oneflow.user"
        name, case = ALIASES.get(op.name.removeprefix(PREFIX), ("", {}))
        name = _text(op, "op_type_name") if generic else name
        if not name:
            return op
        record = self.registry.find(name)
        if record is None:
            raise ValueError(self.registry.unknown(name))
        operands, results = list(op.operands), list(op.results)
        # The results of a special case differ from the results of its operator; the segment sizes of that operator
        # may be left.
        left_out = GENERIC if generic else RESULT_SEGMENTS
        attributes = {a: op.attributes[a] for a in op.attributes if a not in left_out}
        attributes |= {a: ir.BoolAttr.get(value) for a, value in case.items()}
        if generic:
            operands = _data(operands, *_first_size(op, "operand_segment_sizes"))
            results = _data(results, *_first_size(op, "result_segment_sizes"))
            for args, names, spelling in (
                (record.signature.inputs, "input_sizes", "operandSegmentSizes"),
                (record.signature.outputs, "output_sizes", "resultSegmentSizes"),
            ):
                if names in op.attributes and sum(not a.is_single for a in args) > 1:
                    attributes[spelling] = ir.DenseI32ArrayAttr.get(_integers(op, names))
        return self._replaced(op, f"{PREFIX}{record.name}", [r.type for r in results], operands, attributes)

    def _replaced(
        self,
        op: ir.Operation,
        name: str,
        kinds: Sequence[ir.Type],
        operands: Sequence[ir.Value],
        attributes: Mapping[str, ir.Attribute],
    ) -> ir.Operation:
        """Another operation in place of `op`, with the same first results."""
        with ir.InsertionPoint(op):
            new = ir.Operation.create(name, kinds, operands, attributes, loc=op.location)
        for old, value in zip(op.results, new.results, strict=False):
            old.replace_all_uses_with(value)
        self.replaced.append(op)
        return new

    def _complete(self, op: ir.Operation) -> ir.Operation:
        """The operation with results of type bool where OneFlow writes `si8`, and with results for updated operands.

        OneFlow's operators update operands in place. In the converted function the new tensors are results, and
        results of the function if the operands are its arguments. Illegal operators stay, for the verifier.
        """
        record = self.registry.find(op.name.removeprefix(PREFIX))
        try:
            if record is None or "declared" in record.traits:
                return op
            call = operand_call(op, record, stated_desc)
            if any(desc.shape is None for desc in _flat(call.inputs)):
                return op
            descs = infer(record, call)
            outputs = list(_names(distribute(record.signature.outputs, descs, None)))
        except ValueError:
            return op
        updated = _updated(op, record, outputs[len(op.results) :])
        if updated:
            op = self._with_updates(op, updated, [desc.to_mlir() for desc in descs[len(op.results) :]])
        for value, desc in zip(op.results, descs, strict=False):
            if _is_bool(desc, from_mlir(value.type)):
                value.set_type(desc.to_mlir())
        return op

    def _with_updates(self, op: ir.Operation, updated: Sequence[int], kinds: Sequence[ir.Type]) -> ir.Operation:
        """The operation with further results: the new values of the operands with these indices."""
        operands = list(op.operands)
        arguments = {i: ir.BlockArgument(operands[i]).arg_number for i in updated if _is_argument(operands[i])}
        for i, index in arguments.items():
            operands[i] = self.updates.get(index, operands[i])
        attributes = {a: op.attributes[a] for a in op.attributes if a not in RESULT_SEGMENTS}
        first = len(op.results)
        new = self._replaced(op, op.name, [*(r.type for r in op.results), *kinds], operands, attributes)
        self.updates |= {arguments[i]: new.results[first + n] for n, i in enumerate(updated) if i in arguments}
        return new

    def _lay_out(self, op: ir.Operation) -> None:
        """States the layouts of the tensors of an operation, where `parallel` has the layouts of all tensors."""
        if "parallel" not in op.attributes or not self._is_distributed(op):
            return
        for name, layouts, values in zip((IN, OUT), _parallel_signature(op), (op.operands, op.results), strict=True):
            if len(layouts) == len(values) and all(layouts):
                op.attributes[name] = ir.ArrayAttr.get([write_nd_sbp(nd) for nd in layouts])

    def _annotate_layout(self, attributes: dict[str, ir.Attribute], op: ir.Operation, layout: NdSbp) -> None:
        """Annotates an argument or a result with the layout of an operation, where it runs on several devices."""
        if layout and self._is_distributed(op):
            attributes[ND_SBP] = write_nd_sbp(layout)

    def _is_distributed(self, op: ir.Operation) -> bool:
        """Whether an operation runs on several devices; its mesh is the mesh of the module.

        Raises:
            ValueError: the module has another mesh.
        """
        mesh = _integers(op, "hierarchy") if "hierarchy" in op.attributes else []
        if math.prod(mesh) == 1:
            return False
        module, attribute = self.function.parent, ir.DenseI64ArrayAttr.get(mesh)
        if MESH in module.attributes and module.attributes[MESH] != attribute:
            raise ValueError(f"expected one hierarchy in a program, {list(module.attributes[MESH])}, got {mesh}")
        module.attributes[MESH] = attribute
        return True

    def _annotate(self) -> None:
        """Sets the arguments and results of the function, and their attributes."""
        last = list(self.block.operations)[-1].operation
        results = list(last.operands)
        if self.updates:
            results += self.updates.values()
            self.results += [dict(self.arguments[index]) for index in self.updates]
            with ir.InsertionPoint(last):
                ir.Operation.create(last.name, [], results, loc=last.location)
            last.erase()
        kind = ir.FunctionType.get([a.type for a in self.block.arguments], [r.type for r in results])
        self.function.attributes["function_type"] = ir.TypeAttr.get(kind)
        for name, attributes in (("arg_attrs", self.arguments), ("res_attrs", self.results)):
            if any(attributes):
                self.function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(d) for d in attributes])


def _is_argument(value: ir.Value) -> bool:
    return isinstance(value.owner, ir.Block)


def _is_bool(desc: TensorDesc | None, stated: TensorDesc | None) -> bool:
    """Whether a tensor is a bool that OneFlow writes as an integer of 8 bits."""
    return desc is not None and stated is not None and (desc.dtype, stated.dtype) == (bool_, int8)


def _type_of_source(op: ir.Operation) -> ir.Type:
    """The type of an input or a variable."""
    kind, code = op.results[0].type, op.attributes.get("data_type", None)
    desc = from_mlir(kind)
    if desc is None or not isinstance(code, ir.IntegerAttr) or code.value != bool_.code:
        return kind
    return TensorDesc(desc.shape, bool_).to_mlir()


def _flat(inputs: Mapping[str, Any]) -> Iterator[Any]:
    """Operands one by one."""
    for value in inputs.values():
        if value is not None:
            yield from value if isinstance(value, tuple) else (value,)


def _names(outputs: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """For each result its name and its index in the group of this name."""
    for name, value in outputs.items():
        if value is not None:
            yield from ((name, i) for i in range(len(value) if isinstance(value, tuple) else 1))


def _updated(op: ir.Operation, record: Operator, missing: Sequence[tuple[str, int]]) -> list[int]:
    """The indices of the operands whose new values the missing results are; none where a missing result is another
    value."""
    count = itertools.count()
    numbers = operand_call(op, record, lambda _: next(count)).inputs
    of = {f"{name}_out": value if isinstance(value, tuple) else (value,) for name, value in numbers.items()}
    return [of[name][i] for name, i in missing] if all(name in of for name, _ in missing) else []


def _dictionaries(function: ir.Operation, name: str, count: int) -> list[dict[str, ir.Attribute]]:
    """The attributes of the arguments (`arg_attrs`) or results (`res_attrs`) of a function."""
    if name not in function.attributes:
        return [{} for _ in range(count)]
    return [{a.name: a.attr for a in attributes} for attributes in function.attributes[name]]


def _constant(op: ir.Operation) -> ir.Value:
    """The constant for a variable whose value is in the program."""
    with ir.InsertionPoint(op):
        value = op.attributes.get("value", None)
        if not isinstance(value, ir.DenseElementsAttr):
            raise ValueError(f"expected its value as dense<..>, got {value}")
        return ir.Operation.create("arith.constant", [value.type], [], {"value": value}, loc=op.location).result


def _text(op: ir.Operation, name: str) -> str:
    """A string attribute of an operation.

    Raises:
        ValueError: the operation has none of the name.
    """
    attribute = op.attributes.get(name, None)
    if not isinstance(attribute, ir.StringAttr):
        raise ValueError(f"expected the string {name}, got {attribute}")
    return str(attribute.value)


def _list(op: ir.Operation, name: str) -> list[Any]:
    """The elements of an attribute that is a list.

    Raises:
        ValueError: the value is none.
    """
    attribute = op.attributes[name]
    if not isinstance(attribute, (ir.ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseI64ArrayAttr)):
        raise ValueError(f"expected {name} to be a list, got {attribute}")
    return list(attribute)


def _integers(op: ir.Operation, name: str) -> list[int]:
    """The elements of an attribute that is a list of integers.

    Raises:
        ValueError: the value is none.
    """
    values = [getattr(a, "value", a) for a in _list(op, name)]
    if not all(isinstance(value, int) for value in values):
        raise ValueError(f"expected {name} to be a list of integers, got {op.attributes[name]}")
    return values


def _data(values: list[ir.Value], count: int | None = None) -> list[ir.Value]:
    """The first `count` values, which are tensors; the others are control edges.

    Raises:
        ValueError: there are fewer values.
    """
    if count is not None and not 0 <= count <= len(values):
        raise ValueError(f"expected at least {count} tensors, got {len(values)}")
    return values[:count]


def _first_size(op: ir.Operation, name: str) -> list[int]:
    """The number of tensors that the segment sizes of an operation state; nothing without sizes."""
    return _integers(op, name)[:1] if name in op.attributes else []


def _stated(op: ir.Operation) -> NdSbp:
    """The layout in `nd_sbp`; no layout where the program leaves the layout open.

    Raises:
        ValueError: the attribute is no list of SBPs.
    """
    if "nd_sbp" not in op.attributes:
        return ()
    texts = [str(getattr(a, "value", a)) for a in _list(op, "nd_sbp")]
    return check_nd_sbp(texts) if all(texts) else ()


def _parallel_signature(op: ir.Operation) -> tuple[list[NdSbp], list[NdSbp]]:
    """The layouts of operands and of results in the string `parallel`; `()` where a layout is open.

    Raises:
        ValueError: `parallel` is none.
    """
    if "parallel" not in op.attributes:
        return [], []
    operands, arrow, results = _text(op, "parallel").partition("->")
    if not arrow:
        raise ValueError(f"expected parallel = #sbp.parallel<[..] -> [..]>, got {op.attributes['parallel']}")
    return _layouts(operands), _layouts(results)


def _layouts(side: str) -> list[NdSbp]:
    """The layouts in one side of `parallel`: lists of SBPs, or SBPs on a mesh of one axis."""
    layouts = []
    for match in _LAYOUT.finditer(side.strip()[1:-1]):
        sbps = _SBP.findall(match[0])
        is_open = any(word == "Any" for _, word in sbps)
        layouts.append(() if is_open else tuple(S(int(axis)) if axis else _WHOLE[word] for axis, word in sbps))
    return layouts
