"""Compiled functions of tensors that share memory, and update some of it: as in eager mode."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.errors import CallError, TraceError
from oneflow.testing.host_cuda import host_cuda

F32 = np.float32


def counted(*shape):
    return np.arange(np.prod(shape), dtype=F32).reshape(shape)


@pytest.fixture
def cuda(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with host_cuda() as made:
        yield made


class Here:
    """Tensors on the host."""

    own = property(lambda self: HOST)

    def tensor(self, array):
        return flow.tensor(array)


class There(Here):
    """Tensors on a device."""

    own = property(lambda self: DEVICE)

    def tensor(self, array):
        return flow.tensor(array).to("cuda")


def of_a_root(take):
    """Functions that update a view or its root, and read the other."""

    def view_first(on):
        c = on.tensor(counted(4, 6))
        v = take(c)

        def f(x):
            v.mul_(x)
            return c * 1

        return f, [c, v]

    def root_first(on):
        c = on.tensor(counted(4, 6))
        v = take(c)

        def f(x):
            before = v + c.sum()
            c.mul_(x)
            return before, v * 1

        return f, [c, v]

    def in_turn(on):
        c = on.tensor(counted(4, 6))
        v = take(c)

        def f(x):
            v.add_(x)
            c.mul_(x)
            v.mul_(v)
            c.sub_(1)
            return v * 1, c * 1

        return f, [c, v]

    return view_first, root_first, in_turn


VIEWS = {
    "rows": lambda c: c[1:3], "row": lambda c: c[2], "columns": lambda c: c[:, 1:4], "steps": lambda c: c[::2, 1::2],
    "turned": lambda c: c.T, "a part of the turned": lambda c: c.T[1:3], "flat": lambda c: c.reshape(-1),
    "flat in part": lambda c: c.reshape(-1)[3:17], "detached": lambda c: c[1:].detach(), "one": lambda c: c[1, 2],
    "whole": lambda c: c.detach(), "data": lambda c: c.T.data, "backwards": lambda c: c[::-1],
}  # fmt: skip


def two_views(first, second):
    """A function that updates two views of one tensor, which may overlap."""

    def made(on):
        c = on.tensor(counted(4, 6))
        a, b = first(c), second(c)

        def f(x):
            a.add_(x)
            b.mul_(2)
            a.sub_(0.5)
            return a.sum() + x, b * 1

        return f, [a, b, c]

    return made


def given_back(on):
    c = on.tensor(counted(4, 6))
    v = c[1:3]

    def f(x):
        v.add_(x)
        return c, v.T, c

    return f, [c, v]


def made_inside(on):
    c, w = on.tensor(counted(4, 6)), on.tensor(counted(4, 6))
    v = c[2:]

    def f(x):
        row, turned, copied = c[1], v.T[1:], c.T.reshape(-1)
        wide, apart = c[:1].expand(3, 6), c.clone()[1]
        one, untouched = row.detach()[2:4], w.reshape(-1)[2:]
        c.mul_(x)
        v.add_(1)
        return row * 1, turned, copied, wide, apart, one + row.sum(), untouched, row[1:].reshape(5, 1)

    return f, [c, v]


def expanded(on):
    c = on.tensor(counted(3, 1))
    v = c.expand(3, 4)

    def f(x):
        c.add_(x)
        return v * 1

    return f, [c, v]


def shown_to_the_user(on):
    c = on.tensor(counted(6))
    v, array = c[1:], c.numpy()

    def f(x):
        v.add_(x)
        v.mul_(2)
        return v * 1, c * 1

    return f, [c, v, array]


def flat_parameters(on):
    """Parameters in one buffer, which an optimizer updates as a whole."""
    flat = on.tensor(counted(10))
    w, b = (flat[at].detach().requires_grad_() for at in (slice(0, 6), slice(6, 9)))

    def f(x):
        loss = ((w.reshape(2, 3) * x).sum(0) + b).square().sum()
        loss.backward()
        with flow.no_grad():
            for p in (w, b):
                p.sub_(0.01 * p.grad)
                p.grad = None
            norm = flat.square().sum()
            flat.mul_(0.5)
        return loss.detach(), norm, (w.detach() * b.detach().sum())

    return f, [flat, w, b]


def gradients_through(on):
    c = on.tensor(counted(6))
    v = c[1:4]

    def part(x):
        v.mul_(x)
        loss = (c * 2).sum() + (v * 3).sum()
        with flow.no_grad():
            c.copy_(flow.ones_like(c))
        return loss

    return flow.grad(part), [c, v]


def no_gradient_through(on):
    c = on.tensor(counted(6))
    v = c[1:4]

    def part(x):
        with flow.no_grad():
            v.mul_(x)
        loss = (c * x.sum()).sum()
        return loss

    return flow.grad(part), [c, v]


def gradients_going_on(view):
    """Through updates that are not recorded, of a tensor or of another in its memory."""

    def made(on):
        c = on.tensor(counted(6))
        v, other = c[1:4], c[2:] if view else c

        def part(x):
            v.mul_(x)
            with flow.no_grad():
                other.mul_(0.5)
                v.sub_(1)
            return (c * 3).sum() + (v * 2).sum()

        return flow.grad(part), [c, v]

    return made


def gradients_apart(take):
    """Gradients do not know of memory that is shared otherwise than by views, as of arrays and by `detach`."""

    def made(on):
        c, other = take(on)

        def part(x):
            other.mul_(x.sum())
            loss = (c * 3).sum() + (other * 2).sum()
            c.sub_(x.sum())
            return loss + c.sum() + other.sum()

        return flow.grad(part), [c, other]

    return made


def detached(on):
    c = on.tensor(counted(6))
    return c, c.detach()


def overlapping(on):
    array = counted(12)
    return flow.from_numpy(array[:8]), flow.from_numpy(array[4:])


def through_vjp(on):
    c = on.tensor(counted(6))
    v = c[::2]

    def f(x):
        def part(x):
            v.add_(x)
            return c * 2

        value, pull = flow.vjp(part, x)
        with flow.no_grad():
            c.mul_(0.25)
        return pull(value)

    return f, [c, v]


def tied(on):
    flow.manual_seed(3)
    first, second = flow.nn.Linear(3, 3), flow.nn.Linear(3, 3, bias=False)
    net = flow.nn.Sequential(first, second).to(on.tensor(counted(1)).device)
    second.weight = first.weight
    optimizer = flow.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def f(x):
        loss = net(x.reshape(1, 3)).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return f, [first.weight, first.bias, second.weight]


def arrays_of_numpy(first, second):
    """Tensors in the memory of one array of NumPy."""

    def made(on):
        array = counted(12)
        a, b = flow.from_numpy(first(array)), flow.from_numpy(second(array))

        def f(x):
            a.add_(x)
            sum_ = b.sum() + a.sum()
            b.mul_(2)
            return sum_, a * 1, b + 1

        return f, [a, b, array]

    return made


def view_of_an_array(on):
    array = counted(12)
    v, b = flow.from_numpy(array)[1:8], flow.from_numpy(array[4:])

    def f(x):
        b.add_(x)
        return v * 1

    return f, [v, b, array]


class Foreign:
    """An array of another library."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


