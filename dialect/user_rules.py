"""The slots that users give: an exception or a wrong result of a function is an error with its operator, slot and
source location.

Rules of built-in operators are called directly; rules of users are called by `guard`, so that an error in a rule
is reported with the user's operator, slot and source location.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from oneflow.dialect.builder import Value, describe
from oneflow.dialect.compute import Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import Absent, Call, Law, OperatorError, Rule, flatten, infer, suggestion
from oneflow.dialect.sbp import Factors, SbpSignature
from oneflow.dialect.scalar import Expr
from oneflow.dialect.signature import Signature, SignatureError
from oneflow.dialect.tensor_desc import Dim, SizeSymbol, TensorDesc

#: How often an operator may occur in its own decomposition, for example with an attribute that is counted down.
MAX_RECURSION = 24


class InfiniteRecursionError(OperatorError):
    """A decomposition that does not end."""


class _Path(threading.local):
    """The operators that this thread is decomposing, each in the decomposition of the one before."""

    def __init__(self) -> None:
        self.names: list[str] = []


_path = _Path()


@dataclass(frozen=True)
class UserRule:
    """The function that is called and its operator, for error messages."""

    name: str
    slot: str
    location: str

    def error(self, text: str) -> OperatorError:
        """An error of the rule."""
        return OperatorError(f"oneflow.{self.name}: its slot {self.slot} ({self.location}): {text}")

    def expected(self, what: str, value: Any) -> OperatorError:
        """The error of a rule with an unexpected result."""
        return self.error(f"expected {what}, got {_described_value(value)}")

    def call(self, function: Callable[..., Any], *args: Any, **attrs: Any) -> Any:
        """Calls the function.

        Raises:
            OperatorError: the rule raises; an `OperatorError` about the call itself is not wrapped.
        """
        try:
            return function(*args, **attrs)
        except OperatorError as error:
            if type(error) is not OperatorError or str(error).startswith(f"oneflow.{self.name}: "):
                raise
            raise self.error(str(error)) from None
        except Exception as error:
            raise self.error(f"{type(error).__name__}: {error}") from error

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        """A context in which the operator is being decomposed.

        Raises:
            InfiniteRecursionError: the operator occurs in its own decomposition too often for a decomposition that
                ends.
        """
        if _path.names.count(self.name) == MAX_RECURSION:
            cycle = [self.name, *_path.names[len(_path.names) - _path.names[::-1].index(self.name) :], self.name]
            raise InfiniteRecursionError(str(self.error(
                f"decomposes into itself: {' -> '.join(cycle)}; decompose one of these into other operators"
            )))  # fmt: skip
        _path.names.append(self.name)
        try:
            yield
        finally:
            _path.names.pop()


def guard(name: str, slot: str, function: Rule) -> Rule:
    """The function of a slot with a check, whose errors are reported as the user's."""
    rule, check = UserRule(name, slot, _location(function)), _CHECKS[slot]
    inside = rule.nested if slot == "decompose" else contextlib.nullcontext

    @functools.wraps(function)
    def guarded(*args: Any, **attrs: Any) -> Any:
        with inside():
            return check(rule, args, rule.call(function, *args, **attrs))

    return guarded


def _all_of(kind: type, value: Any) -> bool:
    return isinstance(value, (tuple, list, frozenset, set)) and all(isinstance(x, kind) for x in value)


#: The requirements of slots that are no rules of a call: the text and the test.
_OTHERS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "reference": ("a function of NumPy arrays", lambda x: callable(x) or isinstance(x, Absent)),
    "laws": ("a tuple of laws", lambda x: _all_of(Law, x)),
    "pure": ("True or False", lambda x: isinstance(x, bool)),
    "traits": ("a set of words", lambda x: _all_of(str, x)),
    "shapes_of": ("a tuple of operands", lambda x: _all_of(str, x)),
    **dict.fromkeys(
        ("nd_sbp", "complexity", "sharded_decomposition", "device_kernel", "in_place", "local"),
        ("a function of the call", callable),
    ),
}


def check_slots(name: str, slots: Mapping[str, Any]) -> None:
    """Checks the slots that are not guarded.

    Raises:
        SignatureError: a slot violates its requirement.
    """
    for slot, (wanted, fits) in _OTHERS.items():
        if slots.get(slot) is not None and not fits(slots[slot]):
            raise SignatureError(
                f"operator {name}: the slot {slot}: expected {wanted}, got {_described_value(slots[slot])}"
            )


def check_factors(signature: Signature, factors: Factors) -> Factors:
    """`factors`.

    Raises:
        SignatureError: the names differ from the operands and results of the signature.
    """
    try:
        ins, outs = factors.sides()
    except ValueError as error:
        raise SignatureError(f"operator {signature.name}: the slot sbp: {error}") from None
    for side, args, what in ((ins, signature.inputs, "operands"), (outs, signature.outputs, "results")):
        if all(a.is_single for a in args) and len(side) != max(len(args), 1):
            raise SignatureError(
                f"operator {signature.name}: the slot sbp: expected factors of {len(args)} {what}, "
                f"got {factors.text!r}"
            )
    return factors


def _location(function: Rule) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else type(function).__name__


def _described_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}.."


def _types(rule: UserRule, args: tuple[Any, ...], result: Any) -> tuple[TensorDesc, ...]:
    descs = (result,) if isinstance(result, TensorDesc) else result
    if not isinstance(descs, (tuple, list)) or not all(isinstance(d, TensorDesc) for d in descs):
        raise rule.expected("a TensorDesc for each result", result)
    _check_count(rule, args[0], len(descs), result)
    types = tuple(_checked_desc(rule, d) for d in descs)
    _check_ranks(args[0], types)
    return types


