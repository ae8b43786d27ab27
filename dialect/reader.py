"""Reading programs: text to a verified module in normal form.

Text that MLIR's own verifier accepts is read directly into a context with the dialect. Otherwise
(an unknown operator, a missing `operandSegmentSizes`, a list of different shapes, OneFlow's spellings), the
text is read once more where `oneflow` is not registered, brought into normal form, checked by the records so
that messages speak of operands by name, and read again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.forward_references import find_forward_reference
from oneflow.dialect.job_text import is_job_text, mlir_text, refused_job_text
from oneflow.dialect.jobs import convert_jobs
from oneflow.dialect.program_attributes import report_attributes
from oneflow.dialect.record import REGISTRY, Operator, Registry, distribute
from oneflow.dialect.signature import ArgDef
from oneflow.dialect.tensor_desc import common_type
from oneflow.dialect.text_validation import find_invalid_text


@dataclass(frozen=True)
class Diagnostic:
    """A message: its severity, text and location (`file:line:col`, or `<unknown>:0`)."""

    severity: str
    message: str
    location: str
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.location}: {self.severity}: {self.message}"]
        return "\n".join([*lines, *map(str, self.notes)])


class ProgramError(ValueError):
    """A program that cannot be read; `diagnostics` say where and why."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = diagnostics


@dataclass
class Collector:
    """A context manager that collects the diagnostics of a context.

    `name` is the file of the program; `report` receives each diagnostic at once.
    """

    context: ir.Context
    name: str = "-"
    diagnostics: list[Diagnostic] = field(default_factory=list)
    report: Callable[[Diagnostic], None] = lambda diagnostic: None

    def __enter__(self) -> Collector:
        self._handler = self.context.attach_diagnostic_handler(self._collect)
        return self

    def __exit__(self, *_: object) -> None:
        self._handler.detach()
        del self._handler  # the handler holds this object, and thereby the context

    def _collect(self, diagnostic: ir.Diagnostic) -> bool:
        self.add(convert_diagnostic(diagnostic, self.name))
        return True

    def add(self, diagnostic: Diagnostic) -> None:
        """Appends a diagnostic."""
        self.diagnostics.append(diagnostic)
        self.report(diagnostic)


def convert_diagnostic(diagnostic: ir.Diagnostic, name: str = "-") -> Diagnostic:
    """An MLIR diagnostic, or the plain form that `MLIRError` carries, as ours."""
    severity, where = str(diagnostic.severity).rpartition(".")[2].lower(), file_line_column(diagnostic.location, name)
    custom = _CUSTOM_FORM.search(str(diagnostic.message))
    if custom is not None:
        return Diagnostic(severity, _GENERIC_FORM.format(custom[1]), where)
    notes = tuple(convert_diagnostic(n, name) for n in diagnostic.notes)
    return Diagnostic(severity, str(diagnostic.message), where, notes)


#: MLIR's message about an operator without quotes, and the correct form.
_CUSTOM_FORM = re.compile(r"for custom op '(oneflow\.\w+)'")
_GENERIC_FORM = (
    "expected an operator in the generic form, its name in quotes and a type for each operand and result: "
    '"{}"(%x) {{name = value}} : (tensor<..>) -> tensor<..>'
)
_FILE_LOC = re.compile(r'"(?P<file>[^"]*)":(?P<line>\d+):(?P<col>\d+)')


def file_line_column(location: ir.Location, name: str = "-") -> str:
    """`file:line:col`, the first in a location (`name` for text that came without a file), or `<unknown>:0`.

    The text for a whole program, which has no line, is `file`.
    """
    match = _FILE_LOC.search(str(location))
    if match is None:
        return "<unknown>:0"
    file = name if match["file"] == "-" else match["file"]
    return file if match["line"] == "0" else f"{file}:{match['line']}:{match['col']}"


def read_module(
    text: str, context: ir.Context, name: str = "-", registry: Registry = REGISTRY, *, verify: bool = True
) -> ir.Module:
    """The module that `text` writes, in normal form and verified.

    Args:
        text: a program; `name` is its file, for messages.
        context: one made by `create_context`.
        registry: the operators of that context.
        verify: whether to check the operators' rules.

    Raises:
        ProgramError: the text is not MLIR, or breaks an operator's rules.
    """
    text = _with_mlir_names(text, registry)
    is_job = is_job_text(text)
    plain = mlir_text(text) if is_job else text
    reference = find_forward_reference(plain)
    reason = (refused_job_text(text) if is_job else None) or find_invalid_text(plain, reference)
    if reason is not None:
        raise ProgramError([Diagnostic("error", reason.message, f"{name}:{reason.line}:{reason.column}")])
    if is_job or reference is not None:
        # An operation that a context does not know ends the parse as a wrong text does.
        text = _normal_text(plain, name, registry, None)
    _declare(text, context, registry)
    with context:
        try:
            module = _parse(text, name)
        except ProgramError as error:
            module = _parse(_normal_text(text, name, registry, error), name)
        if _SIGNED.search(text):
            _signless_types(module.operation)
        normalize(module.operation, registry)
        if verify:
            with Collector(context, name) as collector:
                if not report_attributes(module) or not dialect.verify(module.operation, registry):
                    raise ProgramError(collector.diagnostics)
    return module


