"""A row of `benchmarks/gpu.py`: the compared actions, and the check that all actions have the same result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import oneflow as flow

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
Action = Callable[[], object]

#: Columns of peers: PyTorch one operator at a time, compiled, and a copy of the same bytes; for attention, two
#: libraries that PyTorch calls.
EAGER, COMPILED, COPY, CUDNN, FLASH = "eager", "torch.compile", "copy", "cuDNN", "flash"


@dataclass
class Row:
    """The compared actions: our action and the actions of peers by column; `bytes` moved or `flops` done, and the
    tolerance of results.

    A whole `step` is timed by the clock.
    """

    name: str
    ours: Action
    peers: dict[str, Action]
    bytes: int = 0
    flops: float = 0
    step: bool = False
    tolerance: float = 2e-2


def both(name: str, function: Callable[[Any], Callable[..., Any]], arrays: Sequence[torch.Tensor], leaves: int = 0,
         **facts: Any) -> Row:  # fmt: skip
    """A row for a function written for either library, or for the gradients by the first `leaves` arguments,
    weighted by the last argument. Both libraries get the same arrays, and the results are compared.
    """
    mine, theirs = function(flow), function(torch)
    fast = compiled(theirs)
    if leaves:
        mine = gradients(flow, mine, leaves)
        theirs, fast = (gradients(torch, f, leaves) for f in (theirs, fast))
    ours = flow.compile(mine, device="cuda")
    tensors = [flow.from_numpy(a) for a in arrays]
    peers = {EAGER: lambda: theirs(*arrays), COMPILED: lambda: fast(*arrays)}
    row = Row(name, lambda: ours(*tensors), peers, **facts)
    compare(row, ours(*tensors), theirs(*arrays))
    return row


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compiles a function by torch.compile for the shapes of this row, without programs of earlier rows."""
    torch.compiler.reset()
    made: Callable[..., Any] = torch.compile(function, dynamic=False, **options)
    return made


def compare(row: Row, got: Any, want: Any) -> None:
    """Fails where a result differs by more than the row's tolerance, in norm."""
    for one, other in zip(listed(got), listed(want), strict=True):
        mine, theirs = torch.from_dlpack(one.detach()).double(), other.detach().double()
        error = float((mine - theirs).norm() / theirs.norm().clamp_min(1e-30))
        if not error <= row.tolerance:
            raise AssertionError(f"{row.name}: relative error {error:.2e}")


def listed(value: Any) -> list[Any]:
    """A result, or each of several."""
    return list(value) if isinstance(value, (tuple, list)) else [value]


def gradients(lib: Any, function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The gradients of `function(*arrays)` by the first `count` arguments, weighted by the last argument."""

    def ours(*arrays: Any) -> Any:
        *inputs, weight = arrays
        return listed(flow.vjp(function, *inputs)[1](weight))[:count]

    def theirs(*arrays: Any) -> Any:
        *inputs, weight = arrays
        leaves = [a.detach().requires_grad_() for a in inputs[:count]]
        return torch.autograd.grad(function(*leaves, *inputs[count:]), leaves, weight)

    return ours if lib is flow else theirs


def normal(*shape: int, dtype: str = "f32") -> torch.Tensor:
    """Random numbers on the card."""
    return torch.randn(shape, device="cuda").to(DTYPES[dtype])
