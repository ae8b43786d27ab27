"""The operator record: everything about one operator, in one place.

    @operator("tril(in, diagonal: int64 = 0, fill: float = 0.0) -> out")
    class Tril:
        '''The lower triangle of each matrix.'''
        types = same_as("in")
        sbp = grad = compute = reference = ...

Slots: `types` (result shapes and dtypes), `sbp` (how a call may be split), `grad` (the gradient, built of other
operators), one meaning (`scalar`, `compute`, `decompose`, `kernel` or `control`), `reference` (NumPy, for tests) and
`laws` (rewrites). Each slot is filled or states the reason (`no_grad(..)`, `no_sbp(..)`). A `Call` is the view of
rules on one use of an operator.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneflow.dialect.attributes import AttrValue
from oneflow.dialect.lazy import is_being_imported, lazy
from oneflow.dialect.locks import Lock
from oneflow.dialect.operator_index import FAMILY_OF
from oneflow.dialect.sbp import Factors, SbpSignature, all_broadcast, has_partials, with_partial_shape_operands
from oneflow.dialect.signature import (
    MAX_MIXED_OPERANDS,
    ArgDef,
    AttrDef,
    Signature,
    SignatureError,
    check_names,
    counts_of,
    expected_count,
    mlir_name,
    parse_signature,
)
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.dialect.unsupported_operators import reason_for

#: The module imports this one.
storage_types = lazy("oneflow.dialect.storage_types")


class OperatorError(ValueError):
    """An illegal call of an operator: the text states what was expected and what was given."""


class ElementTypeError(OperatorError, TypeError):
    """An operand has an element type that the operator does not take."""


class AxisError(OperatorError, IndexError):
    """An axis that the operands do not have."""


@dataclass(frozen=True)
class Absent:
    """A slot that is empty on purpose."""

    slot: str
    reason: str


def no_grad(reason: str) -> Absent:
    """Marks an operator as not differentiable, and says why."""
    return Absent("grad", reason)


def zero_grad(ops: Any, op: Call, *cotangents: Any) -> dict[str, Any]:
    """The gradient slot of an operator whose results do not depend on the elements of its operands."""
    return {}


def no_sbp(reason: str) -> Absent:
    """Marks an operator that cannot be split over devices, and says why."""
    return Absent("sbp", reason)


def no_reference(reason: str) -> Absent:
    """Marks an operator as having no NumPy reference, and says why."""
    return Absent("reference", reason)


Rule = Callable[..., Any]
MEANINGS = ("scalar", "compute", "decompose", "kernel", "control")
SLOTS = ("types", "sbp", "grad", *MEANINGS, "reference")


@dataclass(frozen=True)
class Law:
    """A rewrite rule of an operator (in MLIR: a rewrite pattern), which canonicalization applies.

    `apply(ops, op)` returns the replacement values (or one value), or None where the rule does not match.
    `op` is a `Call` whose operands are `Value`s; `name` identifies the law for passes and tests.
    """

    name: str
    text: str
    apply: Rule


@dataclass(frozen=True)
class Operator:
    """An operator; the module's text has the slots that every operator fills. The others are:

    - `check(op)`: what a call has to be besides, asked before `types`. `decompose` need not compare the sizes that it
      compares: it becomes run-time checks of its own.
    - `sharded_decomposition`: replaces a call with an operand split along an axis that `sbp` does not split; without
      this slot `decompose` does.
    - `parts(ops, op)`: the meaning on complex numbers, see `dialect.complex_parts`; without this slot a call with
      complex numbers is refused. Operators on complex numbers alone have no other meaning.
    - `kernel(op)`: an `external.ExternalKernel` for a call on static `TensorDesc`s.
    - `control`: how the functions among the attributes run, one of `control.FORMS`.
    - `launch`, `device_kernel(op)`: the kernel on a CUDA device: `launch.source(op, name)` is source for the device's
      backend; `device_kernel(op)` an `ExternalKernel`, or None.
    - `in_place(op)`: pairs of indices, of a result and of the operand whose memory the kernel wants for the result.
    - `nd_sbp(op, mesh, products)`: the signatures on a mesh, instead of `products`, the combinations of `sbp`'s.
    - `complexity(op)`: the multiply-adds of a call, where the results and the summed sizes do not determine them.
    - `local(op, shard)`: the attributes of the call on one device, for operators with sizes among their
      attributes (`reshape`); without this slot these are the logical attributes.
    - `shapes_of`: operands of which only the shape is read, so that they may be partial sums.
    - `unoffered`: which valid signatures `sbp` does not offer, and why.
    - `oneflow_name`: what OneFlow calls it, where MLIR takes no such name; programs may have either.
    - `pure`: whether calls may be removed, merged and reordered.
    - `traits`: properties that mechanisms query (`"random"`; `"barrier"`: users of the result wait for all operands;
      `"boxing"`: the operator is expanded into casts of layouts before inference of SBP; `"one-process"`: programs of
      several ranks may not have the operator; `"external"`: the operator is expanded into operators with external
      kernels).
    - `where`: the file and line of the definition.
    """

    signature: Signature
    doc: str
    types: Rule
    sbp: Factors | Rule | Absent
    grad: Rule | Absent
    reference: Rule | Absent
    check: Rule | None = None
    scalar: Rule | None = None
    compute: Rule | None = None
    decompose: Rule | None = None
    nd_sbp: Rule | None = None
    complexity: Rule | None = None
    sharded_decomposition: Rule | None = None
    kernel: Rule | None = None
    parts: Rule | None = None
    control: str | None = None
    device_kernel: Rule | None = None
    in_place: Rule | None = None
    launch: Any = None
    local: Rule | None = None
    shapes_of: tuple[str, ...] = ()
    unoffered: str = ""
    oneflow_name: str = ""
    laws: tuple[Law, ...] = ()
    pure: bool = True
    traits: frozenset[str] = frozenset()
    family: str = ""
    where: str = ""
    #: Whether the definition is in a notebook or an interactive interpreter.
    is_interactive: bool = False

    @property
    def name(self) -> str:
        """The operator's name, without the dialect."""
        return self.signature.name

    @property
    def meaning(self) -> str:
        """The name of the meaning slot that is filled."""
        return next((m for m in MEANINGS if getattr(self, m) is not None), "parts")

    def signatures(self, op: Call) -> list[SbpSignature]:
        """Every SBP signature of a call whose operands are `TensorDesc`s, the all-broadcast one last."""
        inputs, outputs = len(op.operands), len(op.results)
        broadcast = all_broadcast(inputs, outputs)
        if isinstance(self.sbp, Absent):
            rule: Any = []
        else:
            rule = self.sbp if isinstance(self.sbp, Factors) else self.sbp(op)
        if isinstance(rule, Factors):
            rule = rule.signatures([d.shape for d in op.operands])
        rule = [*rule, *with_partial_shape_operands([*rule, broadcast], self._shape_only(op))]
        unaddable = [not d.dtype.has_sums for d in (*op.operands, *op.results)]
        return [s for s in dict.fromkeys((*rule, broadcast)) if not has_partials(s, unaddable)]

    def _shape_only(self, op: Call) -> list[int]:
        """The positions of the operands of which only the shape is read."""
        names = [n for n, v in op.inputs.items() for _ in flatten([v])]
        return [i for i, n in enumerate(names) if n in self.shapes_of]


