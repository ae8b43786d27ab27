"""Compares whole models with PyTorch, gradient by gradient, and then times training steps.

    python benchmarks/zoo.py [--device cpu|cuda] [--scale small|full] [--dtype f32|bf16] [--models Llama,ViT,..]
        [--check] [--no-compile]

The reference of each gradient is PyTorch's gradient in f64 from the same weights. A row fails if this package's
error, as a norm relative to the norm of the reference, is above twice PyTorch's error in the same dtype and above the
rounding of the dtype. With `--check` the script ends after the comparison; otherwise steps are timed alternately with
PyTorch's eager mode and torch.compile.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from steps import step_of
from zoo_models import Model, zoo

import oneflow as flow

DTYPES = {"f32": (torch.float32, flow.float32), "bf16": (torch.bfloat16, flow.bfloat16)}
#: The relative error of a gradient that rounding alone explains.
ROUNDING = {"f32": 1e-4, "bf16": 2e-2}
ROUNDS = 7


def loss(lib: ModuleType, model: Any, labels: Any, inputs: tuple[Any, ...]) -> Any:
    """Cross-entropy over the last axis of `[.., classes]`, or over the channels of an image."""
    logits = model(*inputs)
    if labels.ndim == 3:
        logits = logits.permute(0, 2, 3, 1)
    return lib.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), labels.reshape(-1))


class Case:
    """A model in three libraries' hands: PyTorch in f64 (the reference), PyTorch and this package in `dtype`."""

    def __init__(self, model: Model, dtype: str, device: str) -> None:
        torch.manual_seed(0)
        self.dtype, self.device = dtype, device
        theirs, ours = DTYPES[dtype]
        self.torch = model.make(torch).to(theirs).to(device)
        self.reference = copy.deepcopy(self.torch).double()
        self.flow = model.make(flow)
        state = {k: v.float().cpu().numpy() for k, v in self.torch.state_dict().items()}
        self.flow.load_state_dict(state, strict=False)
        self.flow = self.flow.to(ours).to(device)
        rng = np.random.default_rng(0)
        self.inputs, self.labels = model.inputs(rng), model.labels(rng)

    def arrays(self, dtype: torch.dtype) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """Labels and inputs for PyTorch; floats in `dtype`, rounded to the case's dtype first."""
        rounded = [torch.from_numpy(x).to(self.device) for x in self.inputs]
        rounded = [x.to(DTYPES[self.dtype][0]).to(dtype) if x.is_floating_point() else x for x in rounded]
        return torch.from_numpy(self.labels).to(self.device), tuple(rounded)

    def tensors(self) -> tuple[Any, ...]:
        """Labels and inputs for this package."""
        labels, inputs = self.arrays(DTYPES[self.dtype][0])
        return tuple(flow.from_numpy(x) for x in (labels, *inputs))

    def gradients(self, model: Any, dtype: torch.dtype) -> dict[str, np.ndarray]:
        """PyTorch's gradients of all parameters, in f64."""
        labels, inputs = self.arrays(dtype)
        value = loss(torch, model, labels, inputs)
        value.backward()
        grads = {name: p.grad.double().cpu().numpy() for name, p in model.named_parameters()}
        model.zero_grad()
        return {"loss": value.detach().double().cpu().numpy(), **grads}

    def our_gradients(self) -> dict[str, np.ndarray]:
        """This package's gradients of all parameters from one compiled program, in f64."""
        names = [name for name, _ in self.flow.named_parameters()]

        def run(labels: Any, *inputs: Any) -> Any:
            value = loss(flow, self.flow, labels, inputs)
            value.backward()
            return value, *(p.grad for p in self.flow.parameters())

        value, *grads = flow.compile(run)(*self.tensors())
        self.flow.zero_grad()
        gradients = dict(zip(names, grads, strict=True))
        return {
            n: np.asarray(g.detach().float().cpu().numpy(), np.float64)
            for n, g in {"loss": value, **gradients}.items()
        }


