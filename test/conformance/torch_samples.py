"""PyTorch's own samples of its operators, on the functions of this project that have PyTorch's names.

    python test/conformance/torch_samples.py [--samples 3] [--dtype float32 int64 ..] [--only NAME ..] [--report FILE]

A sample of `op_db` is a call, which runs in eager mode with both packages. The results have to have the element
types, shapes and values of PyTorch's results, and the gradients of their weighted sum the values of PyTorch's
gradients. A call that PyTorch states as an error has to be refused; PyTorch states these calls without an element
type, so they run once. The table of each element type has a row for each operator: the numbers of equal samples, of
equal samples with gradients and of refused errors, and the differences; the sums follow. `REASONS` has the reasons of
differences; the last lines count differences by reason and list those without. The script needs the extra `torch`,
and the package `expecttest`, which PyTorch's samples import.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import oneflow as flow

#: Arguments of PyTorch's functions that say where results lie in memory, with the values that ask for nothing.
_IN_MEMORY = {"memory_format": torch.preserve_format, "layout": torch.strided, "pin_memory": False}
#: Operators that compute a matrix up to signs or bases, which PyTorch's samples bring into one form.
_UP_TO_SIGNS = frozenset("linalg.svd linalg.eig linalg.eigh linalg.qr svd qr geqrf pca_lowrank svd_lowrank".split())
#: Names that mean another function in this project, or whose samples are calls of a method.
_ANOTHER = frozenset("slice trace unfold to".split())
#: How the samples of operators give arguments that PyTorch's function takes in another order.
_ORDERS: dict[str, Callable[..., Any]] = {
    "einsum": lambda f: lambda tensors, equation: f(equation, tensors),
    "nn.functional.embedding": lambda f: lambda weight, index, **options: f(index, weight, **options),
    "polygamma": lambda f: lambda x, n, **options: f(n, x, **options),
    "special.polygamma": lambda f: lambda x, n, **options: f(n, x, **options),
    "where": lambda f: lambda x, condition, other, **options: f(condition, x, other, **options),
}
#: The tolerance, relative and absolute, of each element type; 1e-7 for others.
TOLERANCES = {"float32": 1e-4, "complex64": 1e-4, "float16": 2e-3, "bfloat16": 2e-2}
HALVES = (torch.float16, torch.bfloat16)
#: The reasons of differences: the operators as a regular expression, an expression that is found in the text of the
#: difference, and the reason.
REASONS = (
    (".*", r"not refused: (int|Tensor), (int|Tensor)$", "A number is taken where PyTorch takes tensors alone."),
    (".*", "not refused: (unsupported operation|the written-to)", "`out` may share the memory of an operand."),
    ("gather|complex", "not refused: Expected (out|object)", "`out` may have a wider element type, as elsewhere."),
    ("sort|argsort|argwhere|unique", "int32 for int64", "Positions are int32, as in OneFlow."),
    ("all|any", "bool for uint8", "The result is bool, as in OneFlow."),
    ("as_strided.*", "other values", "The sample is a part of other memory; the script copies the part alone."),
    ("norm.nuc", "OneFlowError", "Nuclear norms are refused, as in OneFlow."),
    (r".*polygamma.*", "other values", "From the second derivative on, only positive numbers have values."),
    ("addmv", "type float32", "A float as `alpha` converts integers; PyTorch rounds the float to an integer."),
    ("einsum", r"for int64", "The result has the element type of the operands."),
    (".*", "expected .* of type ", "OneFlow's kernels do not take this element type."),
    (".*", "real numbers|of floats|floating-point elements", "OneFlow's kernels do not take this element type."),
    ("view_as_complex|complex", r"got (tensor<(Nx)*)?fN", "There are no complex numbers of 16-bit parts."),
    ("addmm", "expected a number", "The factors of a product are real numbers."),
    (
        "nn.functional.scaled_dot.*",
        "other values",
        "On the CPU, scores of 16-bit queries and keys are rounded to 16 bits.",
    ),
    ("topk", "gradient of other values", "Positions among equal elements are another choice."),
)
_NUMBERS = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")


@dataclass
class Row:
    """The outcomes of the samples of one operator."""

    name: str
    equal: int = 0
    with_gradients: int = 0
    refused: int = 0
    different: collections.Counter[str] = field(default_factory=collections.Counter)

    def __str__(self) -> str:
        texts = [f"{count} x {text}" for text, count in self.different.most_common(4)]
        return f"| {self.name} | {self.equal} | {self.with_gradients} | {self.refused} | {'; '.join(texts)} |"


def counterpart(name: str) -> Callable[..., Any] | None:
    """The function with an operator's name, None if there is no such function."""
    module, _, last = name.rpartition(".")
    try:
        namespace = importlib.import_module(f"oneflow.{module}") if module else flow
    except ImportError:
        return None
    function = None if name in _ANOTHER else getattr(namespace, last, None)
    order = _ORDERS.get(name, lambda f: f)
    return order(function) if callable(function) else None


