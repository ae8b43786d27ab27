"""How many files of the package a call of a compiled function enters: at most three warm, at most six otherwise.

A call is warm if its arguments are like the arguments of an earlier call, all guards hold, and the captured tensors
have the memory of the last call. The work of a call is then read in a few files. The first call with a signature is
not counted: such a call makes guards, and traces and compiles the function.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn

PACKAGE = os.path.dirname(flow.__file__) + os.sep
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def files_of(call) -> set[str]:
    """The files of the package whose functions a call enters, without finalizers of earlier results."""
    entered = set()

    def note(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "__del__":
            entered.add(code.co_filename.removeprefix(PACKAGE))

    sys.setprofile(note)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    del result  # freed after the count
    return entered


def model(*layers):
    """A small model, and an optimizer of its parameters."""
    flow.manual_seed(3)
    made = nn.Sequential(nn.Linear(4, 8), *(layers or [nn.LayerNorm(8), nn.ReLU()]), nn.Linear(8, 2))
    return made, flow.optim.AdamW(made.parameters(), lr=1e-3)


def training_step(*layers):
    """A compiled step: forward, backward, and the update."""
    made, optimizer = model(*layers)

    def step(x):
        optimizer.zero_grad()
        loss = made(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    return flow.compile(step)


class Step(nn.Graph):
    """A training step in the style of OneFlow."""

    def __init__(self, schedule=False):
        super().__init__()
        self.model, optimizer = model()
        self.add_optimizer(optimizer, flow.optim.lr_scheduler.StepLR(optimizer, 10) if schedule else None)

    def build(self, x):
        loss = self.model(x).sum()
        loss.backward()
        return loss


def evaluated():
    made, _ = model()
    made.eval().requires_grad_(False)
    return flow.compile(made.forward)


def accumulation():
    """A step that adds to gradients."""
    made, _ = model()

    def step(x):
        loss = made(x).sum()
        loss.backward()
        return loss

    return flow.compile(step)


def update():
    """The update of an optimizer alone."""
    made, optimizer = model()
    made(flow.tensor(X)).sum().backward()
    return flow.compile(lambda x: optimizer.step())


def captured(part=lambda w: w):
    weight = part(flow.tensor(X))
    return flow.compile(lambda x: x * weight)


def captured_with_specs():
    weight = flow.tensor(X[0])
    return flow.compile(lambda x: x * weight, flow.TensorSpec((3, 4)))


class Compiled(nn.Module):
    """A module whose method is compiled."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @flow.compile
    def forward(self, x):
        return self.linear(x)


def arguments(fn):
    return lambda: flow.compile(fn)


#: The kinds of warm calls, with a function that makes the compiled function, and the argument unless it is a tensor.
WARM = {
    "array": (arguments(lambda x: x * 2.0), X),
    "tensor": (arguments(lambda x: x * 2.0),),
    "specs": (lambda: flow.compile(lambda x: x * 2.0, flow.TensorSpec((3, 4))), X),
    "specs and captured tensor": (captured_with_specs, X),
    "two results": (arguments(lambda x: (x * 2.0, x + 1)),),
    "results by name": (arguments(lambda x: {"double": x * 2.0, "next": x + 1}),),
    "view as argument": (arguments(lambda x: x * 2.0), flow.tensor(np.stack([X, X]))[1]),
    "argument that requires grad": (arguments(lambda x: x * 2.0), flow.tensor(X, requires_grad=True)),
    "argument that is updated": (arguments(lambda x: (x.add_(1.0), x * 2.0)[1]), flow.tensor(X.copy())),
    "random numbers": (arguments(lambda x: nn.functional.dropout(x, 0.5)),),
    "captured tensor": (captured,),
    "captured view": (lambda: captured(lambda w: w[1]),),
    "module": (evaluated,),
    "module without gradients": (lambda: flow.no_grad()(flow.compile(model()[0])),),
    "recorded module": (lambda: flow.compile(model()[0]),),
    "recorded module with running statistics": (lambda: flow.compile(model(nn.BatchNorm1d(8))[0]),),
    "recorded module with random numbers": (lambda: flow.compile(model(nn.Dropout(0.5))[0]),),
    "training step": (training_step,),
    "training step with random numbers": (lambda: training_step(nn.Dropout(0.5)),),
    "training step with running statistics": (lambda: training_step(nn.BatchNorm1d(8)),),
    "accumulated gradients": (accumulation,),
    "update of an optimizer": (update,),
    "graph": (Step,),
}