def _with_mlir_names(text: str, registry: Registry) -> str:
    """The text with the operators' own names in place of OneFlow's that MLIR does not take."""

    def name_of(match: re.Match[str]) -> str:
        record = registry.find(match[1])
        return f'"oneflow.{match[1] if record is None else record.name}"'

    return _REFUSED_NAME.sub(name_of, text)


def _declare(text: str, context: ir.Context, registry: Registry) -> None:
    """Makes the operators that a text names known to its context."""
    names = dict.fromkeys(_OPERATOR.findall(text))
    dialect.declare(context, [record for record in map(registry.find, names) if record is not None])


def _parse(text: str, name: str) -> ir.Module:
    """The module of `text`, through the file `name` where that file is the source, so that locations name the
    file.
    """
    try:
        module = ir.Module.parseFile(name) if _is_content(text, name) else ir.Module.parse(text)
    except ir.MLIRError as error:
        raise ProgramError([convert_diagnostic(d, name) for d in error.error_diagnostics]) from None
    if "complex<" in text:
        _refuse_complex_elements(module.operation, name)
    return module


def _refuse_complex_elements(root: ir.Operation, name: str) -> None:
    """Refuses attributes that list complex elements, whose values MLIR's Python bindings cannot read."""
    refused: list[Diagnostic] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        try:
            op.attributes.values()
        except TypeError:
            message = f"{op.name}: expected no attribute that lists complex elements; {_COMPLEX_REMEDY}"
            refused.append(Diagnostic("error", message, file_line_column(op.location, name)))
        return ir.WalkResult.ADVANCE

    root.walk(visit)
    if refused:
        raise ProgramError(refused)


_COMPLEX_REMEDY = "list the real and the imaginary parts, and join the two with oneflow.view_as_complex"


def _is_content(text: str, name: str) -> bool:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return name != "-" and Path(name).read_text(encoding="utf-8") == text
    return False


def _normal_text(text: str, name: str, registry: Registry, failure: ProgramError | None) -> str:
    """The program in normal form, by a context that accepts any operation.

    `failure` is why the text could not be read directly; None for OneFlow's own programs and programs with forward
    references, which are not read directly.

    Raises:
        ProgramError: the program is wrong, not merely spelt otherwise.
    """
    loose = ir.Context()
    loose.allow_unregistered_dialects = True
    with loose, Collector(loose, name) as collector:
        module = _parse(text, name)
        if failure is None:
            convert_jobs(module.operation, registry)
        if not collector.diagnostics:
            report_unknown(module.operation, registry)
        changed = not collector.diagnostics and normalize(module.operation, registry)
        if not collector.diagnostics:
            dialect.verify(module.operation, registry)
        if collector.diagnostics:
            raise ProgramError(collector.diagnostics)
        if failure is not None and not changed:
            raise failure
        return str(module.operation.get_asm(enable_debug_info=True))


def report_unknown(root: ir.Operation, registry: Registry) -> None:
    """Emits an error at each operation of the dialect that no record defines."""

    def visit(op: ir.Operation) -> None:
        name = op.name[len(dialect.PREFIX) :]
        if name not in registry:
            op.location.emit_error(registry.unknown(name))

    dialect.walk(root, visit)


def normalize(root: ir.Operation, registry: Registry = REGISTRY) -> bool:
    """Brings every operation of the dialect into normal form; whether anything changed.

    Canonical attributes, `operandSegmentSizes` where counts are ambiguous, and one type for the tensors of a
    variadic operand.
    """
    changed = False
    operations: list[ir.Operation] = []
    dialect.walk(root, operations.append)
    for op in operations:
        record = registry[op.name[len(dialect.PREFIX) :]]
        changed |= _canonical_attributes(op, record)
        # Operations that violate the signature stay: verification reports them.
        with contextlib.suppress(ValueError):
            changed |= _segment_sizes(op, record)
            changed |= share_types(op, record)
    return changed