def converted(value: Any) -> Any:
    """An argument of PyTorch's function as one of this project's."""
    if isinstance(value, torch.Tensor):
        tensor = flow.tensor(np.array(array_of(value), order="C"))
        return tensor.requires_grad_() if value.requires_grad else tensor
    if isinstance(value, torch.dtype):
        return getattr(flow, str(value).removeprefix("torch."))
    return str(value) if isinstance(value, torch.device) else value


def array_of(value: torch.Tensor) -> np.ndarray:
    """The elements of a tensor of PyTorch."""
    plain = value.detach().resolve_conj().resolve_neg()
    is_bfloat16 = plain.dtype is torch.bfloat16
    array: np.ndarray = plain.view(torch.int16).numpy().view(flow.bfloat16.numpy) if is_bfloat16 else plain.numpy()
    return array


def tensors_of(result: Any, kind: type) -> list[Any]:
    """The tensors in a result, in order."""
    if isinstance(result, (tuple, list)):
        return [x for part in result for x in tensors_of(part, kind)]
    return [result] if isinstance(result, kind) else []


def difference(want: torch.Tensor, got: Any, what: str) -> str:
    """The difference between a result or gradient and PyTorch's as text; empty if equal."""
    dtypes = str(want.dtype).removeprefix("torch."), str(got.dtype).removeprefix("oneflow.")
    if dtypes[0] != dtypes[1]:
        return f"{what} of type {dtypes[1]} for {dtypes[0]}"
    if tuple(want.shape) != tuple(got.shape):
        return f"{what} of another shape"
    theirs, ours = array_of(want), got.detach().numpy()
    if not got.dtype.is_inexact:
        close = np.array_equal(theirs, ours)
    else:
        tolerance = TOLERANCES.get(dtypes[0], 1e-7)
        wide = got.dtype.complex.numpy
        close = np.allclose(theirs.astype(wide), ours.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True)
    return "" if close else f"{what} of other values"


def gradients(results: list[Any], inputs: list[Any], grad: Any, make: Callable[[np.ndarray], Any]) -> list[Any]:
    """The gradients of a weighted sum of the results that have gradients; all types of floats hold the weights."""
    roots = [x for x in results if x.requires_grad]
    weights = [make(np.round(np.linspace(32, 96, x.numel())).reshape(tuple(x.shape)) / 64) for x in roots]
    seeds = [w.to(x.dtype) for w, x in zip(weights, roots, strict=True)]
    return list(grad(roots, inputs, seeds, allow_unused=True)) if roots and inputs else []


def outcome(
    function: Callable[..., Any], arguments: Any, kind: type, grad: Any, make: Callable[[np.ndarray], Any]
) -> tuple[list[Any], list[Any]]:
    """The results of a call, and the gradients by its arguments."""
    first, args, kwargs = arguments
    results = tensors_of(function(first, *args, **kwargs), kind)
    inputs = [x for x in pytree.tree_leaves(arguments) if getattr(x, "requires_grad", False)]
    return results, gradients(results, inputs, grad, make)


def compare(row: Row, op: Any, function: Callable[..., Any], sample: Any, compared: int | None) -> str:
    """Runs one sample and compares the first results; the difference as text, empty if equal.

    Results of 16 bits may also be those of PyTorch in 64 bits: PyTorch rounds intermediate results to 16 bits.
    """
    kwargs = {k: v for k, v in sample.kwargs.items() if _IN_MEMORY.get(k, ()) != v}
    arguments = pytree.tree_map(lambda x: x, (sample.input, tuple(sample.args), kwargs))
    wanted = outcome(op.op, arguments, torch.Tensor, torch.autograd.grad, torch.tensor)
    given = outcome(function, pytree.tree_map(converted, arguments), flow.Tensor, flow.autograd.grad, flow.tensor)
    found = differences(wanted, given, compared)
    if found and any(x.dtype in HALVES for x in wanted[0]):
        precise = outcome(op.op, pytree.tree_map(widened, arguments), torch.Tensor, torch.autograd.grad, torch.tensor)
        dtype = next(x.dtype for x in wanted[0] if x.dtype in HALVES)
        rounded = pytree.tree_map(lambda x: x.to(dtype) if x.dtype == torch.float64 else x, precise)
        found = differences(rounded, given, compared) and found
    row.with_gradients += bool(wanted[1]) and not found
    return found


def widened(value: Any) -> Any:
    """A tensor of 16-bit floats with the same values in 64 bits; other arguments as they are."""
    if not isinstance(value, torch.Tensor) or value.dtype not in HALVES:
        return value
    return value.detach().double().requires_grad_(value.requires_grad)


