"""Functions of tensors without elements, or with a size of 0 that is summed over: shapes, values and gradients.

An empty sum is 0, an empty mean NaN, an empty product 1; tensors without a path to the loss have gradients of 0.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest

import oneflow as flow

F = flow.nn.functional
#: By name: the function, the shapes of the operands, the shape of the result, and the value of all its elements.
ROWS: dict[Any, Any] = {}


def row(name, function, operands, shape, value=None):
    ROWS[name] = function, operands, shape, value


for _n, _c, _o in ((2, 3, 0), (2, 0, 4), (0, 3, 4), (0, 0, 0), (2, 0, 0)):
    for _dims, _kernel, _small, _large in (
        ((5,), (3,), (3,), (7,)),
        ((5, 4), (3, 2), (3, 3), (7, 5)),
        ((3, 4, 3), (2, 2, 1), (2, 3, 3), (4, 5, 3)),
    ):
        _count = len(_dims)
        row(
            f"conv{_count}d {_n} {_c} {_o}", getattr(F, f"conv{_count}d"),
            [(_n, _c, *_dims), (_o, _c, *_kernel), (_o,)], (_n, _o, *_small), 1 if _c == 0 else None,
        )  # fmt: skip
        row(
            f"conv_transpose{_count}d {_n} {_c} {_o}", getattr(F, f"conv_transpose{_count}d"),
            [(_n, _c, *_dims), (_c, _o, *_kernel), (_o,)], (_n, _o, *_large), 1 if _c == 0 else None,
        )  # fmt: skip
for _count in (1, 2, 3):
    for _n, _c in ((0, 3), (2, 0)):
        for _pool in ("max_pool", "avg_pool"):
            _name = f"{_pool}{_count}d"
            if _c:  # images of no channels are refused
                row(f"{_name} {_n} {_c}", partial(getattr(F, _name), kernel_size=2), [(_n, _c, *[4] * _count)],
                    (_n, _c, *[2] * _count))  # fmt: skip
            _name = f"adaptive_{_name}"
            row(f"{_name} {_n} {_c}", partial(getattr(F, _name), output_size=3), [(_n, _c, *[4] * _count)],
                (_n, _c, *[3] * _count))  # fmt: skip
for _m, _k, _n in ((0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0), (0, 3, 0)):
    row(f"matmul {_m} {_k} {_n}", flow.matmul, [(_m, _k), (_k, _n)], (_m, _n), 0)
    row(f"matmul of batches {_m} {_k} {_n}", flow.matmul, [(2, 1, _m, _k), (3, _k, _n)], (2, 3, _m, _n), 0)
    row(f"bmm {_m} {_k} {_n}", flow.bmm, [(2, _m, _k), (2, _k, _n)], (2, _m, _n), 0)
    row(f"bmm of none {_m} {_k} {_n}", flow.bmm, [(0, _m, _k), (0, _k, _n)], (0, _m, _n))
    row(f"linear {_m} {_k} {_n}", F.linear, [(_m, _k), (_n, _k), (_n,)], (_m, _n), 1)
row("dot", flow.dot, [(0,), (0,)], (), 0)
row("a matrix of no columns by a vector", flow.matmul, [(2, 0), (0,)], (2,), 0)
for _name, _value in {
    "sum": 0,
    "prod": 1,
    "mean": np.nan,
    "var": np.nan,
    "std": np.nan,
    "norm": 0,
    "logsumexp": -np.inf,
}.items():
    _function = getattr(flow, _name)
    row(f"{_name} of none", partial(_function, dim=1), [(4, 0)], (4,), _value)
    row(f"{_name} of no rows", partial(_function, dim=1), [(0, 4)], (0,))
    row(f"{_name} that keeps", partial(_function, dim=0, keepdim=True), [(0, 4)], (1, 4), _value)
for _name in ("amax", "amin", "max", "min"):
    row(f"{_name} of no rows", partial(getattr(flow, _name), dim=1), [(0, 4)], (0,))
row("cat of vectors", lambda x, y: flow.cat([x, y, x]), [(0,), (3,)], (3,), 1)
row("cat of vectors of none", lambda x, y: flow.cat([x, y]), [(0,), (0,)], (0,))
row("median", flow.median, [(0, 4)], (), np.nan)
for _name in ("cumsum", "cumprod", "softmax", "log_softmax"):
    row(f"{_name} of none", partial(getattr(flow, _name), dim=-1), [(4, 0)], (4, 0))
    row(f"{_name} of no rows", partial(getattr(flow, _name), dim=-1), [(0, 4)], (0, 4))
for _shape in ((0, 4), (4, 0), (0, 0)):
    row(f"layer_norm {_shape}", lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b), [_shape, _shape[1:], _shape[1:]],
        _shape)  # fmt: skip
    row(f"rms_norm {_shape}", lambda x, w: F.rms_norm(x, x.shape[1:], w), [_shape, _shape[1:]], _shape)
    row(f"normalize {_shape}", lambda x: F.normalize(x, dim=1), [_shape], _shape)
    row(f"cosine_similarity {_shape}", lambda x, y: F.cosine_similarity(x, y, dim=1), [_shape, _shape], _shape[:1], 0)
    row(f"cat {_shape}", lambda x, y: flow.cat([x, y]), [_shape, (3, _shape[1])], (_shape[0] + 3, _shape[1]))
    row(f"cat with a vector {_shape}", lambda x, y: flow.cat([x, y, x], 1), [(0,), _shape], _shape)
    row(f"hstack with a vector {_shape}", lambda x, y: flow.hstack([x, y, x]), [(0,), _shape], _shape)
    row(f"stack {_shape}", lambda x, y: flow.stack([x, y]), [_shape, _shape], (2, *_shape))
    row(f"glu {_shape}", lambda x: F.glu(x, 0), [_shape], (_shape[0] // 2, _shape[1]))
    row(f"pad {_shape}", lambda x: F.pad(x, [1, 2]), [_shape], (_shape[0], _shape[1] + 3))
for _image in ((0, 4, 3), (2, 0, 3), (2, 4, 0), (0, 0, 3)):
    _channels = (_image[1],)
    row(f"batch_norm {_image}", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), [_image, *[_channels] * 4], _image)
    row(f"batch_norm in training {_image}",
        lambda x, w, b: F.batch_norm(x, flow.zeros(x.shape[1]), flow.ones(x.shape[1]), w, b, True),
        [_image, _channels, _channels], _image)  # fmt: skip
    row(f"group_norm {_image}", lambda x, w, b: F.group_norm(x, 2, w, b), [_image, _channels, _channels], _image)
    row(f"instance_norm {_image}", lambda x: F.instance_norm(x), [_image], _image)
row("pixel_shuffle of none", lambda x: F.pixel_shuffle(x, 2), [(0, 4, 3, 4)], (0, 1, 6, 8))
row("pixel_shuffle of no channels", lambda x: F.pixel_shuffle(x, 2), [(2, 0, 3, 4)], (2, 0, 6, 8))
row("pixel_unshuffle of no rows", lambda x: F.pixel_unshuffle(x, 2), [(2, 3, 0, 4)], (2, 12, 0, 2))
row("interpolate", lambda x: F.interpolate(x, size=(5, 7), mode="bilinear"), [(0, 3, 4, 4)], (0, 3, 5, 7))
row("unfold", lambda x: F.unfold(x, 2), [(0, 3, 4, 4)], (0, 12, 9))


def ones(shapes):
    return [flow.ones(*shape).requires_grad_() for shape in shapes]


def check(name, result):
    _, _, shape, value = ROWS[name]
    assert tuple(result.shape) == shape
    if value is not None:
        np.testing.assert_array_equal(result.detach().numpy(), np.full(shape, value, np.float32))


@pytest.mark.parametrize("name", ROWS)
def test_empty_tensors_in_eager_mode(name):
    operands = ones(ROWS[name][1])
    result = ROWS[name][0](*operands)
    result = result[0] if isinstance(result, tuple) else result
    check(name, result)
    result.sum().backward()
    for x in operands:
        assert x.grad is not None and x.grad.shape == x.shape
        if 0 in result.shape:
            assert not x.grad.numpy().any()


def test_empty_tensors_in_compiled_functions():
    """All rows in one program."""

    @flow.compile
    def run(*operands):
        rest, found = list(operands), []
        for function, shapes, _, _ in ROWS.values():
            arguments = [rest.pop(0) for _ in shapes]
            result = function(*arguments)
            found.append(result[0] if isinstance(result, tuple) else result)
        return found

    shapes = [shape for _, given, _, _ in ROWS.values() for shape in given]
    for name, result in zip(ROWS, run(*(flow.ones(*shape) for shape in shapes)), strict=True):
        check(name, result)


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 4, 0)])
def test_an_empty_batch_changes_no_running_statistics(shape):
    layer = flow.nn.BatchNorm1d(4)
    layer(flow.ones(*shape))
    assert layer.running_mean.tolist() == [0] * 4 and layer.running_var.tolist() == [1] * 4


LAYERS = {
    "Linear": (flow.nn.Linear, (0, 3), (2, 0), (2, 3)), "Linear, none": (flow.nn.Linear, (3, 0), (2, 3), (2, 0)),
    "Conv2d": (flow.nn.Conv2d, (3, 0, 3), (2, 3, 5, 5), (2, 0, 3, 3)),
    "Conv2d of none": (flow.nn.Conv2d, (0, 2, 3), (2, 0, 5, 5), (2, 2, 3, 3)),
    "ConvTranspose2d": (flow.nn.ConvTranspose2d, (3, 0, 3), (2, 3, 5, 5), (2, 0, 7, 7)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_empty_batches(name):
    kind, arguments, given, shape = LAYERS[name]
    assert tuple(kind(*arguments)(flow.ones(*given)).shape) == shape


@pytest.mark.parametrize("draw", ["xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"])
def test_empty_weights_draw_no_random_numbers(draw):
    assert getattr(flow.nn.init, draw)(flow.ones(0, 0)).shape == (0, 0)