class Call:
    """A use of an operator, as rules see the use.

    Operands and results are `TensorDesc`s (types, sbp), `Value`s (grad, decompose) or `Stage`s (compute), by name:
    `op.x`, or `op["in"]` for a Python keyword. A missing optional operand is None, a variadic one a tuple. Attributes
    are Python values. `maybe_nonfinite` are the indices of operands that may not be finite, `wanted` the indices of
    operands whose gradient is needed, None for all (see `dialect.reverse`).
    """

    __slots__ = ("attrs", "inputs", "maybe_nonfinite", "outputs", "record", "wanted")

    def __init__(
        self,
        record: Operator,
        inputs: Mapping[str, Any],
        attrs: Mapping[str, AttrValue],
        outputs: Mapping[str, Any] | None = None,
    ) -> None:
        self.record, self.inputs, self.attrs = record, dict(inputs), dict(attrs)
        self.outputs = dict(outputs or {})
        self.maybe_nonfinite: frozenset[int] = frozenset()
        self.wanted: frozenset[int] | None = None

    def __getitem__(self, name: str) -> Any:
        for table in (self.inputs, self.attrs, self.outputs):
            if name in table:
                return table[name]
        raise KeyError(f"{self.record.name} has no operand, attribute or result named {name!r}")

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name.removesuffix("_")] if name.endswith("_") and name != "_" else self[name]
        except KeyError as error:
            raise AttributeError(str(error)) from None

    @property
    def operands(self) -> list[Any]:
        """All operands in order: variadic operands are flattened, missing operands omitted."""
        return flatten(self.inputs.values())

    @property
    def results(self) -> list[Any]:
        """All results in order."""
        return flatten(self.outputs.values())

    def error(self, text: str, kind: type[OperatorError] = OperatorError) -> OperatorError:
        """An error about this call, to raise: `raise op.error("expected .., got ..")`."""
        return kind(f"oneflow.{self.record.name}: {text}")

    def normalize_axis(self, axis: int, rank: int, name: str = "axis") -> int:
        """`axis` counted from the front.

        Raises:
            OperatorError: the axis is outside `[-rank, rank)`.
        """
        if not -rank <= axis < rank:
            raise self.error(f"expected {name} in [{-rank}, {rank}), got {axis}", AxisError)
        return axis % rank

    def normalize_axes(self, axes: Sequence[int], rank: int, name: str = "axis") -> tuple[int, ...]:
        """Several axes counted from the front.

        Raises:
            OperatorError: one is out of range or given twice.
        """
        normalized = tuple(self.normalize_axis(a, rank, name) for a in axes)
        if len(set(normalized)) != len(normalized):
            raise self.error(f"expected every {name} once, got {list(axes)}")
        return normalized


