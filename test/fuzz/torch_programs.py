"""Random programs with views and in-place updates: `python test/fuzz/torch_programs.py --count 10000`.

A case is Python text that PyTorch and this package run: given tensors, views, results of operators, in-place updates.
At the end the value of every tensor has to equal PyTorch's: in eager mode, as a compiled function of the given
tensors, and as a compiled function that captures the given tensors. With `# gradient` the gradients by the given
tensors have to agree, too. Programs that PyTorch refuses are left out. The fuzzer needs PyTorch.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import torch
from common import main, without_lines

import oneflow as flow

GRADIENT = "# gradient"
DTYPES = ("float32", "float32", "float32", "float64", "int64")
SHAPES = ((4, 6), (2, 3, 4), (6,), (1, 5), (3, 1, 2), (4, 4), (1,), (2, 2, 2, 3), (0, 3))
TOLERANCE = 1e-4
#: Errors of this package for programs that PyTorch runs: an update of a view whose elements overlap in memory.
REFUSED = ("several elements are one in memory",)

Names = dict[str, Any]
Draw = random.Random


def given(library: ModuleType, number: int, dtype: str, *shape: int) -> Any:
    """Tensor `number` of a program; all elements differ."""
    array = np.random.default_rng(number).permutation(int(np.prod(shape))).reshape(shape) - 5
    return library.tensor((array / (1 if dtype == "int64" else 4)).astype(dtype))


def dim(draw: Draw, x: torch.Tensor) -> int:
    """A dimension, counted from either end."""
    return draw.randrange(-x.ndim, x.ndim)


def index(draw: Draw, x: torch.Tensor) -> str:
    """The text of an index: a number, a slice or an ellipsis for some dimensions, or a new dimension."""
    parts = []
    for size in x.shape[: draw.randint(1, x.ndim)]:
        first = draw.randrange(size) if size else 0
        last, step = draw.randint(first + 1, max(size, first + 1)), draw.choice((1, 1, 2))
        parts.append(draw.choice((str(first), f"{first}:{last}:{step}", f"-{size - first}:", ":")))
    return ", ".join(draw.choice((parts, parts, ["None", *parts], ["...", *parts[-1:]])))


def cut(draw: Draw, x: torch.Tensor) -> str:
    """The arguments of `narrow`."""
    axis = dim(draw, x)
    first = draw.randint(0, x.shape[axis])
    return f"{axis}, {first}, {draw.randint(0, x.shape[axis] - first)}"


def order(draw: Draw, x: torch.Tensor) -> str:
    """A permutation of the dimensions."""
    return ", ".join(map(str, draw.sample(range(x.ndim), x.ndim)))


def other_shape(draw: Draw, x: torch.Tensor) -> str:
    """Another shape of as many elements."""
    count, shape = x.numel(), []
    for size in (2, 3, 4):
        if count and count % size == 0 and draw.random() < 0.6:
            shape.append(size)
            count //= size
    return ", ".join(map(str, draw.sample([*shape, count or -1], len(shape) + 1))) if x.numel() else "-1"


#: Views of a tensor `x`: expressions in which `PARTS` replaces `{name}`.
TAKEN = (
    "{x}[{index}]", "{x}[{index}]", "{x}[{index}]", "{x}.t()", "{x}.T", "{x}.transpose({dim}, {dim})",
    "{x}.permute({order})", "{x}.reshape({shape})", "{x}.view({shape})", "{x}.reshape(-1)", "{x}.flatten()",
    "{x}.unsqueeze({dim})", "{x}.squeeze()", "{x}.squeeze({dim})", "{x}.narrow({cut})", "{x}.select({dim}, 0)",
    "{x}.chunk(2, {dim})[-1]", "{x}.split(2, {dim})[0]", "{x}.unbind({dim})[0]", "{x}.movedim({dim}, {dim})",
    "{x}.detach()", "{x}.contiguous()", "{x}.expand(2, *{x}.shape)", "{x}.expand_as({x})", "{x}.data",
    "{x}.broadcast_to({x}.shape)",
)  # fmt: skip
#: Expressions that compute new tensors.
MADE = (
    "{x}.clone()", "{x} * 2", "{x} + {y}", "{x}.relu()", "{x}.flip({dim})", "{x}.repeat(2, *[1] * ({x}.ndim - 1))",
    "{x}.sum({dim})", "{x}.sum({dim}, keepdim=True)", "{x}.amax({dim})", "{x}.cumsum({dim})", "{x}.abs()",
    "{x}.clamp(-1, 2)", "{lib}.cat([{x}, {y}], {dim})", "{lib}.stack([{x}, {x}], {dim})", "{x}.tril()", "-{x}",
    "{lib}.where({x} > 0, {x}, {y})", "{x}.roll(1, {dim})", "{x}.to({x}.dtype)", "{x} @ {y}", "{x}.float()",
    "{x}.masked_fill({x} > 1, 7)", "{x}.double()", "{x}.mean({dim})", "{x}.prod({dim})", "{lib}.maximum({x}, {y})",
)  # fmt: skip
#: Updates of a tensor.
UPDATES = (
    "{x}.fill_(3)", "{x}.zero_()", "{x}.add_(2)", "{x}.mul_(3)", "{x}.add_({y})", "{x}.copy_({y})", "{x}.sub_({y})",
    "{x}.clamp_(-1, 2)", "{x}[{index}] = 9", "{x}[{index}] += 1", "{x}[{index}] = {y}", "{x} += 1", "{x} *= {y}",
    "{x}.masked_fill_({x} > 1, 0)", "{x}.relu_()", "{x}.neg_()", "{x}[{x} > 2] = 0", "{x}.add_({x})",
    "{x}.copy_({x} * 2)", "{x}.add_({y}, alpha=2)", "{x}.reshape(-1).fill_(4)", "{x}.flatten()[{first}] = 6",
    "{x}.t().mul_(2)", "{x}[{index}].add_(1)", "{x}.contiguous().zero_()", "{x}.data.mul_(2)", "{x}.detach().add_(1)",
)  # fmt: skip
PARTS: Mapping[str, Callable[[Draw, torch.Tensor], Any]] = {
    "index": index, "dim": dim, "order": order, "shape": other_shape, "cut": cut, "first": lambda draw, x: 0,
}  # fmt: skip


def statement(draw: Draw, names: Names, number: int) -> str:
    """A line on existing tensors."""
    tensors = {n: x for n, x in names.items() if isinstance(x, torch.Tensor)}
    x = draw.choice(list(tensors)[-4:] if draw.random() < 0.5 else list(tensors))
    alike = [n for n, y in tensors.items() if is_operand(tensors[x], y)]
    kind = draw.choice((TAKEN, TAKEN, MADE, UPDATES, UPDATES))
    made = filled(draw, draw.choice(kind), tensors[x], {"x": x, "y": draw.choice(alike), "lib": "lib"})
    return made if kind is UPDATES else f"v{number} = {made}"


def is_operand(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether `y` may be an operand of an update of `x`: partial overlap would make the order of reads matter."""
    if y.shape != x.shape or y.dtype != x.dtype:
        return False
    apart = y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    return bool(apart or (y.data_ptr() == x.data_ptr() and y.stride() == x.stride()))