def differences(wanted: tuple[list[Any], list[Any]], given: tuple[list[Any], list[Any]], compared: int | None) -> str:
    """The first difference of results and gradients as text, empty if equal."""
    (theirs, their_gradients), (ours, our_gradients) = wanted, given
    if len(theirs) != len(ours):
        return f"{len(ours)} results for {len(theirs)}"
    pairs = list(zip(theirs, ours, strict=True))[:compared]
    found = next(filter(None, (difference(*pair, "result") for pair in pairs)), "")
    if found:
        return found
    if len(their_gradients) != len(our_gradients):
        return "no gradient" if their_gradients else "a gradient"
    pairs = [(w, g) for w, g in zip(their_gradients, our_gradients, strict=True) if w is not None]
    if any(g is None for _, g in pairs):
        return "no gradient"
    return next(filter(None, (difference(w, g, "gradient") for w, g in pairs)), "")


def one_line(error: BaseException) -> str:
    """The text of an error without locations and numbers."""
    text = re.sub(r"^\S+:\d+: ", "", next(iter(str(error).splitlines()), ""))
    return f"{type(error).__name__}: {_NUMBERS.sub('N', text)}"[:110]


def run(
    op: Any,
    function: Callable[..., Any],
    dtype: torch.dtype,
    count: int,
    compared: int | None = None,
    with_errors: bool = True,
) -> Row:
    """The row of one operator, of whose results the first are compared, with the calls that are errors or without."""
    row = Row(f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}")
    needs_grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=needs_grad), count):
        try:
            found = compare(row, op, function, sample, compared)
        except Exception as error:
            found = one_line(error)
        if found:
            row.different[found] += 1
        else:
            row.equal += 1
    for text in errors(op, function) if with_errors else ():
        if text:
            row.different[text] += 1
        else:
            row.refused += 1
    return row


def errors(op: Any, function: Callable[..., Any]) -> Iterator[str]:
    """For each call that PyTorch states as an error: an empty text if the call is refused, else a line."""
    if op.error_inputs_func is None:
        return
    for wrong in op.error_inputs("cpu"):
        sample = wrong.sample_input
        try:
            first, args, kwargs = pytree.tree_map(converted, (sample.input, tuple(sample.args), sample.kwargs))
            function(first, *args, **kwargs)
        except Exception:
            yield ""
        else:
            given = ", ".join(type(x).__name__ for x in (sample.input, *sample.args))
            yield f"not refused: {_NUMBERS.sub('N', wrong.error_regex)[:60] or given}"


def reason(operator: str, text: str) -> str:
    """The reason of a difference; empty if the table has none."""
    rows = (why for names, texts, why in REASONS if re.fullmatch(names, operator) and re.search(texts, text))
    return next(rows, "")


def report(dtype: str, rows: list[Row]) -> list[str]:
    """The table of an element type, the sums, and the differences by reason."""
    lines = [
        f"## {dtype}",
        "",
        "| operator | equal | with gradients | refused | different |",
        "| --- | --- | --- | --- | --- |",
    ]
    found = [(row.name, text, count) for row in rows for text, count in row.different.items()]
    reasons: collections.Counter[str] = collections.Counter()
    for name, text, count in found:
        reasons[reason(name, text)] += count
    sums = (
        f"{dtype}: {len(rows)} operators, {sum(not row.different for row in rows)} of them equal in all samples;"
        f" samples: {sum(r.equal for r in rows)} equal, {sum(r.with_gradients for r in rows)} with gradients;"
        f" {sum(r.refused for r in rows)} errors refused;"
        f" {reasons.total()} differences, {reasons['']} without a reason"
    )
    stated = [f"- {count} x {why}" for why, count in reasons.most_common() if why]
    others = [f"- {count} x {name}: {text}" for name, text, count in found if not reason(name, text)]
    return [*lines, *map(str, rows), "", sums, *stated, *others, ""]


def rows_of(dtype: torch.dtype, count: int, only: list[str] | None, with_errors: bool) -> tuple[list[Row], list[str]]:
    """The rows of an element type, and the operators without counterpart."""
    from torch_operators import CHOICES, operators  # noqa: PLC0415  (PyTorch's samples take long to import)

    rows, missing = [], []
    for op in operators(dtype):
        if op.name in _UP_TO_SIGNS or (only is not None and op.name not in only):
            continue
        function = counterpart(op.name)
        if function is None:
            missing.append(op.name)
        else:
            rows.append(run(op, function, dtype, count, 1 if op.name in CHOICES else None, with_errors))
            sys.stderr.write(f"{rows[-1]}\n")
    return rows, missing


def main() -> None:
    """Runs the samples and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=3, help="samples of each operator")
    parser.add_argument("--dtype", nargs="+", default=["float32"], help="the element types of the samples")
    parser.add_argument("--only", nargs="*", help="the operators, by name")
    parser.add_argument("--report", type=Path, help="the file to write to; standard output without it")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    lines, missing = [], set()
    for index, dtype in enumerate(args.dtype):
        rows, absent = rows_of(getattr(torch, dtype), args.samples, args.only, with_errors=index == 0)
        lines += report(dtype, rows)
        missing.update(absent)
    text = "\n".join([*lines, "without counterpart: " + " ".join(sorted(missing))]) + "\n"
    if args.report:
        args.report.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