def flatten(values: Any) -> list[Any]:
    """Operand slots as a flat list: None left out, tuples and lists spread."""
    flat: list[Any] = []
    for value in values:
        if isinstance(value, (tuple, list)):
            flat += value
        elif value is not None:
            flat.append(value)
    return flat


def distribute(args: Sequence[ArgDef], values: Sequence[Any], sizes: Sequence[int] | None) -> dict[str, Any]:
    """Flat operands under their names; `sizes` (one per name) are needed only where counts are ambiguous.

    Raises:
        ValueError: the number of operands does not fit.
    """
    if sizes is None and len(values) == len(args) and all(a.is_single for a in args):
        return {a.name: value for a, value in zip(args, values, strict=True)}
    counts = list(sizes) if sizes is not None else counts_of(args, len(values))
    if len(counts) != len(args) or sum(counts) != len(values):
        raise ValueError(f"expected segment sizes for {len(args)} names adding up to {len(values)}, got {counts}")
    named: dict[str, Any] = {}
    start = 0
    for arg, size in zip(args, counts, strict=True):
        if size < arg.min_count or size > (
            MAX_MIXED_OPERANDS if arg.mixed else size if arg.max_count is None else arg.max_count
        ):
            raise ValueError(f"expected {expected_count(arg)} for {arg.name}, got {size}")
        group = tuple(values[start : start + size])
        named[arg.name] = group if arg.is_variadic else (group[0] if group else None)
        start += size
    return named


def call_rule(rule: Rule, args: Sequence[Any], attrs: Mapping[str, AttrValue]) -> Any:
    """`rule(*args)` with the attributes that its parameters name, all of them for `**attrs`.

    Scalar bodies and references are called by this function.
    """
    names = _keywords_of(rule)
    return rule(*args, **(attrs if names is None else {name: attrs[name] for name in names if name in attrs}))


@functools.lru_cache(maxsize=2048)
def _keywords_of(rule: Rule) -> tuple[str, ...] | None:
    """The names of the keyword-only parameters of a rule; None for a rule with `**attrs`."""
    parameters = inspect.signature(rule).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


NO_NAMES: Mapping[str, Any] = {}


