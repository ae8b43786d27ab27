"""Whether results share memory with operands, as PyTorch documents: views, and functions of them.

An update of the operand shows in results that share the operand's memory, and in no other; an update of such a result
shows in the operand. Sharing holds in eager mode and in compiled functions, for captured tensors and for local
tensors.
"""

from typing import Any

import numpy as np
import pytest
from reference_interpreter import interpret

import oneflow as flow

VIEW, COPY = "view", "copy"


def counted():
    return np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def turned(x):
    return x.transpose(2, 1, 0) if isinstance(x, np.ndarray) else x.permute(2, 1, 0)


#: Functions that take views of tensors and of NumPy arrays; the strides of the array give the layout.
VIEWS = {
    "the tensor": lambda x: x,
    "a row": lambda x: x[1],
    "rows": lambda x: x[:, 1:],
    "a column": lambda x: x[:, :, 2],
    "steps": lambda x: x[:, ::2, 1::2],
    "an element": lambda x: x[1, 2, 3, ...],
    "one element": lambda x: x[1, 2, 3:],
    "one row": lambda x: x[1:],
    "one column": lambda x: x[:, :, 1:2],
    "a matrix of one row": lambda x: x[0, 1:2],
    "a matrix of one column": lambda x: x[0, :, 1:2],
    "a new dimension": lambda x: x[:, None],
    "turned": turned,
    "a matrix turned": lambda x: x[1].T,
    "a row turned": lambda x: x[1, :1].T,
    "a part of the turned": lambda x: turned(x)[1:3],
    "a column of the turned": lambda x: turned(x)[:, 1],
    "flat": lambda x: x.reshape(-1),
    "a part of the flat": lambda x: x.reshape(-1)[3:17],
    "another shape": lambda x: x.reshape(4, 6)[1:],
    "ones": lambda x: x[1:, 2:, 3:],
    "turned twice": lambda x: turned(turned(x)),
}


def contiguous(array):
    return array.flags.c_contiguous


def flat(array):
    return np.shares_memory(array.reshape(-1), array)


