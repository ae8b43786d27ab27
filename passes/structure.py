"""The structure of a program that whole-program passes need: functions, calls, and values that share a type.

Read in one walk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import CAST, PREFIX, module_of, named_functions
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir

#: Operations whose operands may change their type; in addition to operations of the dialect and operations that joins
#: name.
FLEXIBLE = frozenset({CAST, "tensor.dim", "func.return", "func.call"})


@dataclass(frozen=True)
class Operand:
    """An operand of an operation."""

    op: ir.Operation
    index: int

    @property
    def value(self) -> ir.Value:
        """The current value."""
        return self.op.operands[self.index]


@dataclass(frozen=True)
class Join:
    """Values that have one type: control flow passes the sources to the targets."""

    targets: tuple[ir.Value, ...]
    sources: tuple[Operand, ...]


@dataclass(frozen=True)
class CallSite:
    """A call and its caller; `callee` is the symbol in the module of the caller."""

    op: ir.Operation
    callee: str
    function: Function


@dataclass(frozen=True)
class BodyUse:
    """An operator that names a function as its body; `symbol` is the function's name in the whole program."""

    op: ir.Operation
    symbol: str
    function: Function


@dataclass(eq=False)
class Function:
    """A `func.func`: the dialect's operations and casts in program order, and its type."""

    op: ir.Operation
    operations: list[ir.Operation] = field(default_factory=list)
    returns: list[ir.Operation] = field(default_factory=list)
    calls: list[CallSite] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    bodies: list[BodyUse] = field(default_factory=list)

    def __post_init__(self) -> None:
        kind = self.op.attributes["function_type"].value
        self.inputs, self.results = list(kind.inputs), list(kind.results)

    @property
    def name(self) -> str:
        """The symbol after the symbols of all enclosing modules except the outermost: `@a::@f` is `a::f`."""
        return self.qualified(str(self.op.attributes["sym_name"].value))

    def qualified(self, symbol: str) -> str:
        """The full name of a symbol that is used in the module of this function."""
        return qualified_symbol(self.op, symbol)

    @property
    def is_declaration(self) -> bool:
        """Whether the function has no body."""
        return not self.op.regions[0].blocks

    @property
    def is_public(self) -> bool:
        """Whether other modules may call the function."""
        attributes = self.op.attributes
        return "sym_visibility" not in attributes or attributes["sym_visibility"].value == "public"

    @property
    def arguments(self) -> list[ir.Value]:
        """The arguments of the body."""
        return [] if self.is_declaration else list(self.op.regions[0].blocks[0].arguments)

    def refine_result(self, index: int, known: TensorDesc, type_of: Callable[[TensorDesc], ir.Type]) -> bool:
        """Records the known type of a result; returns whether the type changed."""
        stated = from_mlir(self.results[index])
        if stated is None or not stated.compatible(known) or stated.meet(known) == stated:
            return False
        self.results[index] = type_of(stated.meet(known))
        self.update_type()
        return True

    def update_type(self) -> None:
        """Writes the function's type as arguments and results now are."""
        self.inputs = [a.type for a in self.arguments] or self.inputs
        kind = ir.FunctionType.get(self.inputs, self.results)
        self.op.attributes["function_type"] = ir.TypeAttr.get(kind)