def errors(got: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> dict[str, float]:
    """The error of each array in norm, relative to the reference's."""
    norms = {n: max(float(np.linalg.norm(r)), 1e-12) for n, r in reference.items()}
    return {n: float(np.linalg.norm(got[n] - r)) / norms[n] for n, r in reference.items()}


def check(case: Case) -> str:
    """A line on the worst gradient; raises an AssertionError that names each wrong one."""
    reference = case.gradients(case.reference, torch.float64)
    theirs = errors(case.gradients(case.torch, DTYPES[case.dtype][0]), reference)
    ours = errors(case.our_gradients(), reference)
    limits = {n: max(2 * theirs[n], ROUNDING[case.dtype]) for n in ours}
    wrong = {n: (ours[n], theirs[n]) for n in ours if not ours[n] <= limits[n]}
    if wrong:
        raise AssertionError("; ".join(f"{n}: {o:.1e} (PyTorch {t:.1e})" for n, (o, t) in wrong.items()))
    worst = max(ours, key=lambda n: ours[n] / max(theirs[n], 1e-12))
    medians = [f"{statistics.median(e.values()):.1e}" for e in (ours, theirs)]
    return f"medians {medians[0]} ({medians[1]}), worst {worst} {ours[worst]:.1e} ({theirs[worst]:.1e})"


def step(lib: ModuleType, model: Any) -> Callable[..., Any]:
    """A step of training with AdamW."""
    return step_of(
        lambda labels, *inputs: loss(lib, model, labels, inputs), lib.optim.AdamW(model.parameters(), lr=1e-4)
    )


def times(case: Case, compiled: bool) -> dict[str, float]:
    """Milliseconds of a training step, the median of alternating calls, and the seconds of our first call."""
    labels, inputs = case.arrays(DTYPES[case.dtype][0])
    ours, theirs, tensors = flow.compile(step(flow, case.flow)), step(torch, case.torch), case.tensors()
    actions: dict[str, Callable[[], Any]] = {"ours": lambda: ours(*tensors), "eager": lambda: theirs(labels, *inputs)}
    if compiled:
        other = copy.deepcopy(case.torch)
        forward = torch.compile(lambda *a: loss(torch, other, a[0], a[1:]))
        optimizer = torch.optim.AdamW(other.parameters(), lr=1e-4)

        def fast() -> None:
            forward(labels, *inputs).backward()
            optimizer.step()
            optimizer.zero_grad()

        actions["torch.compile"] = fast
    begin = time.perf_counter()
    actions["ours"]()
    wait(case.device)
    first = time.perf_counter() - begin
    samples: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(ROUNDS + 2):
        for name, action in actions.items():
            begin = time.perf_counter()
            action()
            wait(case.device)
            if turn > 1:
                samples[name].append((time.perf_counter() - begin) * 1e3)
    return {**{name: statistics.median(t) for name, t in samples.items()}, "first call, s": first}


def wait(device: str) -> None:
    """Until the device is done."""
    if device == "cuda":
        torch.cuda.synchronize()
        flow.cuda.synchronize()


def main() -> int:
    """The number of models that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--scale", default="full", choices=["small", "full"])
    parser.add_argument("--dtype", default="f32", choices=list(DTYPES))
    parser.add_argument("--models", help="names, separated by commas")
    parser.add_argument("--check", action="store_true", help="compare numbers only")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    models, failed = zoo(options.scale), 0
    for name in options.models.split(",") if options.models else models:
        try:
            case = Case(models[name], options.dtype, options.device)
            print(f"{name}: {check(case)}", flush=True)
            if not options.check:
                print(f"{name}: {times(case, not options.no_compile)}", flush=True)
        except Exception as error:
            failed += 1
            print(f"{name}: FAILED {error}", flush=True)
            if not isinstance(error, AssertionError):
                traceback.print_exc()
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