@pytest.mark.parametrize("kind", WARM)
def test_warm_calls_enter_three_files(kind):
    make, argument, *_ = (*WARM[kind], flow.tensor(X))
    call = make()
    for _ in range(3):
        call(argument)
    files = files_of(lambda: call(argument))
    assert len(files) <= 3, f"{kind}: {sorted(files)}"


def other_signature():
    """A step that was called with another signature before."""
    step, x, part = training_step(), flow.tensor(X), flow.tensor(X[:2].copy())
    return lambda: step(part), lambda: step(x)


def other_arguments():
    double = arguments(lambda x: x * 2.0)()
    return lambda: double(np.ones(5, np.float32)), lambda: double(X)


def tensor_for_array():
    double = arguments(lambda x: x * 2.0)()
    return lambda: double(flow.tensor(X)), lambda: double(X)


def updated_parameters():
    """A forward pass after a compiled update of the parameters."""
    made, optimizer = model()
    forward, step, x = flow.compile(made), flow.compile(optimizer.step), flow.tensor(X)

    def before():
        forward(x).sum().backward()
        step()

    return before, lambda: forward(x)


def new_gradients():
    """An update of an optimizer after gradients have become other tensors."""
    made, optimizer = model()
    step, x = flow.compile(optimizer.step), flow.tensor(X)

    def before():
        optimizer.zero_grad(set_to_none=True)
        made(x).sum().backward()

    return before, step


def nested(argument, fn):
    return lambda: (lambda compiled: (lambda: None, lambda: compiled(argument)))(flow.compile(fn))


def by_name():
    compiled, x = flow.compile(lambda pair, shift: pair["a"] * pair["b"][0] + shift), flow.tensor(X)
    return lambda: compiled({"a": X, "b": [X]}, X), lambda: compiled({"a": X, "b": [X]}, shift=x)


def method():
    made, x = Compiled(), flow.tensor(X)
    return lambda: None, lambda: made(x)


def schedule():
    step, x = Step(schedule=True), flow.tensor(X)
    return lambda: None, lambda: step(x)


def on_ranks(made):
    """A call on tensors of two ranks, which a world runs; each rank has an executable."""
    placement = flow.placement("cpu", [0, 1])
    made.to_global(placement, flow.sbp.broadcast)
    forward, x = flow.compile(made), flow.tensor(X).to_global(placement, flow.sbp.split(0))
    return lambda: None, lambda: forward(x)


#: The kinds of other calls: functions that return the preparation of the call, and the call.
OTHER = {
    "earlier signature of a step": other_signature,
    "earlier signature": other_arguments,
    "array after a tensor": tensor_for_array,
    "parameters that were updated": updated_parameters,
    "gradients that were replaced": new_gradients,
    "tensors in a dict": nested({"a": flow.tensor(X)}, lambda d: {"b": d["a"] * 2.0}),
    "arrays in a list": nested([X, X], lambda pair: pair[0] + pair[1]),
    "arguments by name": by_name,
    "method of a module": method,
    "graph with a schedule": schedule,
    "module on ranks": lambda: on_ranks(model()[0].requires_grad_(False)),
    "recorded module on ranks": lambda: on_ranks(model()[0]),
}


@pytest.mark.parametrize("kind", OTHER)
def test_other_calls_enter_six_files(kind):
    before, call = OTHER[kind]()
    for _ in range(3):
        before()
        call()
    before()
    files = files_of(call)
    assert len(files) <= 6, f"{kind}: {sorted(files)}"