def filled(draw: Draw, text: str, x: torch.Tensor, known: Mapping[str, str]) -> str:
    """The text with a random draw in place of each part."""
    while "{" in text:
        before, _, rest = text.partition("{")
        name, _, after = rest.partition("}")
        text = f"{before}{known[name] if name in known else PARTS[name](draw, x)}{after}"
    return text


def execute(code: str | CodeType, library: ModuleType, names: Names) -> Names:
    """Runs lines with `names` as the namespace."""
    names.setdefault("lib", library)
    names.setdefault("given", lambda *arguments: given(library, *arguments))
    if library is torch and isinstance(code, str):
        for line in code.splitlines():
            exec(line, names)
            order_memory(names)
    else:
        exec(code, names)
    return names


def order_memory(names: Names) -> None:
    """Makes tensors contiguous that share memory with no other tensor.

    PyTorch gives the result of an element-wise function the strides of its operand, and `contiguous` then copies
    the result; in this package, as in OneFlow, results are contiguous.
    """
    tensors = {n: x for n, x in names.items() if isinstance(x, torch.Tensor)}
    storages = Counter(x.untyped_storage().data_ptr() for x in tensors.values())
    for name, x in tensors.items():
        if not x.is_contiguous() and storages[x.untyped_storage().data_ptr()] == 1 and x._base is None:
            names[name] = x.contiguous()


def values(names: Names, library: ModuleType) -> dict[str, np.ndarray]:
    """The tensors of a program as arrays."""
    kind = torch.Tensor if library is torch else flow.Tensor
    return {n: np.array(x.detach().numpy()) for n, x in names.items() if isinstance(x, kind)}


class Compiled:
    """A program as a compiled function; with `outside`, the given tensors are captured instead of arguments."""

    def __init__(self, code: str, outside: bool) -> None:
        self.first = [line for line in code.splitlines() if "given(" in line]
        self.rest = compile("\n".join(line for line in code.splitlines() if "given(" not in line), "case", "exec")
        self.outside = outside

    def run(self) -> dict[str, np.ndarray]:
        """The values of all tensors after a call."""
        start = execute("\n".join(self.first), flow, {})
        tensors = {n: x for n, x in start.items() if isinstance(x, flow.Tensor)}
        made: list[str] = []

        def body(*arguments: Any) -> Any:
            names = execute(self.rest, flow, dict(zip(tensors, arguments, strict=True)))
            found = {n: x for n, x in names.items() if isinstance(x, flow.Tensor)}
            made[:] = [n for n in found if n not in tensors]
            return tuple(found[n] for n in made)

        if self.outside:
            results = flow.compile(lambda: body(*tensors.values()))()
        else:
            results = flow.compile(body)(*tensors.values())
        return values({**tensors, **dict(zip(made, results, strict=True))}, flow)