def _check_ranks(op: Call, results: tuple[TensorDesc, ...]) -> None:
    """Checks that factors which fit the operands of a call fit its results too."""
    if not isinstance(op.record.sbp, Factors):
        return
    ins, outs = (list(map(len, side)) for side in op.record.sbp.sides())
    ranks = [d.rank for d in results if d.shape is not None]
    if ins == [d.rank for d in op.operands] and len(outs) == len(ranks) and outs != ranks:
        described = ", ".join(map(str, results))
        raise op.error(
            f"its slot sbp: expected a factor for each dimension of {described}, got {op.record.sbp.text!r}"
        )


def _check_count(rule: UserRule, op: Call, count: int, result: Any) -> None:
    results = op.record.signature.outputs
    most = None if any(r.max_count is None for r in results) else sum(r.max_count or 0 for r in results)
    if count < sum(r.min_count for r in results) or (most is not None and count > most):
        raise rule.expected(f"something for each of the results {', '.join(map(str, results))}", result)


def _checked_desc(rule: UserRule, desc: TensorDesc) -> TensorDesc:
    """`desc` with sizes that are plain integers, which may be NumPy's integers."""
    try:
        shape = None if desc.shape is None else tuple(map(_plain_size, desc.shape))
    except TypeError:
        shape = (-1,)
    if not isinstance(desc.dtype, DType) or any(d is not None and d < 0 for d in shape or ()):
        described = f"{desc.shape} of {desc.dtype}"
        raise rule.error(f"expected sizes from 0 on, or None, and an element type, got {described}")
    return TensorDesc(shape, desc.dtype)


def _plain_size(size: Any) -> Dim:
    return size if size is None or isinstance(size, SizeSymbol) else operator.index(size)  # type: ignore[return-value]


def _sbp(rule: UserRule, args: tuple[Any, ...], result: Any) -> Any:
    if isinstance(result, Factors):
        check_factors(args[0].record.signature, result)
        return result
    op, signatures = args[0], list(result) if isinstance(result, (tuple, list)) else [result]
    sizes = (len(op.operands), len(op.results))
    for one in signatures:
        if not isinstance(one, SbpSignature) or (len(one.inputs), len(one.outputs)) != sizes:
            raise rule.expected("Factors, or SbpSignatures of every operand and result", result)
    return signatures


def _grad(rule: UserRule, args: tuple[Any, ...], result: Any) -> dict[str, Any]:
    if not isinstance(result, Mapping):
        raise rule.expected("a dict of gradients by the names of operands", result)
    inputs = args[1].inputs
    for name in result:
        if name not in inputs:
            advice = suggestion(str(name), inputs)
            raise rule.error(f"expected gradients by operands ({', '.join(inputs)}), got one by {name!r}{advice}")
    return {name: _gradients(rule, name, inputs[name], grad) for name, grad in result.items()}


def _gradients(rule: UserRule, name: str, operand: Any, grad: Any) -> Any:
    """The gradient of an operand, or the gradients of the tensors of a variadic operand."""
    if not isinstance(operand, tuple) or grad is None:
        return _gradient(rule, name, operand, grad)
    if not isinstance(grad, (tuple, list)) or len(grad) != len(operand):
        raise rule.expected(f"{len(operand)} gradients of {name}", grad)
    return [_gradient(rule, name, one, by) for one, by in zip(operand, grad, strict=True)]


def _gradient(rule: UserRule, name: str, operand: Any, grad: Any) -> Any:
    """A gradient or a deferred gradient; errors of a deferred gradient are errors of the rule."""
    if callable(grad):
        return lambda: _gradient(rule, name, operand, rule.call(grad))
    if grad is not None and not isinstance(grad, Value):
        raise rule.expected(f"a value that `ops` built as the gradient of {name}", grad)
    if grad is not None and operand is not None and not grad.desc.compatible(operand.desc):
        raise rule.error(f"expected a gradient of {name} of type {operand.desc}, got {grad.desc}")
    return grad


def _decompose(rule: UserRule, args: tuple[Any, ...], result: Any) -> Any:
    op, values = args[1], result if isinstance(result, (tuple, list)) else [result]
    if not all(isinstance(v, Value) for v in values):
        raise rule.expected("values that `ops` built", result)
    _check_count(rule, op, len(values), result)
    results = infer(op.record, Call(op.record, {k: describe(v) for k, v in op.inputs.items()}, op.attrs))
    for value, desc in zip(flatten(values), results, strict=True):
        if not value.desc.compatible(desc):
            raise rule.error(f"expected a result of type {desc}, got {value.desc}")
    return result


def _compute(rule: UserRule, args: tuple[Any, ...], result: Any) -> list[Stage]:
    stages = [result] if isinstance(result, Stage) else result
    if not isinstance(stages, (tuple, list)) or not all(isinstance(s, Stage) for s in stages):
        raise rule.expected("a stage of oneflow.dialect.compute for each result", result)
    _check_count(rule, args[0], len(stages), result)
    return list(stages)


def _scalar(rule: UserRule, args: tuple[Any, ...], result: Any) -> Expr:
    if not isinstance(result, Expr):
        raise rule.expected("an expression of flow.scalar", result)
    return result


_CHECKS: Mapping[str, Callable[[UserRule, tuple[Any, ...], Any], Any]] = {
    "types": _types,
    "sbp": _sbp,
    "grad": _grad,
    "decompose": _decompose,
    "compute": _compute,
    "scalar": _scalar,
}
