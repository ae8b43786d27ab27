"""Run-time checks: calls of `oneflow_rt_check_index` and `oneflow_rt_check_size`.

A site is the text of a failing check: the condition, and the location in the program. Calls carry the number of the
site; the module attribute `oneflow.sites` lists the texts. Numbers do not depend on locations: a program that is
lowered again with locations has the same sites.
"""

from __future__ import annotations

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir
from oneflow.dialect.reader import file_line_column
from oneflow.lowering.linalg.emit import Emitter, Value

SITES = "oneflow.sites"
CHECK_INDEX = "oneflow_rt_check_index"
CHECK_SIZE = "oneflow_rt_check_size"
#: The end of a text about a dimension that several operands share, as in element-wise operators.
SHARED_DIMENSION = ", shared with other operands"
_TYPES = {CHECK_INDEX: "(i64, i64, i32) -> i64", CHECK_SIZE: "(i64, i64, i32) -> ()"}


class Checks:
    """Emits checks into one module; `write_sites` has to be called at the end."""

    def __init__(self, module: ir.Module, emitter: Emitter) -> None:
        self.module, self.e = module, emitter
        self.sites = read_sites(module)
        self._numbers: dict[tuple[int, str], int] = {}
        self._operation = 0
        self._declared = {str(op.attributes["sym_name"].value) for op in module.body if "sym_name" in op.attributes}
        self._checked: set[tuple[ir.Block, Value, Value]] = set()

    def begin_operation(self) -> None:
        """Begins another operation, whose checks are separate sites."""
        self._operation += 1

    def index(self, position: Value, size: Value, text: str, location: ir.Location) -> Value:
        """`position` where that is in `[0, size)`; else a safe position, and the run fails with the site's text."""
        operands = [self._as_i64(position), self._as_i64(size), self._site(text, location)]
        safe = self._call(CHECK_INDEX, operands, [self.e.element(dtypes.int64)]).result
        return self.e.op("arith.index_cast", self.e.index_type, [safe])

    def size(self, got: Value, wanted: Value, text: str, location: ir.Location) -> None:
        """Fails the run with the site's text where `got` is not `wanted`; a block has one check for each pair."""
        block = ir.InsertionPoint.current.block
        if got == wanted or (block, got, wanted) in self._checked:
            return
        self.remember(got, wanted)
        self._call(CHECK_SIZE, [self._as_i64(got), self._as_i64(wanted), self._site(text, location)], [])

    def remember(self, got: Value, wanted: Value) -> None:
        """Remembers that the block of the insertion point has a check of these sizes."""
        block = ir.InsertionPoint.current.block
        self._checked |= {(block, got, wanted), (block, wanted, got)}

    def write_sites(self) -> None:
        """Writes the attribute `oneflow.sites` of the module."""
        if self.sites:
            texts = [ir.StringAttr.get(text) for text in self.sites]
            self.module.operation.attributes[SITES] = ir.ArrayAttr.get(texts)

    def _as_i64(self, value: Value) -> Value:
        return self.e.op("arith.index_cast", self.e.element(dtypes.int64), [value])

    def _site(self, text: str, location: ir.Location) -> Value:
        number = self._numbers.setdefault((self._operation, text), len(self.sites))
        if number == len(self.sites):
            self.sites.append(text + location_suffix(location))
        return self.e.constant(number, dtypes.int32)

    def _call(self, callee: str, operands: list[Value], results: list[ir.Type]) -> ir.Operation:
        self._declare(callee)
        callee_attribute = {"callee": ir.FlatSymbolRefAttr.get(callee)}
        return ir.Operation.create("func.call", results=results, operands=operands, attributes=callee_attribute)

    def _declare(self, name: str) -> None:
        if name in self._declared:
            return
        self._declared.add(name)
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.Type.parse(_TYPES[name])),
            "sym_visibility": ir.StringAttr.get("private"),
        }
        start = ir.InsertionPoint.at_block_begin(self.module.body)
        ir.Operation.create("func.func", attributes=attributes, regions=1, ip=start, loc=ir.Location.unknown())


def read_sites(module: ir.Module) -> list[str]:
    """The texts of a module's sites, by number."""
    known = module.operation.attributes
    return [ir.StringAttr(a).value for a in known[SITES]] if SITES in known else []


def location_suffix(location: ir.Location) -> str:
    """` (file:line:col)` of a location; empty where it is unknown."""
    text = location_text(location)
    return f" ({text})" if text else ""


def location_text(location: ir.Location) -> str:
    """`file:line:col` of a location; empty where it is unknown."""
    text = file_line_column(location)
    return "" if text.startswith("<unknown>") else text
