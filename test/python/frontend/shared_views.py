"""Functions that read and update views and the roots of views.

Each function is made on `OnHost()` or `OnDevice()` and comes with the tensors to compare after a call.
"""

from shared_memory import counted

import oneflow as flow


def views_of_a_root(take):
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


def returned_views(on):
    c = on.tensor(counted(4, 6))
    v = c[1:3]

    def f(x):
        v.add_(x)
        return c, v.T, c

    return f, [c, v]


def views_made_inside(on):
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


def views_exposed_to_the_user(on):
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


def gradients_through_views(on):
    c = on.tensor(counted(6))
    v = c[1:4]

    def part(x):
        v.mul_(x)
        loss = (c * 2).sum() + (v * 3).sum()
        with flow.no_grad():
            c.copy_(flow.ones_like(c))
        return loss

    return flow.grad(part), [c, v]


def gradients_stopped_by_detach(on):
    c = on.tensor(counted(6))
    v = c[1:4]

    def part(x):
        with flow.no_grad():
            v.mul_(x)
        loss = (c * x.sum()).sum()
        return loss

    return flow.grad(part), [c, v]


def unrecorded_updates(view):
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


def separate_gradients(take):
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