#: Functions of a tensor, and the memory of the result: the operand's memory (`VIEW`), separate memory (`COPY`), or
#: a function of the NumPy operand that decides.
FUNCTIONS: dict[str, Any] = {
    # Memory of the operand: https://docs.pytorch.org/docs/stable/tensor_view.html
    "detach": (lambda lib, x: x.detach(), VIEW),
    "x[...]": (lambda lib, x: x[...], VIEW),
    "x[None]": (lambda lib, x: x[None], VIEW),
    "T": (lambda lib, x: x.permute(list(range(x.ndim))[::-1]), VIEW),
    "transpose": (lambda lib, x: x.transpose(0, -1), VIEW),
    "movedim": (lambda lib, x: lib.movedim(x, 0, -1), VIEW),
    "expand": (lambda lib, x: x.expand(2, *x.shape), VIEW),
    "expand to its own shape": (lambda lib, x: x.expand(x.shape), VIEW),
    "expand_as": (lambda lib, x: x.expand_as(lib.ones(3, *x.shape)), VIEW),
    "broadcast_to": (lambda lib, x: lib.broadcast_to(x, (1, *x.shape)), VIEW),
    "unsqueeze": (lambda lib, x: x.unsqueeze(-1), VIEW),
    "squeeze": (lambda lib, x: x.squeeze(), VIEW),
    "squeeze(0)": (lambda lib, x: x.squeeze(0), VIEW),
    "view": (lambda lib, x: x.view(x.shape), VIEW),
    # Memory of the operand if the operand already has the requested form.
    "reshape to its own shape": (lambda lib, x: x.reshape(x.shape), VIEW),
    "reshape(-1)": (lambda lib, x: x.reshape(-1), flat),
    "reshape_as": (lambda lib, x: x.reshape_as(lib.ones(1, x.numel())), flat),
    "flatten": (lambda lib, x: x.flatten(), flat),
    "contiguous": (lambda lib, x: x.contiguous(), contiguous),
    "to the same type": (lambda lib, x: x.to(lib.float32), VIEW),
    "to the same device": (lambda lib, x: x.to("cpu"), VIEW),
    "to another type": (lambda lib, x: x.to(lib.float64), COPY),
    "float": (lambda lib, x: x.float(), VIEW),
    "half": (lambda lib, x: x.half(), COPY),
    "+x": (lambda lib, x: +x, VIEW),
    "dropout in evaluation": (lambda lib, x: lib.nn.functional.dropout(x, 0.5, False), VIEW),
    "conj of real numbers": (lambda lib, x: lib.conj(x), VIEW),
    "conj_physical of real numbers": (lambda lib, x: lib.conj_physical(x), VIEW),
    "einsum of the tensor": (lambda lib, x: lib.einsum("...->...", x), VIEW),
    "einsum in another order": (lambda lib, x: lib.einsum("i...->...i", x), VIEW),
    # Separate memory.
    "einsum of sums": (lambda lib, x: lib.einsum("i...->...", x), COPY),
    "einsum of products": (lambda lib, x: lib.einsum("...,...->...", x, x), COPY),
    "clone": (lambda lib, x: x.clone(), COPY),
    "sum": (lambda lib, x: x.sum(), COPY),
    "sum(0)": (lambda lib, x: x.sum(0), COPY),
    "sum(-1)": (lambda lib, x: x.sum(-1, keepdim=True), COPY),
    "prod": (lambda lib, x: x.prod(), COPY),
    "prod(0)": (lambda lib, x: x.prod(0), COPY),
    "mean": (lambda lib, x: x.mean(), COPY),
    "mean(-1)": (lambda lib, x: x.mean(-1, keepdim=True), COPY),
    "var": (lambda lib, x: x.var(0, unbiased=False), COPY),
    "norm": (lambda lib, x: x.norm(), COPY),
    "norm(1)": (lambda lib, x: x.norm(1, 0), COPY),
    "norm(inf)": (lambda lib, x: x.norm(float("inf"), -1), COPY),
    "logsumexp": (lambda lib, x: lib.logsumexp(x, 0), COPY),
    "max": (lambda lib, x: x.max(), COPY),
    "max(0)": (lambda lib, x: x.max(0)[0], COPY),
    "max(-1)": (lambda lib, x: x.max(-1, keepdim=True)[0], COPY),
    "positions of max": (lambda lib, x: x.max(0)[1], COPY),
    "min": (lambda lib, x: x.min(), COPY),
    "min(0)": (lambda lib, x: x.min(0)[0], COPY),
    "amax": (lambda lib, x: x.amax(0), COPY),
    "amax(-1)": (lambda lib, x: x.amax(-1, keepdim=True), COPY),
    "amax of all": (lambda lib, x: lib.amax(x, tuple(range(x.ndim))), COPY),
    "amin": (lambda lib, x: x.amin(-1), COPY),
    "any": (lambda lib, x: x.any(), COPY),
    "any of bools": (lambda lib, x: (x > 3).any(0), COPY),
    "all": (lambda lib, x: x.all(0), COPY),
    "argmax": (lambda lib, x: x.argmax(0), COPY),
    "cumsum": (lambda lib, x: x.cumsum(0), COPY),
    "cumprod": (lambda lib, x: x.cumprod(-1), COPY),
    "softmax": (lambda lib, x: lib.softmax(x, 0), COPY),
    "log_softmax": (lambda lib, x: lib.log_softmax(x, -1), COPY),
    "flip": (lambda lib, x: x.flip(0), COPY),
    "flip at -1": (lambda lib, x: lib.flip(x, [-1]), COPY),
    "flip of nothing": (lambda lib, x: lib.flip(x, []), COPY),
    "roll": (lambda lib, x: x.roll(1), COPY),
    "roll by nothing": (lambda lib, x: x.roll(0), COPY),
    "repeat": (lambda lib, x: x.repeat(*[1] * max(x.ndim, 1)), COPY),
    "repeat in a new dimension": (lambda lib, x: x.repeat(1, *[1] * max(x.ndim, 1)), COPY),
    "repeat by twos": (lambda lib, x: x.repeat(2, *[1] * x.ndim), COPY),
    "cat of one": (lambda lib, x: lib.cat([x.reshape(-1)]), COPY),
    "stack of one": (lambda lib, x: lib.stack([x]), COPY),
    "where": (lambda lib, x: lib.where(x == x, x, x), COPY),
    "masked_fill": (lambda lib, x: x.masked_fill(x < 0, 0.0), COPY),
    "gather": (lambda lib, x: lib.gather(x, 0, (x * 0).long()), COPY),
    "index_select": (lambda lib, x: lib.index_select(x, 0, lib.tensor([0])), COPY),
    "pad by nothing": (lambda lib, x: lib.nn.functional.pad(x, [0, 0] * min(x.ndim, 1)), COPY),
    "add": (lambda lib, x: x + 0, COPY),
    "sub": (lambda lib, x: x - 0.0, COPY),
    "mul": (lambda lib, x: x * 1, COPY),
    "div": (lambda lib, x: x / 1, COPY),
    "pow": (lambda lib, x: x ** 1, COPY),
    "abs": (lambda lib, x: x.abs(), COPY),
    "relu": (lambda lib, x: lib.relu(x), COPY),
    "clamp": (lambda lib, x: x.clamp(min=-1), COPY),
    "maximum": (lambda lib, x: lib.maximum(x, x), COPY),
    "floor": (lambda lib, x: x.floor(), COPY),
    "round": (lambda lib, x: x.round(), COPY),
    "trunc of integers": (lambda lib, x: x.long().trunc(), COPY),
    "neg": (lambda lib, x: -x, COPY),
    "lerp": (lambda lib, x: lib.lerp(x, x, 0.5), COPY),
    "leaky_relu": (lambda lib, x: lib.nn.functional.leaky_relu(x, 1.0), COPY),
    "layer_norm": (lambda lib, x: lib.nn.functional.layer_norm(x, x.shape[-1:]), COPY),
    "normalize": (lambda lib, x: lib.nn.functional.normalize(x, dim=0), COPY),
    "ones_like": (lambda lib, x: lib.ones_like(x), COPY),
}  # fmt: skip
#: Functions that take no scalars.
OF_VECTORS = ("einsum in another order", "einsum of sums", "gather", "index_select", "layer_norm")
#: Functions that share memory, and functions that compute nothing for a size or a repeat count of 1.
FOLDING = (
    [n for n, (_, kind) in FUNCTIONS.items() if kind is not COPY]
    + """
    sum sum(0) sum(-1) prod prod(0) max max(0) min min(0) amax amin flip roll repeat
""".split()
)
#: Functions that tensors of a trace do not have.
OF_VALUES = ("to the same device",)