_OPERATOR = re.compile(r'"oneflow\.(\w+)"')
#: An operator whose name begins with an underscore or has an upper-case letter.
_REFUSED_NAME = re.compile(r'"oneflow\.(_\w+|\w*[A-Z]\w*)"(?=\s*\()')
_SIGNED = re.compile(r"(?:(?<=x)|\b)si(8|16|32|64)\b")


def _signless_types(root: ir.Operation) -> None:
    """Converts OneFlow's signed integers to signless integers, in values and in function types."""

    def visit(op: ir.Operation) -> ir.WalkResult:
        arguments = [a for region in op.regions for block in region for a in block.arguments]
        for value in (*op.results, *arguments):
            text = str(value.type)
            if _SIGNED.search(text):
                value.set_type(ir.Type.parse(_SIGNED.sub(r"i\1", text)))
        if "function_type" in op.attributes:
            text = str(op.attributes["function_type"])
            op.attributes["function_type"] = ir.Attribute.parse(_SIGNED.sub(r"i\1", text))
        return ir.WalkResult.ADVANCE

    root.walk(visit)


def _canonical_attributes(op: ir.Operation, record: Operator) -> bool:
    changed = False
    attributes = op.attributes
    for name in attributes:
        known = record.signature.attr_by_name.get(name)
        if known is None:
            continue
        try:
            canonical = known.kind.write(known.kind.read(attributes[name]))
        except ValueError:
            continue
        if canonical != attributes[name]:
            attributes[name] = canonical
            changed = True
    return changed


def _segment_sizes(op: ir.Operation, record: Operator) -> bool:
    """Spells segment sizes MLIR's way, and adds missing sizes where the record determines the sizes from the count.

    Optional operands and results that OneFlow lacks are the last: the sizes in its programs omit these.
    """
    changed = False
    pairs = (
        (dialect.OPERAND_SEGMENTS, record.signature.inputs, list(op.operands)),
        (dialect.RESULT_SEGMENTS, record.signature.outputs, list(op.results)),
    )
    for (spelling, *others), args, values in pairs:
        for other in others:
            if other in op.attributes:
                op.attributes[spelling] = op.attributes[other]
                del op.attributes[other]
                changed = True
        sizes = dialect.segments(op.attributes, [spelling], args)
        if sizes is not None and len(sizes) < len(args) and all(a.is_optional for a in args[len(sizes) :]):
            op.attributes[spelling] = ir.DenseI32ArrayAttr.get([*sizes, *[0] * (len(args) - len(sizes))])
            changed = True
        elif sizes is None and (sum(not a.is_single for a in args) > 1 or any(a.mixed for a in args)):
            groups = distribute(args, values, None).values()
            sizes = [len(g) if isinstance(g, tuple) else int(g is not None) for g in groups]
            op.attributes[spelling] = ir.DenseI32ArrayAttr.get(dialect.segment_sizes(args, sizes))
            changed = True
    return changed


def share_types(op: ir.Operation, record: Operator) -> bool:
    """Casts the tensors of a variadic operand, or result, to their common type."""
    if not any(a.is_variadic for a in (*record.signature.inputs, *record.signature.outputs)):
        return False
    changed = False
    operands = list(op.operands)
    for group in _repeated(op, dialect.OPERAND_SEGMENTS, record.signature.inputs, len(operands)):
        if len({operands[i].type for i in group}) > 1:
            target = common_type([dialect.desc_of(operands[i]) for i in group]).to_mlir()
            for i in group:
                with ir.InsertionPoint(op), op.location:
                    op.operands[i] = ir.Operation.create(dialect.CAST, [target], [operands[i]]).result
            changed = True
    results = list(op.results)
    for group in _repeated(op, dialect.RESULT_SEGMENTS, record.signature.outputs, len(results)):
        if len({results[i].type for i in group}) > 1:
            target = common_type([dialect.desc_of(results[i]) for i in group]).to_mlir()
            for i in group:
                _widen_result(op, results[i], target)
            changed = True
    return changed


def _repeated(op: ir.Operation, names: Sequence[str], args: Sequence[ArgDef], count: int) -> list[tuple[int, ...]]:
    """The indices of the values of each variadic operand or result."""
    groups = distribute(args, range(count), dialect.segments(op.attributes, names, args))
    return [groups[a.name] for a in args if a.is_variadic and not a.mixed and groups[a.name]]


def _widen_result(op: ir.Operation, result: ir.Value, target: ir.Type) -> None:
    """Gives a result the type `target` and its users a cast back to the previous type."""
    stated = result.type
    if stated == target:
        return
    result.set_type(target)
    with ir.InsertionPoint.after(op), op.location:
        back = ir.Operation.create(dialect.CAST, [stated], [result])
    result.replace_all_uses_except(back.result, back)