def of_another_type(on):
    """One is read before the other is updated, and both alone."""
    array = counted(12)
    a, b = flow.from_numpy(array), flow.from_numpy(array.view(np.int32)[2:])

    def f(x):
        read = b * 2
        a.add_(x)
        return read, a * 1

    return f, [a, array]


class Lying:
    """An array of another library on a device: a part of one that is there."""

    def __init__(self, array, first, count):
        self.kept, known = array, array.__cuda_array_interface__
        address = known["data"][0] + first * array.dtype.numpy.itemsize
        self.__cuda_array_interface__ = {**known, "data": (address, False), "shape": (count,)}


def arrays_of_a_device(first, second):
    """Tensors in the memory of one array on a device."""

    def made(on):
        whole = on.tensor(counted(64)).storage
        a, b = (flow.from_numpy(Lying(whole, *part)) for part in (first, second))

        def f(x):
            a.add_(x)
            sum_ = b.sum() + a.sum()
            b.mul_(2)
            return sum_, a * 1, b + 1

        return f, [a, b]

    return made


def read_late(on):
    """What is read before an update and first needed after it."""
    whole = on.tensor(counted(64)).storage
    a, b = (flow.from_numpy(Lying(whole, *part)) for part in ((0, 40), (16, 48)))

    def f(x):
        before = b * 2
        a.mul_(x)
        rows = flow.softmax(flow.softmax(flow.softmax(a.reshape(8, 5), 1), 0), 1)
        return rows.sum() + before

    return f, [a, b]