#: Views of each kind (all, an element, in another order, sizes of 1), for functions that always compute something.
FEW_VIEWS = ("the tensor", "an element", "a part of the turned", "ones")
PAIRS = [
    (view, name)
    for view in VIEWS
    for name in FUNCTIONS
    if (name in FOLDING or view in FEW_VIEWS) and (np.ndim(VIEWS[view](counted())) or name not in OF_VECTORS)
]


def shares(view, name):
    """Whether PyTorch's documents say that the result shares the memory of the operand."""
    kind = FUNCTIONS[name][1]
    return kind is VIEW if isinstance(kind, str) else bool(kind(VIEWS[view](counted())))


def result(lib, x, view, name):
    return FUNCTIONS[name][0](lib, VIEWS[view](x))


def update_of_the_operand(lib, x, view, name):
    """Whether the update shows in the result."""
    y = result(lib, x, view, name)
    before = y.clone()
    x.add_(100)
    return before, y


def update_of_the_result(lib, x, view, name):
    """Whether the update shows in the operand."""
    before, y = x.clone(), result(lib, x, view, name)
    y.fill_(77)
    return before, x


UPDATES = [update_of_the_operand, update_of_the_result]


def cases(view, update):
    """The functions that an update is tried with."""
    names = [name for v, name in PAIRS if v == view]
    return [n for n in names if update is update_of_the_operand or n not in ("expand", "expand_as")]


def wanted(view, update):
    return {name: shares(view, name) for name in cases(view, update)}


def differs(pair):
    before, after = (np.array(t.tolist()) for t in pair)
    return bool((before != after).any())


def in_eager_mode(lib, view, update):
    return {name: differs(update(lib, lib.tensor(counted()), view, name)) for name in cases(view, update)}


@pytest.mark.parametrize("update", UPDATES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("view", VIEWS)
def test_results_of_functions_share_memory_as_documented(view, update):
    assert in_eager_mode(flow, view, update) == wanted(view, update)


@pytest.mark.parametrize("update", UPDATES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("view", VIEWS)
def test_results_of_pytorch_share_memory_as_documented(view, update):
    torch = pytest.importorskip("torch")
    assert in_eager_mode(torch, view, update) == wanted(view, update)


def traced_names(view, update):
    return [n for n in cases(view, update) if n not in OF_VALUES]


@pytest.mark.parametrize("update", UPDATES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("view", VIEWS)
def test_aliases_of_tensors_that_a_traced_function_makes(view, update):
    names = traced_names(view, update)
    module = flow.trace(
        lambda x: [update(flow, x * 1, view, name) for name in names], flow.TensorSpec(counted().shape, flow.float32)
    )
    found = interpret(module, counted())
    got = {n: differs(pair) for n, pair in zip(names, zip(found[::2], found[1::2], strict=True), strict=True)}
    assert got == {n: shares(view, n) for n in names}


@pytest.mark.parametrize("update", UPDATES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("view", VIEWS)
def test_aliases_of_tensors_that_a_compiled_function_captures(view, update):
    names = [n for n in traced_names(view, update) if n in FOLDING]
    given = [flow.tensor(counted()) for _ in names]
    run = flow.compile(lambda: [update(flow, x, view, name) for x, name in zip(given, names, strict=True)])
    got = {n: differs(pair) for n, pair in zip(names, run(), strict=True)}
    assert got == {n: shares(view, n) for n in names}
