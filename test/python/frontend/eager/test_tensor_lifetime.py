"""Tensors with gradients are freed with the last reference: memory of a device does not wait for the garbage
collector, which counts objects and ignores the sizes of objects.
"""

import gc
import threading
import weakref
from typing import Any

import pytest

import oneflow as flow

W, X = flow.ones(4, 4, requires_grad=True), flow.ones(4, 4)
NET = flow.nn.Sequential(flow.nn.Linear(4, 4), flow.nn.BatchNorm1d(4), flow.nn.Dropout(0.5))
COMPILED = flow.compile(NET)


class Twice(flow.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def updated():
    y = W * 2
    y.add_(1)
    y[1:].mul_(2)
    return y


def walked_back():
    y = (W * 2).sum()
    y.backward()
    return y


MADE: dict[str, Any] = {
    "an operator's": lambda: flow.softmax(X @ W, -1),
    "a module's": lambda: NET(X),
    "a view": lambda: (W * 2)[1:].transpose(0, 1),
    "updated in place": updated,
    "of a backward pass": walked_back,
    "of a Function": lambda: Twice.apply(W),
    "of a checkpoint": lambda: flow.checkpoint(lambda x: (x * W).exp(), X),
    "a gradient's": lambda: flow.autograd.grad((W * W).sum(), [W], create_graph=True)[0],
    "of vjp": lambda: flow.vjp(lambda x: x * x, W)[0],
    "a compiled function's": flow.compile(lambda: flow.softmax(X @ W, -1)),
    "a compiled module's": lambda: COMPILED(X),
}


@pytest.mark.parametrize("kind", MADE)
def test_tensors_are_freed_with_the_last_reference(kind):
    for _ in range(3):
        MADE[kind]()
    gc.collect()
    gc.disable()
    try:
        made = MADE[kind]()
        assert made.requires_grad or kind == "of a backward pass"
        freed = weakref.ref(made.variable)
        del made
        assert freed() is None
    finally:
        gc.enable()


def test_a_view_made_while_freed_views_are_removed_stays_registered():
    class Interrupted(list[Any]):
        """References; another thread makes a view when these are read for the first time."""

        def __iter__(self):
            if thread.ident is None:
                thread.start()
                thread.join(0.2)
            return super().__iter__()

    x, made = flow.zeros(4), []
    thread = threading.Thread(target=lambda: made.append(x[1:]))
    views = x.handle.shared_memory().views
    while views is None or len(views._references) < views._limit:
        x[2:]
        views = x.handle.shared_memory().views
    views._references = Interrupted(views._references)
    x[3:]
    thread.join()
    assert made[0].view_meta in list(views)
