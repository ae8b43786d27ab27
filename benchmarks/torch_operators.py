"""PyTorch's own samples of its operators, run through the importer: values and gradients against eager PyTorch.

    python benchmarks/torch_operators.py [--samples 3] [--dtype float32] [--only NAME ..] [--table]

Each sample of `op_db` is traced to functional ATen, forward and backward together, and compiled. A row says how many
samples were equal, and why others were not run: the operators without a counterpart, or the importer's reason. The
exit status is 1 if a sample has other values than PyTorch. The script needs the extra `torch`.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from functorch.compile import aot_function
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from oneflow.frontend.importers.torch.backend import compiled
from oneflow.frontend.importers.torch.errors import UnsupportedError

#: Operators whose results are random, uninitialized, or not tensors of numbers.
UNCOMPARABLE = frozenset(
    "bernoulli cauchy empty empty_like empty_permuted empty_strided exponential geometric log_normal multinomial "
    "new_empty new_empty_strided normal rand_like randint randint_like randn randn_like uniform "
    "nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d "
    "nn.functional.alpha_dropout nn.functional.rrelu nn.functional.feature_alpha_dropout "
    "nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d "
    "nn.functional.multi_head_attention_forward torch.ops.aten._safe_softmax.default".split()
)


#: Operators whose further results are positions, which PyTorch chooses freely among equal elements.
CHOICES = frozenset(("topk", "kthvalue", "median", "nanmedian"))


@dataclass
class Row:
    """The outcomes of the samples of one operator."""

    name: str
    equal: int = 0
    with_gradients: int = 0
    missing: collections.Counter[str] = field(default_factory=collections.Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        others = [f"{count} x {reason}" for reason, count in self.missing.items()]
        counts = f"{self.equal} equal, {self.with_gradients} of them with gradients"
        return " | ".join([self.name, counts, *others, *(f"WRONG {text}" for text in self.wrong)])


@dataclass(frozen=True)
class Sample:
    """A call of an operator as a function of the tensor arguments alone."""

    call: Callable[..., Any]
    tensors: list[torch.Tensor]

    def values(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """The results that are tensors."""
        return [x for x in pytree.tree_leaves(self.call(*tensors)) if isinstance(x, torch.Tensor)]

    def values_and_gradients(self, function: Callable[..., list[torch.Tensor]]) -> tuple[list[torch.Tensor], int]:
        """The results of `function`, with the gradients of the weighted sum of results; the number of gradients."""
        tensors = [x.detach().requires_grad_(x.requires_grad) for x in self.tensors]
        results = function(*tensors)
        inputs = [x for x in tensors if x.requires_grad]
        floats = [x for x in results if x.requires_grad]
        if not inputs or not floats:
            return results, 0
        weights = [torch.linspace(0.5, 1.5, x.numel(), dtype=x.dtype).reshape(x.shape) for x in floats]
        input_gradients = torch.autograd.grad(floats, inputs, weights, allow_unused=True)
        gradients = [g for g in input_gradients if g is not None]
        return [*results, *gradients], len(gradients)


def samples(op: Any, dtype: torch.dtype, count: int) -> Iterator[Sample]:
    """The first samples of an operator."""
    needs_grad = op.supports_autograd and dtype.is_floating_point
    inputs = op.sample_inputs("cpu", dtype, requires_grad=needs_grad)
    comparable = (sample for sample in inputs if not sample.kwargs.get("dropout_p"))
    for sample in itertools.islice(comparable, count):
        leaves, tree = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        positions = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

        def call(*tensors: torch.Tensor, leaves: Any = leaves, tree: Any = tree, positions: Any = positions) -> Any:
            values = list(leaves)
            for position, tensor in zip(positions, tensors, strict=True):
                values[position] = tensor
            first, args, kwargs = pytree.tree_unflatten(values, tree)
            return op(first, *args, **kwargs)

        yield Sample(call, [leaves[i] for i in positions])


def run(row: Row, sample: Sample) -> None:
    """Compares the results and gradients of one sample."""
    wanted, _ = sample.values_and_gradients(sample.values)
    compiler = functools.partial(compiled, fallback=False)
    try:
        values, gradients = sample.values_and_gradients(aot_function(sample.values, compiler, compiler))
    except UnsupportedError as error:
        row.missing[", ".join(error.reasons)] += 1
        return
    compared = 1 if row.name in CHOICES and not wanted[0].is_floating_point() else None
    for want, got in list(zip(wanted, values, strict=True))[:compared]:
        text = difference(want.detach(), got.detach())
        if text:
            row.wrong.append(f"{text} for {[tuple(x.shape) for x in sample.tensors]}")
            return
    row.equal += 1
    row.with_gradients += bool(gradients)


def difference(want: torch.Tensor, got: torch.Tensor) -> str:
    """The difference of a result as text; empty if equal within the tolerance of the element type."""
    try:
        tolerance = {"rtol": 1e-4, "atol": 1e-4} if want.dtype == torch.float32 else {}
        torch.testing.assert_close(got, want, equal_nan=True, check_stride=False, **tolerance)
    except AssertionError as error:
        return " ".join(str(error).split())[:160]
    return ""


def measure(op: Any, dtype: torch.dtype, count: int) -> Row:
    """The row of one operator."""
    row = Row(f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}")
    for sample in samples(op, dtype, count):
        try:
            run(row, sample)
        except Exception as error:
            row.missing[f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"] += 1
    return row


@functools.cache
def operators(dtype: torch.dtype) -> list[Any]:
    """The operators of `op_db` with samples of an element type and comparable results."""
    return [op for op in op_db if op.name not in UNCOMPARABLE and dtype in op.supported_dtypes("cpu")]


def main() -> int:
    """Prints a row for each operator, then the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=3, help="samples of each operator")
    parser.add_argument("--dtype", default="float32", help="the element type of the samples")
    parser.add_argument("--only", nargs="*", help="the operators, by name")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    dtype = getattr(torch, arguments.dtype)
    rows = []
    for op in operators(dtype):
        if arguments.only is None or op.name in arguments.only:
            rows.append(measure(op, dtype, arguments.samples))
            print(rows[-1], flush=True)
    counts = {
        "operators": len(rows),
        "with all samples equal": sum(bool(r.equal) and not r.missing and not r.wrong for r in rows),
        "with some samples equal": sum(bool(r.equal) for r in rows),
        "samples equal": sum(r.equal for r in rows),
        "samples without counterpart": sum(r.missing.total() for r in rows),
        "samples wrong": sum(len(r.wrong) for r in rows),
    }
    print(", ".join(f"{name}: {count}" for name, count in counts.items()))
    return int(any(r.wrong for r in rows))


if __name__ == "__main__":
    sys.exit(main())