class Registry:
    """Operators by name.

    A family of operators is a module of the package `families`, which is imported when one of its operators is first
    asked for; `index` has the family of each operator. A name that the index lacks is looked for in all families.
    """

    def __init__(
        self,
        operators: Mapping[str, Operator] = NO_NAMES,
        families: str = "",
        index: Mapping[str, str] = NO_NAMES,
    ) -> None:
        self._loaded = dict(operators)
        self._families, self._index = families, index
        self._imported: set[str] = set()
        self._is_complete = not families
        self._loading = Lock(reentrant=True)
        #: Called with the name of an operator whose record was replaced, for caches of programs.
        self.on_replacement: list[Callable[[str], None]] = []

    @property
    def operators(self) -> dict[str, Operator]:
        """All operators by name."""
        if not self._is_complete:
            with self._loading.held():
                self._load_all()
        return self._loaded

    def _load_all(self) -> None:
        """Imports all families; the operators are then in the order of the index."""
        package = importlib.import_module(self._families)
        for file in sorted(Path(package.__path__[0]).glob("[!_]*.py")):
            importlib.import_module(f"{self._families}.{file.stem}")
        if not self._is_complete:
            ordered = {name: self._loaded[name] for name in self._index if name in self._loaded}
            loaded = {**ordered, **self._loaded}
            self._loaded.clear()
            self._loaded.update(loaded)
            self._is_complete = True

    def _load(self, name: str) -> Operator | None:
        """The operator called `name` if it is loaded, or if the index names its family.

        Records refer to functions of their family, so that a thread waits until another thread has imported it.
        """
        family = self._index.get(name)
        if family is not None and family not in self._imported:
            module = importlib.import_module(f"{self._families}.{family}")
            if not is_being_imported(module):
                self._imported.add(family)
        return self._loaded.get(name)

    def find(self, name: str) -> Operator | None:
        """The operator called `name`, here or by OneFlow, or None."""
        return self._load(name) or self._find_by_oneflow_name(name) or self.operators.get(name)

    def _find_by_oneflow_name(self, name: str) -> Operator | None:
        record = self._load(mlir_name(name))
        return record if record is not None and record.oneflow_name == name else None

    def additions(self) -> list[Operator]:
        """The loaded operators that the index does not name: operators of users."""
        return [record for name, record in list(self._loaded.items()) if name not in self._index]

    def add(self, record: Operator, replace: bool = False) -> Operator:
        """Registers an operator.

        A definition replaces the operator that a user defined at the same file and line before: the definition runs
        again.
        With `replace` the new operator replaces any operator of a user. A definition in a notebook replaces an
        earlier definition of the notebook.

        Raises:
            SignatureError: the name is taken (the text names both locations), or MLIR does not accept a name.
        """
        check_names(record.signature)
        registered = self._load(record.name)
        is_ours = record.name in self._index
        if registered is not None and (is_ours or not (replace or _is_redefined(registered, record))):
            remedy = "rename the second" if is_ours else "rename one, or pass replace=True to the second"
            raise SignatureError(
                f"operator {record.name} is defined twice: at {registered.where} and at {record.where}; {remedy}"
            )
        self._loaded[record.name] = record
        for forget in self.on_replacement if registered is not None else ():
            forget(record.name)
        return record

    def __getitem__(self, name: str) -> Operator:
        record = self.find(name)
        if record is None:
            raise KeyError(self.unknown(name))
        return record

    def __contains__(self, name: str) -> bool:
        return self.find(name) is not None

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.operators.values())

    def __len__(self) -> int:
        return len(self.operators)

    def unknown(self, name: str) -> str:
        """The message for a name that no operator has: the reason where OneFlow has one."""
        reason = reason_for(name)
        if reason is not None:
            return f"operator {name} of OneFlow is not in this dialect: {reason}"
        return f"unknown operator oneflow.{name}{suggestion(name, self.operators, 'oneflow.')}"


def _is_redefined(old: Operator, new: Operator) -> bool:
    """Whether a definition runs again: at the same file and line, or in another cell of the same notebook."""
    return old.where == new.where or (old.is_interactive and new.is_interactive)


def suggestion(name: str, names: Any, prefix: str = "") -> str:
    """`; did you mean ..?` for the nearest of `names`, or nothing."""
    matches = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {prefix}{matches[0]}?" if matches else ""


#: Every operator known to the process.
REGISTRY = Registry(families="oneflow.dialect.ops", index=FAMILY_OF)