def eager(code: str) -> dict[str, np.ndarray]:
    """The values of all tensors in eager mode."""
    return values(execute(code, flow, {}), flow)


def gradients(code: str, library: ModuleType) -> dict[str, np.ndarray] | None:
    """The gradients by the given floating-point tensors; None if the library refuses to compute the gradients.

    A write through `data` is a write through `detach()` here: PyTorch does not notice the first, and computes with
    overwritten values that a gradient needs.
    """
    lines = code.replace(".data", ".detach()").splitlines()
    first = execute("\n".join(line for line in lines if "given(" in line), library, {})
    kind = torch.Tensor if library is torch else flow.Tensor
    leaves = {n: x for n, x in first.items() if isinstance(x, kind) and "float" in str(x.dtype)}
    try:
        for leaf in leaves.values():
            leaf.requires_grad_()
        names = {**first, **{n: x * 1 for n, x in leaves.items()}}
        execute("\n".join(line for line in lines if "given(" not in line), library, names)
        found = [x for x in names.values() if isinstance(x, kind) and "float" in str(x.dtype) and x.requires_grad]
        if not found:
            return None
        total: Any = sum((x.double() * x.double()).sum() for x in found)
        total.backward()
    except RuntimeError:
        return None
    return {n: np.array(x.grad.numpy()) for n, x in leaves.items() if x.grad is not None}


def difference(run_name: str, got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> str | None:
    """The first tensor whose values, shape or type differ."""
    for name, other in want.items():
        one = got.get(name)
        if one is None or one.shape != other.shape or one.dtype != other.dtype:
            described = None if one is None else f"{one.dtype} {list(one.shape)}"
            return f"{run_name}: {name}: expected {other.dtype} {list(other.shape)}, got {described}"
        if not np.allclose(one, other, TOLERANCE, TOLERANCE, equal_nan=True):
            return f"{run_name}: {name}: expected {other.ravel()[:8].tolist()}, got {one.ravel()[:8].tolist()}"
    return None


class TorchPrograms:
    """Random programs with views and updates in place: every tensor has PyTorch's values."""

    suffix = ".py"
    limit = 60.0

    def make(self, random: random.Random) -> str:
        """A program that PyTorch runs."""
        lines = [GRADIENT] if random.random() < 0.25 else []
        names: Names = {}
        for number in range(random.randint(1, 2)):
            shape = ", ".join(map(str, random.choice(SHAPES)))
            lines.append(f"x{number} = given({number}, {random.choice(DTYPES)!r}, {shape})")
        execute("\n".join(lines), torch, names)
        length = len(lines) + random.randint(3, 12)
        for _ in range(200):
            if len(lines) == length:
                break
            line = self._line(random, names, len(lines))
            lines += [] if line is None else [line]
        return "\n".join(lines) + "\n"

    @staticmethod
    def _line(draw: Draw, names: Names, number: int) -> str | None:
        """A further line; None if PyTorch refuses the line."""
        try:
            line = statement(draw, names, number)
            execute(line, torch, names)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return None
        return line

    def check(self, case: str) -> str | None:
        """The first difference of a tensor, or the error of a refused program."""
        try:
            want = values(execute(case, torch, {}), torch)
        except Exception:
            return None
        if GRADIENT in case:
            grads, own = gradients(case, torch), gradients(case, flow)
            return None if grads is None or own is None else difference("gradient", own, grads)
        runs: Sequence[tuple[str, Callable[[], dict[str, np.ndarray]]]] = (
            ("eager", lambda: eager(case)),
            ("compiled", Compiled(case, outside=False).run),
            ("compiled outside", Compiled(case, outside=True).run),
        )
        return next((fault for run_name, run in runs if (fault := self._fault(run_name, run, want))), None)

    @staticmethod
    def _fault(run_name: str, run: Callable[[], dict[str, np.ndarray]], want: Mapping[str, np.ndarray]) -> str | None:
        try:
            return difference(run_name, run(), want)
        except Exception as error:
            if any(text in str(error) for text in REFUSED):
                return None
            return f"{run_name}: {type(error).__name__}: {' '.join(str(error).split())}"

    def smaller(self, case: str) -> Iterator[str]:
        """The case without some lines."""
        return without_lines(case)


if __name__ == "__main__":
    sys.exit(main(TorchPrograms()))
