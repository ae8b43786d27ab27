"""Compiled functions of tensors that share memory and are updated: the same results as in eager mode."""

import numpy as np
import pytest
import shared_arrays as arrays
import shared_views as views
from shared_memory import F32, OnDevice, OnHost, counted

import oneflow as flow

ALL = {
    f"{name}, {order}": made
    for name, take in views.VIEWS.items()
    for order, made in zip(("view first", "root first", "in turn"), views.views_of_a_root(take), strict=True)
}
PAIRS = {
    "overlap": (lambda c: c[:3], lambda c: c[1:]), "disjoint": (lambda c: c[:2], lambda c: c[2:]),
    "columns": (lambda c: c[:, 0], lambda c: c[:, 1]), "rows and columns": (lambda c: c[1], lambda c: c[:, 2]),
    "the same": (lambda c: c[1:], lambda c: c[1:]), "turned": (lambda c: c.T, lambda c: c[:2]),
}  # fmt: skip
ALL |= {f"two views, {name}": views.two_views(*pair) for name, pair in PAIRS.items()}
ALL |= {
    "given back": views.returned_views, "made inside": views.views_made_inside, "expanded": views.expanded,
    "shown to the user": views.views_exposed_to_the_user, "tied": views.tied,
    "gradients go on": views.unrecorded_updates(False), "gradients go on in parts": views.unrecorded_updates(True),
    "gradients apart": views.separate_gradients(views.detached), "gradients": views.gradients_through_views,
    "no gradient": views.gradients_stopped_by_detach,
    "vjp": views.through_vjp, "flat parameters": views.flat_parameters,
}  # fmt: skip
ARRAYS = {
    "overlap": (lambda a: a[:8], lambda a: a[4:]), "inside": (lambda a: a, lambda a: a[2:5]),
    "the same": (lambda a: a, lambda a: a), "shapes": (lambda a: a.reshape(3, 4), lambda a: a.reshape(4, 3)),
    "DLPack": (lambda a: a, lambda a: arrays.Foreign(a[3:])), "disjoint": (lambda a: a[:4], lambda a: a[4:]),
}  # fmt: skip
HOST = {f"arrays, {name}": arrays.arrays_of_numpy(*pair) for name, pair in ARRAYS.items()}
HOST |= {"types": arrays.of_another_type, "arrays, a view": arrays.view_of_an_array,
         "gradients of arrays apart": views.separate_gradients(arrays.overlapping)}  # fmt: skip
PARTS = {"overlap": ((0, 40), (16, 48)), "inside": ((0, 64), (3, 7)), "apart": ((0, 20), (32, 8))}
DEVICE = {f"arrays, {name}": arrays.arrays_of_a_device(*parts) for name, parts in PARTS.items()} | {
    "read late": arrays.read_late
}
OWN = {OnHost: HOST, OnDevice: DEVICE}
#: The argument of those that take no number.
ARGUMENTS = dict.fromkeys(["vjp", "tied", "flat parameters"], counted(3)) | dict.fromkeys(
    [
        "gradients",
        "gradients apart",
        "gradients of arrays apart",
        "gradients go on",
        "gradients go on in parts",
        "no gradient",
    ],
    counted(3) + 1,
)


def history(on, name, compiled, calls=4):
    """The results of the calls of a function, and the values of tensors after each call."""
    f, seen = (ALL | OWN[type(on)])[name](on)
    f = flow.compile(f) if compiled else f
    found = []
    for call in range(calls):
        given = f(on.tensor(ARGUMENTS.get(name, np.array(2, F32)) + F32(call)))
        tensors = [*(given if isinstance(given, tuple) else [given]), *seen]
        found += [np.array(t.tolist()) for t in tensors]
    return found


def same(on, name):
    for got, want in zip(history(on, name, True), history(on, name, False), strict=True):
        np.testing.assert_allclose(got, want, 1e-5)


@pytest.mark.parametrize("name", ALL | HOST)
def test_updates_of_aliases_equal_eager_mode(name):
    same(OnHost(), name)


@pytest.mark.parametrize("name", ALL | DEVICE)
def test_updates_of_aliases_equal_eager_mode_on_a_device(cuda, name):
    same(OnDevice(), name)