ALL = {
    f"{name}, {order}": made
    for name, take in VIEWS.items()
    for order, made in zip(("view first", "root first", "in turn"), of_a_root(take), strict=True)
}
PAIRS = {
    "overlap": (lambda c: c[:3], lambda c: c[1:]), "disjoint": (lambda c: c[:2], lambda c: c[2:]),
    "columns": (lambda c: c[:, 0], lambda c: c[:, 1]), "rows and columns": (lambda c: c[1], lambda c: c[:, 2]),
    "the same": (lambda c: c[1:], lambda c: c[1:]), "turned": (lambda c: c.T, lambda c: c[:2]),
}  # fmt: skip
ALL |= {f"two views, {name}": two_views(*pair) for name, pair in PAIRS.items()}
ALL |= {
    "given back": given_back, "made inside": made_inside, "expanded": expanded,
    "shown to the user": shown_to_the_user, "tied": tied,
    "gradients go on": gradients_going_on(False), "gradients go on in parts": gradients_going_on(True),
    "gradients apart": gradients_apart(detached), "gradients": gradients_through, "no gradient": no_gradient_through,
    "vjp": through_vjp, "flat parameters": flat_parameters,
}  # fmt: skip
ARRAYS = {
    "overlap": (lambda a: a[:8], lambda a: a[4:]), "inside": (lambda a: a, lambda a: a[2:5]),
    "the same": (lambda a: a, lambda a: a), "shapes": (lambda a: a.reshape(3, 4), lambda a: a.reshape(4, 3)),
    "DLPack": (lambda a: a, lambda a: Foreign(a[3:])), "disjoint": (lambda a: a[:4], lambda a: a[4:]),
}  # fmt: skip
HOST = {f"arrays, {name}": arrays_of_numpy(*pair) for name, pair in ARRAYS.items()}
HOST |= {"types": of_another_type, "arrays, a view": view_of_an_array,
         "gradients of arrays apart": gradients_apart(overlapping)}  # fmt: skip
PARTS = {"overlap": ((0, 40), (16, 48)), "inside": ((0, 64), (3, 7)), "apart": ((0, 20), (32, 8))}
DEVICE = {f"arrays, {name}": arrays_of_a_device(*parts) for name, parts in PARTS.items()} | {"read late": read_late}
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
    """What the calls of a function give, and what tensors have after each."""
    f, seen = (ALL | on.own)[name](on)
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
def test_as_in_eager_mode(name):
    same(Here(), name)


@pytest.mark.parametrize("name", ALL | DEVICE)
def test_as_in_eager_mode_on_a_device(cuda, name):
    same(There(), name)


def refused(f, match):
    with pytest.raises(TraceError, match=rf"(?s)test_shared_memory.py:\d+: .*{match}"):
        flow.compile(f)()


def test_elements_of_another_type_are_refused():
    array = counted(12)
    a, b = flow.from_numpy(array), flow.from_numpy(array.view(np.int32)[2:])

    def read():
        a.add_(1)
        return b * 2

    def update():
        a.add_(1)
        b.add_(1)

    for f in (read, update):
        refused(f, "tensor<10xi32>, which is read or updated after tensor<12xf32> in its memory was updated")
    np.testing.assert_array_equal(array, counted(12))


def test_an_update_of_an_expanded_view_is_refused_before_anything_runs():
    c, d = flow.tensor(counted(3, 1)), flow.tensor(counted(3))
    v = c.expand(3, 4)

    def f():
        d.add_(1)
        v.add_(1)

    refused(f, r"add_ would update an expanded tensor.*write x.clone\(\) before")
    assert d.tolist() == [0, 1, 2] and v.tolist() == c.expand(3, 4).tolist()


def argument_cases():
    array = counted(12)
    c, d = flow.tensor(counted(12)), flow.from_numpy(array[4:])
    yield "a view", c, c[1:], True
    yield "the tensor", c, c.detach(), True
    yield "a view of a view", c.reshape(3, 4).T[1], c.reshape(3, 4)[1], True
    yield "the root of a view", c[3:], c, True
    yield "an array", d, array[:5], True
    yield "an array with gaps", d, array[::3], True
    yield "a tensor of the array", d, flow.from_numpy(array[5:6]), True
    yield "other columns", c.reshape(3, 4)[:, 1], c.reshape(3, 4)[:, 2], False
    yield "another part", c[:4], c[4:], False
    yield "another part of the array", d, array[:4], False
    yield "a copy", c, c.clone(), False