def define(
    signature: str, *, registry: Registry = REGISTRY, depth: int = 1, replace: bool = False, **slots: Any
) -> Operator:
    """Registers one operator from its signature line and slots.

    Args:
        signature: the line that `signature.parse_signature` reads.
        registry: the registry that the operator is added to.
        depth: how many stack frames above the caller the definition is, for `where`.
        replace: whether the operator replaces an operator that a user defined elsewhere.
        slots: `doc`, the slots of `Operator`, and `laws`, `pure`, `traits`.

    Raises:
        SignatureError: a slot is missing, unknown or not of its kind, or the name is taken.
    """
    frame = sys._getframe(depth)
    slots.setdefault("where", f"{frame.f_code.co_filename}:{frame.f_lineno}")
    slots.setdefault("is_interactive", "__file__" not in frame.f_globals)
    slots.setdefault("family", frame.f_globals.get("__name__", "").rpartition(".")[2])
    parsed = parse_signature(signature)
    _check_slots(parsed.name, slots)
    return registry.add(Operator(parsed, **slots), replace)


def operator(signature: str, *, registry: Registry = REGISTRY, **options: Any) -> Callable[[type], Operator]:
    """The decorator form of `define`: the slots are the members of a class, its docstring the `doc`."""

    def wrap(body: type) -> Operator:
        slots = {k: v for k, v in vars(body).items() if not k.startswith("__")}
        return define(signature, registry=registry, depth=2, doc=inspect.getdoc(body) or "", **slots, **options)

    return wrap


def _check_slots(name: str, slots: dict[str, Any]) -> None:
    known = {*Operator.__dataclass_fields__} - {"signature"}
    for slot in slots:
        if slot not in known:
            raise SignatureError(f"operator {name}: unknown slot {slot}{suggestion(slot, known)}")
    filled = [m for m in MEANINGS if slots.get(m) is not None]
    if len(filled) != 1 and not (not filled and slots.get("parts")):
        raise SignatureError(f"operator {name}: expected exactly one of {', '.join(MEANINGS)}, got {filled}")
    if slots.get("launch") is not None and filled != ["kernel"]:
        raise SignatureError(
            f"operator {name}: expected a kernel with a launch on a device, got a launch with {filled[0]}"
        )
    for slot in ("doc", "types", "sbp", "grad", "reference"):
        if not slots.get(slot):
            raise SignatureError(f"operator {name}: the slot {slot} is empty; fill the slot or state the reason")


def attribute_values(record: Operator, attributes: Mapping[str, Any]) -> dict[str, AttrValue]:
    """Checked attribute values with defaults filled in.

    Raises:
        OperatorError: one is unknown, missing or of the wrong kind.
    """
    attrs: Mapping[str, AttrDef] = record.signature.attr_by_name
    for name in attributes:
        if name not in attrs:
            advice = suggestion(name, attrs) or f"; it has {', '.join(attrs) or 'none'}"
            raise OperatorError(f"oneflow.{record.name}: unknown attribute {name!r}{advice}")
    values: dict[str, AttrValue] = {}
    for attr in record.signature.attrs:
        if attr.name in attributes:
            try:
                values[attr.name] = attr.kind.check(attributes[attr.name])
            except ValueError as error:
                raise OperatorError(f"oneflow.{record.name}: attribute {attr.name}: {error}") from None
        elif attr.is_mandatory:
            given = ", ".join(attributes) or "none"
            raise OperatorError(
                f"oneflow.{record.name}: expected the attribute {attr.name}: {attr.kind.name}, got {given}"
            )
        else:
            values[attr.name] = attr.default
    return values


def infer(record: Operator, op: Call) -> tuple[TensorDesc, ...]:
    """The result descriptions of a call whose operands are ranked `TensorDesc`s.

    Raises:
        OperatorError: the operator does not allow the call.
    """
    if record.check is not None:
        record.check(op)
    types = record.types(op)
    results = (types,) if isinstance(types, TensorDesc) else tuple(types)
    for desc in (*op.operands, *results):
        if desc.dtype.is_complex and record.parts is None:
            raise op.error(f"expected real numbers, got {desc}: the operator is not defined on complex numbers")
        if desc.dtype.is_stored_only:
            storage_types.expect_moved(op, results)
    return results