@dataclass
class Structure:
    """The functions of a program by name, the calls of each, and the values whose users need their type.

    `referenced` are the functions that operations other than calls name: the types of these functions must stay.
    """

    functions: dict[str, Function] = field(default_factory=dict)
    referenced: set[str] = field(default_factory=set)
    fixed: dict[ir.Value, list[Operand]] = field(default_factory=lambda: defaultdict(list))
    _calls: dict[str, list[CallSite]] = field(default_factory=lambda: defaultdict(list))
    _body_uses: dict[str, list[BodyUse]] = field(default_factory=lambda: defaultdict(list))

    def calls_of(self, function: Function) -> list[CallSite]:
        """Every call of a function."""
        return self._calls[function.name]

    def body_uses_of(self, function: Function) -> list[BodyUse]:
        """Every operator that names a function as its body."""
        return self._body_uses[function.name]

    @classmethod
    def of(cls, root: ir.Operation) -> Structure:
        """The structure of everything below `root`."""
        structure = cls()
        body: list[ir.Operation] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == "func.func":
                structure._add(Function(op), body)
                body.clear()
            else:
                body.append(op)
            return ir.WalkResult.ADVANCE

        root.walk(visit)
        return structure

    def _add(self, function: Function, body: Sequence[ir.Operation]) -> None:
        self.functions[function.name] = function
        branches: dict[ir.Block, list[tuple[ir.Operation, int]]] = defaultdict(list)
        for op in body:
            name = op.name
            if name.startswith(PREFIX) or name == CAST:
                function.operations.append(op)
            elif name == "func.return":
                function.returns.append(op)
            elif name == "func.call":
                site = CallSite(op, function.qualified(op.attributes["callee"].value), function)
                function.calls.append(site)
                self._calls[site.callee].append(site)
            elif name in _JOINS:
                function.joins += _JOINS[name](op)
            elif name in ("cf.br", "cf.cond_br"):
                for block, first in _successors(op):
                    branches[block].append((op, first))
        function.joins += [j for block, sources in branches.items() for j in _block_joins(block, sources)]
        joined = {(s.op, s.index) for j in function.joins for s in j.sources}
        for op in body:
            self._add_fixed(op, joined)
            if op.name.startswith(PREFIX):
                for symbol in dict.fromkeys(named_functions(op).values()):
                    use = BodyUse(op, function.qualified(symbol), function)
                    function.bodies.append(use)
                    self._body_uses[use.symbol].append(use)
            elif op.name not in FLEXIBLE:
                symbols = (a for _, a in op.attributes.items() if isinstance(a, ir.FlatSymbolRefAttr))
                self.referenced.update(function.qualified(a.value) for a in symbols)

    def _add_fixed(self, op: ir.Operation, joined: set[tuple[ir.Operation, int]]) -> None:
        if op.name in FLEXIBLE or op.name.startswith(PREFIX):
            return
        for index, value in enumerate(op.operands):
            if (op, index) not in joined:
                self.fixed[value].append(Operand(op, index))


def operands_of(op: ir.Operation) -> list[ir.Value]:
    """The operands of an operation, and the values from outside that nested operations read."""
    if not len(op.regions):
        return list(op.operands)
    operands, defined = list[ir.Value](), set[ir.Value]()

    def visit(inner: ir.Operation) -> ir.WalkResult:
        operands.extend(inner.operands)
        defined.update(inner.results)
        for region in inner.regions:
            defined.update(argument for block in region for argument in block.arguments)
        return ir.WalkResult.ADVANCE

    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return [v for v in operands if v not in defined]


def program_of(op: ir.Operation) -> ir.Operation:
    """The outermost operation around an operation."""
    while op.parent is not None:
        op = op.parent.operation
    return op


def qualified_symbol(op: ir.Operation, symbol: str) -> str:
    """The full name of a symbol that is used in the module of an operation, see `Function.name`."""
    return "::".join([*_scope(op), symbol])


def qualified_callee(call: ir.Operation) -> str:
    """The full name of the function that a call names."""
    return qualified_symbol(call, call.attributes["callee"].value)


def _scope(op: ir.Operation) -> list[str]:
    """The enclosing modules of an operation except the outermost, outside first: their symbols, else positions."""
    module = module_of(op)
    if module is None or module.parent is None:
        return []
    enclosing = module.parent.operation
    position = [o.operation for o in enclosing.regions[0].blocks[0].operations].index(module)
    named = "sym_name" in module.attributes
    return [*_scope(module), str(module.attributes["sym_name"].value) if named else str(position)]


def _yields(op: ir.Operation) -> list[ir.Operation]:
    return [list(region.blocks[0].operations)[-1].operation for region in op.regions if region.blocks]


def _if_joins(op: ir.Operation) -> list[Join]:
    yields = _yields(op)
    return [Join((value,), tuple(Operand(y, i) for y in yields)) for i, value in enumerate(op.results)]


def _for_joins(op: ir.Operation) -> list[Join]:
    """The operands are the bounds, the step and the initial values; the block arguments are the induction variable
    and the loop-carried values.
    """
    (last,) = _yields(op)
    carried = list(op.regions[0].blocks[0].arguments)[1:]
    return [
        Join((argument, value), (Operand(op, 3 + i), Operand(last, i)))
        for i, (argument, value) in enumerate(zip(carried, op.results, strict=True))
    ]


_JOINS = {"scf.if": _if_joins, "scf.for": _for_joins}


def _successors(op: ir.Operation) -> list[tuple[ir.Block, int]]:
    """The successors of a branch, and the index of the first operand that is passed to each."""
    blocks = list(op.successors)
    if op.name == "cf.br":
        return [(blocks[0], 0)]
    condition, true_count, _ = op.attributes["operandSegmentSizes"]
    return [(blocks[0], condition), (blocks[1], condition + true_count)]


def _block_joins(block: ir.Block, sources: Sequence[tuple[ir.Operation, int]]) -> list[Join]:
    return [
        Join((argument,), tuple(Operand(op, first + i) for op, first in sources))
        for i, argument in enumerate(block.arguments)
    ]