@pytest.mark.parametrize("name", [name for name, *_ in argument_cases()])
def test_arguments_are_apart_from_what_is_updated(name):
    _, state, given, shares = next(case for case in argument_cases() if case[0] == name)

    @flow.compile
    def f(x):
        state.add_(1)
        return x * 2

    f(flow.ones(*given.shape))
    before, wanted = state.tolist(), (given * 2).tolist()
    if shares:
        with pytest.raises(CallError, match=r"test_shared_memory.py:\d+: f: expected arguments apart .* x.clone()"):
            f(given)
        assert state.tolist() == before
    else:
        assert f(given).tolist() == wanted
        assert state.tolist() == [v + 1 for v in before]


def test_arguments_may_share_memory_with_each_other_and_with_what_is_read():
    c = flow.tensor(counted(6))
    f = flow.compile(lambda x, y: x.sum() + y * c.sum())
    for _ in range(2):
        assert f(c, c[2:4]).tolist() == [15 + 2 * 15, 15 + 3 * 15]
        c.add_(0)


def rebound(on, compiled):
    """What is given while a parameter comes to lie in the memory of another tensor, elsewhere there, and apart."""
    c, d, found = on.tensor(counted(8)), on.tensor(counted(8) + 1), []
    p = on.tensor(counted(8))

    def step(x):
        p.mul_(x)
        c.add_(1)
        return c * 1, p * 1

    step = flow.compile(step) if compiled else step
    for data in (None, c.detach(), d, c.detach(), d.detach()):
        if data is not None:
            p.data = data
        for _ in range(3):
            found += [t.tolist() for t in step(on.tensor(np.array(0.5, F32)))]
        found += [c.tolist(), d.tolist(), p.tolist()]
    return found


def test_memory_that_is_shared_later_is_seen():
    assert rebound(Here(), True) == rebound(Here(), False)


def test_memory_that_is_shared_later_is_seen_by_steps_that_are_called_again(cuda):
    assert rebound(There(), True) == rebound(There(), False)


def test_arrays_that_come_to_overlap_are_seen():
    def run(compiled):
        array, found = counted(16), []
        a, b = flow.from_numpy(array[:6]), flow.from_numpy(array[10:16])

        def f():
            a.add_(1)
            return b * 1

        f = flow.compile(f) if compiled else f
        for first in (10, 4, 3, 10, 0):
            b.data = flow.from_numpy(array[first : first + 6])
            found += [f().tolist() for _ in range(2)]
        return found

    assert run(True) == run(False)


def test_gradients_of_a_call_are_those_by_what_it_read():
    """Of a compiled function that is called outside of what computes the gradient, and updates what it reads."""

    def run(compiled):
        w, c = flow.tensor(counted(6) + 1, requires_grad=True), flow.tensor(counted(6))
        v, x = c[1:4], flow.tensor(counted(3) + 1, requires_grad=True)

        def f(x):
            read = (c.clone() * w).sum()
            with flow.no_grad():
                v.add_(1)
            return read + (c.clone() * w * 2).sum() + (x * v.clone()).sum()

        f = flow.compile(f) if compiled else f
        for _ in range(2):
            f(x).backward()
        return w.grad.tolist(), x.grad.tolist(), c.tolist()

    assert run(True) == run(False)


@pytest.mark.parametrize("on", [Here(), There()])
def test_what_is_given_back_is_a_copy(cuda, on):
    """Of what the function updates as of what it is called with."""
    c, x = on.tensor(counted(4, 6)), on.tensor(counted(6))
    v, results = c[1:3], []

    @flow.compile
    def f(x):
        v.add_(x)
        return c, v, x

    for _ in range(4):
        results.append(f(x))
        results[-1][1].fill_(-1)
        results[-1][2].fill_(-1)
    rows = np.arange(4)[:, None]
    for call, (whole, part, given) in enumerate(results, 1):
        wanted = counted(4, 6) + call * counted(6) * ((rows == 1) | (rows == 2))
        assert whole.tolist() == wanted.tolist() and {*part.numpy().ravel(), *given.tolist()} == {-1}
    assert c.tolist() == wanted.tolist() and x.tolist() == counted(6).tolist()


def test_parts_that_lie_apart_are_computed_as_if_alone():
    flat = flow.tensor(counted(30))
    parts = [flat[at : at + 10] for at in range(0, 30, 10)]

    @flow.compile
    def f():
        for part in parts:
            part.mul_(2)

    f()
    text = f.ir()
    assert flat.tolist() == (counted(30) * 2).tolist()
    assert text.count('"oneflow.') == 3 and text.count("tensor<30xf32>") == 0
