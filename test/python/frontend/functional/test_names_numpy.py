"""Functions under NumPy's and PyTorch's names, against NumPy."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.nn import functional as F  # noqa: N812

A = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5
B = np.linspace(0.5, 2, 6, dtype=np.float32).reshape(2, 3)
V, W = np.array([1, -2, 3], np.float32), np.array([0.5, 4, -1], np.float32)
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
NAN = np.array([1, np.nan, 3], np.float32)
#: Second arguments of Hurwitz's zeta function, the values of SciPy 1.17, and first arguments.
ZETA = (
    [1.0, 0.25, 1.0, 1.0, 2.5], [1.6449340668482266, 10.213055360466601, np.inf, np.nan, 0.11810202582086368],
    [2.0, 1.5, 1.0, 0.5, 3.0],
)  # fmt: skip
SQUARE = np.array([[2, 1, 0], [1, 3, 1], [0, -1, 1]], np.float32)
BOXES = np.array([[0, 0, 2, 2], [0, 0, 2, 1.9], [3, 3, 4, 4]], np.float32)
INTS = np.array([[3, 1, 2], [0, 5, 4]])

#: Each call, and NumPy's value.
CASES = {
    "addcdiv": (lambda: flow.addcdiv(t(A), t(A), t(B), value=2), A + 2 * A / B),
    "allclose": (lambda: flow.tensor([flow.allclose(t(A), t(A) + 1e-7), flow.allclose(t(A), t(B))]), [True, False]),
    "arccos": (lambda: flow.arccos(t(A) / 4), np.arccos(A / 4)),
    "atleast_3d": (lambda: flow.atleast_3d(t(A)), np.atleast_3d(A)),
    "atleast_2d": (lambda: flow.atleast_2d([t(V), flow.tensor(1.0)])[1], [[1.0]]),
    "baddbmm": (
        lambda: flow.baddbmm(t(CUBE), t(CUBE[:, :, :3]), t(CUBE), beta=0.5, alpha=2),
        0.5 * CUBE + 2 * CUBE[:, :, :3] @ CUBE,
    ),
    "broadcast_tensors": (lambda: flow.broadcast_tensors(t(V), t(A))[0], np.broadcast_to(V, (2, 3))),
    "clamp_min": (lambda: flow.clamp_min(t(A), 0.0), A.clip(0)),
    "clamp_max": (lambda: flow.clamp_max(t(A), 0.0), A.clip(max=0)),
    "column_stack": (lambda: flow.column_stack((t(V), t(W))), np.column_stack((V, W))),
    "cross": (lambda: flow.cross(t(V), t(W)), np.cross(V, W)),
    "cross_of_columns": (lambda: flow.cross(t(A.T), t(B.T)), np.cross(A, B).T),
    "bincount_of_bytes": (lambda: flow.bincount(flow.tensor(np.array([3, 0, 3], np.uint8))), [1, 0, 0, 2]),
    "tensordot_dims_of_tensor": (lambda: flow.tensordot(t(A), t(B), flow.tensor([2])), np.tensordot(A, B, 2)),
    "norm_0_gradient": (lambda: flow.grad(lambda x: flow.norm(x, 0))(t(A)), np.zeros((2, 3))),
    "diag_of_vector": (lambda: flow.diag(t(V), -1), np.diag(V, -1)),
    "diag_of_matrix": (lambda: flow.diag(t(A), 1), np.diag(A, 1)),
    "diagonal": (lambda: flow.diagonal(t(CUBE), 1, 2, 0), CUBE.diagonal(1, 2, 0)),
    "dsplit": (lambda: flow.dsplit(t(CUBE), [1, 3])[1], np.dsplit(CUBE, [1, 3])[1]),
    "dstack": (lambda: flow.dstack((t(V), t(W))), np.dstack((V, W))),
    "einsum": (lambda: flow.einsum("ij,kj->ki", t(A), t(B)), np.einsum("ij,kj->ki", A, B)),
    "einsum_implicit": (lambda: flow.einsum("ba,bc", t(A), t(B)), np.einsum("ba,bc", A, B)),
    "einsum_dots": (lambda: flow.einsum("...ij,...j->...i", t(CUBE), t(CUBE[:, 0])),
                    np.einsum("...ij,...j->...i", CUBE, CUBE[:, 0])),
    "einsum_diagonal": (lambda: flow.einsum("iij->j", t(CUBE[:, :2])), np.einsum("iij->j", CUBE[:, :2])),
    "einsum_three": (lambda: flow.einsum("ij,ik,il->jkl", t(A), t(B), t(A)), np.einsum("ij,ik,il->jkl", A, B, A)),
    "einsum_ones": (lambda: flow.einsum("ij,ij->ij", t(A[:, :1]), t(B)), A[:, :1] * B),
    "equal": (lambda: flow.tensor([flow.equal(t(A), t(A)), flow.equal(t(A), t(V))]), [True, False]),
    "frac": (lambda: flow.frac(t(A)), np.modf(A)[0]),
    "gather_nd": (lambda: flow.gather_nd(t(A), flow.tensor([[0, 1], [1, 2]])), A[[0, 1], [1, 2]]),
    "greater": (lambda: flow.greater(t(A), 0), A > 0),
    "hann_window": (lambda: flow.hann_window(4), np.sin(np.pi * np.arange(4) / 4) ** 2),
    "hann_symmetric": (lambda: flow.hann_window(4, periodic=False), np.hanning(4)),
    "hsplit": (lambda: flow.hsplit(t(A), 3)[2], A[:, 2:]),
    "hstack": (lambda: flow.hstack((t(A), t(B))), np.hstack((A, B))),
    "index_add": (lambda: flow.index_add(t(A), 1, flow.tensor([2, 0, 2]), t(B), alpha=2),
                  A + 2 * np.stack((B[:, 1], 0 * B[:, 0], B[:, 0] + B[:, 2]), 1)),
    "inner": (lambda: t(A).inner(t(B)), np.inner(A, B)),
    "inner_of_many": (lambda: t(CUBE).inner(t(CUBE)), np.inner(CUBE, CUBE)),
    "isclose": (lambda: flow.isclose(t(NAN), t(NAN), equal_nan=True), [True, True, True]),
    "isclose_infinite": (lambda: flow.isclose(flow.tensor([np.inf] * 2), flow.tensor([np.inf, 1])), [True, False]),
    "isclose_integers": (lambda: flow.isclose(t(INTS), t(INTS) + 1), INTS < -1),
    "logaddexp": (lambda: flow.logaddexp(t(A) * 100, t(B)), np.logaddexp(A * 100, B)),
    "meshgrid": (lambda: flow.meshgrid(t(V), t(W[:2]))[0], np.meshgrid(V, W[:2], indexing="ij")[0]),
    "meshgrid_xy": (lambda: flow.meshgrid(t(V), t(W[:2]), indexing="xy")[1], np.meshgrid(V, W[:2])[1]),
    "mv": (lambda: flow.mv(t(A), t(V)), A @ V),
    "nansum": (lambda: flow.nansum(t(NAN)), 4.0),
    "outer": (lambda: t(V).outer(t(W)), np.outer(V, W)),
    "repeat_interleave": (lambda: flow.repeat_interleave(t(A), 2, 1), A.repeat(2, 1)),
    "repeat_interleave_each": (lambda: t(A).repeat_interleave(flow.tensor([0, 2]), 0), A.repeat([0, 2], 0)),
    "repeat_interleave_all": (lambda: t(A).repeat_interleave(2), A.repeat(2)),
    "row_stack": (lambda: flow.row_stack((t(V), t(W))), np.vstack((V, W))),
    "scatter": (lambda: flow.scatter(t(A), 1, flow.tensor([[2], [0]]), t(B)),
                [[A[0, 0], A[0, 1], B[0, 0]], [B[1, 0], A[1, 1], A[1, 2]]]),
    "scatter_number": (lambda: t(A).scatter(0, flow.tensor([[1, 0, 1]]), 9.0),
                       np.where([[0, 1, 0], [1, 0, 1]], 9, A)),
    "scatter_reduce": (lambda: t(A).scatter(0, flow.tensor([[1, 0, 1]]), t(B), reduce="add"),
                       np.add(A, [[0, B[0, 1], 0], [B[0, 0], 0, B[0, 2]]])),
    "scatter_add": (lambda: t(V).scatter_add(0, flow.tensor([1, 1, 0]), t(W)), np.add(V, [W[2], W[0] + W[1], 0])),
    "scatter_nd": (lambda: flow.scatter_nd(flow.tensor([[1], [1]]), t(W[:2]), [3]), [0, W[0] + W[1], 0]),
    "swapaxes": (lambda: flow.swapaxes(t(CUBE), 0, 2), CUBE.swapaxes(0, 2)),
    "tensor_split": (lambda: flow.tensor_split(t(CUBE), 3, 2)[0], np.array_split(CUBE, 3, 2)[0]),
    "tensor_split_at": (lambda: t(CUBE).tensor_split((1, 9), 1)[1], CUBE[:, 1:]),
    "tensor_scatter_nd_update": (
        lambda: flow.tensor_scatter_nd_update(t(V), flow.tensor([[2]]), flow.tensor([7.0])), [1, -2, 7]),
    "tensordot": (lambda: flow.tensordot(t(CUBE), t(CUBE), dims=([0, 2], [0, 2])),
                  np.einsum("aib,ajb->ij", CUBE, CUBE)),
    "tensordot_pairs": (lambda: flow.tensordot(t(CUBE), t(A), dims=([1], [1])), np.tensordot(CUBE, A, ([1], [1]))),
    "tile": (lambda: flow.tile(t(A), (2,)), np.tile(A, 2)),
    "tile_more": (lambda: t(A).tile(2, 1, 3), np.tile(A, (2, 1, 3))),
    "trace": (lambda: t(A).trace(), np.trace(A)),
    "vsplit": (lambda: flow.vsplit(t(A), 2)[1], A[1:]),
    "vstack": (lambda: flow.vstack((t(V), t(A))), np.vstack((V, A))),
    "linalg.vector_norm": (lambda: flow.linalg.vector_norm(t(A), 3, 1), np.linalg.norm(A, 3, 1)),
    "linalg.matrix_norm": (lambda: flow.linalg.matrix_norm(t(CUBE), 1), np.linalg.norm(CUBE, 1, (1, 2))),
    "linalg.matrix_norm_inf": (lambda: flow.linalg.norm(t(A), -np.inf), np.linalg.norm(A, -np.inf)),
    "linalg.norm": (lambda: flow.linalg.norm(t(CUBE)), np.sqrt((CUBE**2).sum())),
    "linalg.diagonal": (lambda: flow.linalg.diagonal(t(CUBE)), CUBE.diagonal(0, 1, 2)),
    "linalg.cross": (lambda: flow.linalg.cross(t(A), t(B)), np.cross(A, B)),
    "special.zeta": (lambda: flow.special.zeta(flow.tensor(ZETA[2]), flow.tensor(ZETA[0])), ZETA[1]),
    "special.expit": (lambda: flow.special.expit(t(A)), 1 / (1 + np.exp(-A))),
    "sparse_softmax_cross_entropy": (
        lambda: flow.nn.functional.sparse_softmax_cross_entropy(flow.tensor([2, 0]), t(A)),
        np.log(np.exp(A).sum(1)) - A[[0, 1], [2, 0]],
    ),
    "combined_margin_loss": (
        lambda: flow.nn.functional.combined_margin_loss(t(A / 3), flow.tensor([2, 0]), 1.5, 0.1, 0.2),
        np.where([[0, 0, 1], [1, 0, 0]], np.cos(1.5 * np.arccos(A / 3) + 0.1) - 0.2, A / 3),
    ),
    "erfinv": (lambda: flow.erf(flow.erfinv(t(A / 3))), A / 3),
    "max_unpool": (lambda: F.max_unpool1d(flow.tensor([[3.0, 7.0]]), flow.tensor([[1, 2]]), 2), [[0, 3, 7, 0]]),
    "max_unpool_size": (lambda: F.max_unpool2d(t(np.ones((1, 1, 1), np.float32)), flow.tensor([[[4]]]), 2,
                                               output_size=(3, 3)), np.eye(3)[[0, 1, 0]][None] * [[[0], [1], [0]]]),
    "quantile": (lambda: flow.quantile(t(A), 0.3, 1), np.quantile(A, 0.3, 1)),
    "quantiles": (lambda: flow.quantile(t(A), flow.tensor([0.1, 0.6]), 0, True),
                  np.quantile(A, [0.1, 0.6], 0, keepdims=True)),
    "quantile_lower": (lambda: flow.quantile(t(A), 0.5, interpolation="lower"), np.quantile(A, 0.5, method="lower")),
    "quantile_nan": (lambda: flow.quantile(t(NAN), 0.1), np.nan),
    "roc_auc_score": (lambda: flow.roc_auc_score(flow.tensor([1, 1, 0, 1]), flow.tensor([0.9, 0.3, 0.3, 0.5])),
                      [5 / 6]),
    "interpolate_like": (lambda: F.interpolate_like(t(CUBE[:1]), flow.ones(1, 1, 8)), CUBE[:1].repeat(2, 2)),
    "pixel_shuffle": (lambda: F.pixel_shuffle(t(CUBE[:, None, :2, :1].reshape(1, 2, 1, 2)), h_upscale_factor=2,
                                              w_upscale_factor=1), CUBE[:, None, :2, :1].reshape(1, 1, 2, 2)),
    "bincount": (lambda: flow.tensor([3, 0, 3]).bincount(), np.bincount([3, 0, 3])),
    "movedim": (lambda: flow.movedim(t(CUBE), (0, 1), (2, 0)), np.moveaxis(CUBE, (0, 1), (2, 0))),
    "inv": (lambda: flow.linalg.inv(t(SQUARE)), np.linalg.inv(SQUARE)),
    "det": (lambda: flow.linalg.det(flow.stack([t(SQUARE), t(SQUARE.T)])), [np.linalg.det(SQUARE)] * 2),
    "nms": (lambda: flow.nms(t(BOXES), flow.tensor([0.5, 0.9, 0.1]), 0.5), np.array([1, 2], np.int32)),
    "affine_grid": (lambda: F.grid_sample(t(CUBE[None]), F.affine_grid(flow.tensor([[[1.0, 0, 0], [0, 1.0, 0]]]),
                                                                       [1, 2, 3, 4])), CUBE[None]),
    "deform_conv2d": (lambda: F.deform_conv2d(t(CUBE[None]), flow.ones(1, 2, 3, 4), flow.ones(1, 2, 1, 1)),
                      np.pad(CUBE.sum(0), ((0, 1), (0, 1)))[None, None, 1:, 1:]),
    "new_full": (lambda: t(INTS).new_full((2,), 3), np.array([3, 3])),
    "new_zeros": (lambda: t(INTS).new_zeros(2, 1), np.array([[0], [0]])),
    "type_as": (lambda: t(A).type_as(t(INTS)), A.astype(np.int64)),
    "view_as": (lambda: t(A).view_as(t(A.T)), A.reshape(3, 2)),
    "as_tensor": (lambda: flow.as_tensor(A, dtype=flow.int32), A.astype(np.int32)),
}  # fmt: skip


def t(array):
    return flow.tensor(array)


@pytest.mark.parametrize("name", CASES)
def test_values_equal_numpy(name):
    call, wanted = CASES[name]
    result, wanted = call(), np.asarray(wanted)
    assert tuple(result.shape) == wanted.shape
    assert result.dtype.is_float == (wanted.dtype.kind == "f") or wanted.dtype.kind == "i"
    np.testing.assert_allclose(result.numpy().astype(np.float64), wanted, rtol=1e-5, atol=1e-6)


#: Refused calls, and a part of the message.
BAD = {
    "einsum operands": (lambda: flow.einsum("ij,jk", t(A)), "expected 2 operands"),
    "einsum rank": (lambda: flow.einsum("i", t(A)), "expected an operand of 1 dimensions"),
    "einsum sizes": (lambda: flow.einsum("ij,ij", t(A), t(A[:, :2])), "one size of 'j'"),
    "einsum output": (lambda: flow.einsum("ij->k", t(A)), "letters of its left"),
    "tensordot sizes": (lambda: flow.tensordot(t(A), t(A), 1), "expected equal sizes"),
    "cross": (lambda: flow.cross(t(CUBE), t(CUBE), 2), "expected 3 elements"),
    "cross ranks": (lambda: flow.linalg.cross(t(CUBE[:, :, :3]), t(CUBE[0, :, :3])), "operands of one rank"),
    "polygamma": (lambda: flow.polygamma(-1, t(A)), "a whole number of at least 0"),
    "softshrink": (lambda: F.softshrink(t(A), -0.5), "lambd of at least 0"),
    "masked_fill": (lambda: t(INTS).masked_fill(t(INTS) > 1, flow.tensor(1j)), "a real number to fill"),
    "max_pool3d": (lambda: F.max_pool3d(flow.zeros(0, 1, 2, 10), 1), "images with elements"),
    "diag": (lambda: flow.diag(t(CUBE)), "a vector or a matrix"),
    "slice": (lambda: t(A)[:, 0:2:0], "the step of a slice other than 0"),
    "empty_strided": (lambda: flow.empty_strided((2, 3), (1,)), "as many strides"),
    "hsplit": (lambda: flow.hsplit(t(A), 2), "sections that divide"),
    "meshgrid": (lambda: flow.meshgrid(t(A)), "expected vectors"),
    "meshgrid of nothing": (lambda: flow.meshgrid([]), "no vector"),
    "meshgrid of two types": (lambda: flow.meshgrid(t(V), t(INTS[0])), "one element type"),
    "tensordot twice": (
        lambda: flow.tensordot(t(CUBE), t(CUBE), [[1, 1], [1, 1]]),
        "each dimension of an operand once",
    ),
    "isclose": (lambda: flow.isclose(t(A), t(INTS)), "one element type"),
    "scatter": (lambda: flow.scatter(t(A), 0, t(INTS), t(INTS)), "src"),
    "repeats": (lambda: flow.repeat_interleave(t(A), flow.tensor([1, 2, 3]), 0), "expected 2 repeats"),
    "broadcast_shapes": (lambda: flow.broadcast_shapes((2, 3), (2,)), "shapes that broadcast"),
    "matrix_norm": (lambda: flow.linalg.matrix_norm(t(A), 2), "expected ord to be"),
    "is_nonzero": (lambda: flow.is_nonzero(t(A)), "one element"),
    "frac": (lambda: flow.frac(t(INTS)), "floating-point elements"),
    "randint": (lambda: flow.randint(3, 3, (2,)), "low below high"),
    "normal": (lambda: flow.normal(0.0, -1.0, (2,)), "deviation of at least 0"),
    "multinomial": (lambda: flow.multinomial(flow.tensor([1.0, 0.0]), 2), "2 weights other than 0"),
    "generator": (lambda: flow.rand(2, generator=3), "flow.Generator"),  # type: ignore[call-overload]
    "quantile": (lambda: flow.quantile(t(A), 1.5), "fractions from 0 to 1"),
    "roc_auc_score": (lambda: flow.roc_auc_score(flow.ones(2), flow.ones(2)), "both classes"),
    "max_unpool": (lambda: F.max_unpool1d(t(A), t(INTS), 2, output_size=(9,)), "output_size less than"),
    "out shape": (lambda: flow.add(t(A), 1, out=flow.zeros(3)), "expected out of add to take"),
    "out type": (lambda: flow.add(t(A), 1, out=t(INTS)), "expected out of add to take"),
    "out gradient": (lambda: flow.mul(flow.ones(2, requires_grad=True), 2, out=flow.zeros(2)), "no gradient"),
    "inv": (lambda: flow.linalg.inv(flow.zeros(2, 2)), "Singular matrix"),
    "det": (lambda: flow.linalg.det(t(A)), "square matrices"),
    "default dtype": (lambda: flow.set_default_dtype(flow.int32), "type of floats"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_arguments_of_numpy_names(name):
    call, text = BAD[name]
    with pytest.raises((ValueError, TypeError, RuntimeError), match=text):
        call()


def test_gradients_through_composed_functions():
    x = flow.tensor(A, requires_grad=True)
    (flow.einsum("ij,kj->ik", x, t(B)) * flow.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.array([[1, 2], [3, 4]], np.float32) @ B, rtol=1e-6)


def test_gradients_of_inverses():
    x = flow.tensor(SQUARE, requires_grad=True)
    (flow.linalg.inv(x) * t(SQUARE)).sum().backward()
    inverse = np.linalg.inv(SQUARE)
    np.testing.assert_allclose(x.grad.numpy(), -inverse.T @ SQUARE @ inverse.T, rtol=1e-4, atol=1e-6)
    x.grad = None
    flow.linalg.det(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.linalg.det(SQUARE) * inverse.T, rtol=1e-4, atol=1e-6)


def test_functions_in_a_compiled_function():
    @flow.compile
    def f(x, y):
        return flow.einsum("ij,kj->ik", x, y), flow.scatter(x, 0, flow.tensor([[1, 0, 1]]), y), flow.vstack((x, y))

    product, scattered, stacked = f(A, B)
    np.testing.assert_allclose(np.asarray(product), A @ B.T, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(stacked), np.vstack((A, B)))
    assert np.asarray(scattered)[1, 0] == B[0, 0]


def test_aliases_of_in_place_functions():
    x = flow.tensor(A)
    assert flow.sin_(x) is x
    np.testing.assert_allclose(x.numpy(), np.sin(A), rtol=1e-6)
    x = flow.tensor(A)
    x.scatter_add_(0, flow.tensor([[1, 1, 1]]), flow.ones(1, 3)).gt_(0)
    np.testing.assert_array_equal(x.numpy(), np.where(np.add(A, [[0, 0, 0], [1, 1, 1]]) > 0, 1, 0))
    base = flow.tensor(V)
    assert base.unsqueeze_(0) is base and base.shape == (1, 3) and base.squeeze_().shape == (3,)


def test_results_are_written_to_out():
    out = flow.zeros(2, 3, dtype=flow.float64)
    assert flow.mul(t(A), 2, out=out) is out
    np.testing.assert_allclose(out.numpy(), 2 * A)
    values, indices = flow.zeros(2), flow.zeros(2, dtype=flow.int64)
    flow.max(t(A), 1, out=(values, indices))
    assert values.tolist() == A.max(1).tolist() and indices.tolist() == [2, 2]


def test_tensor_attributes():
    x = flow.tensor(CUBE)
    assert (x.stride(), x.stride(1), x.element_size(), x.nelement(), x.ndimension()) == ((12, 4, 1), 4, 4, 24, 3)
    view = x[1, :, ::2]
    assert (view.stride(), view.storage_offset()) == ((4, 2), 12)
    column = flow.ones(3, 1)
    assert [column.expand(2, 3, 1).stride(), x[:, None].stride()] == [(0, 1, 1), (12, 12, 4, 1)]
    assert flow.ones(2, 1, 3).expand(1, 2, 5, 3).stride() == (6, 3, 0, 1)
    made = flow.empty_strided((2, 3), (1, 2), dtype=flow.int32)
    assert (made.shape, made.stride(), made.dtype) == ((2, 3), (1, 2), flow.int32)
    assert flow.empty_strided((2, 3), (4, 1), requires_grad=True).requires_grad
    assert (x.type(), x.type(flow.int32).dtype, x.type("oneflow.LongTensor").dtype) == (
        "oneflow.FloatTensor", flow.int32, flow.int64)  # fmt: skip
    assert isinstance(flow.broadcast_shapes((2, 1), (3,)), flow.Size)
    assert repr(x.shape) == "oneflow.Size([2, 3, 4])" and x.shape.numel() == 24 and isinstance(x.shape, flow.Size)  # type: ignore[attr-defined]
    assert isinstance(x, flow.FloatTensor) and not isinstance(x, flow.LongTensor)
    assert flow.LongTensor([1, 2]).dtype == flow.int64 and flow.HalfTensor(2, 3).shape == (2, 3)


def test_default_dtype():
    layer = flow.compile(lambda x: x * flow.ones(2))
    flow.set_default_dtype(flow.float64)
    try:
        made = (flow.tensor([1.0]), flow.zeros(2), flow.tensor([1]) / 2, flow.nn.Linear(1, 1).weight, flow.Tensor(1))
        assert {x.dtype for x in made} == {flow.float64}
        assert np.asarray(layer(np.arange(2))).dtype == np.float64
    finally:
        flow.set_default_tensor_type(flow.FloatTensor)
    assert flow.tensor([1.0]).dtype == flow.float32
    assert np.asarray(layer(np.arange(2))).dtype == np.float32


def test_generators_repeat():
    generator = flow.Generator().manual_seed(5)
    first, state = flow.rand(3, generator=generator), generator.get_state()
    second = flow.randperm(5, generator=generator)
    generator.set_state(state)
    assert flow.equal(flow.randperm(5, generator=generator), second) and sorted(second.tolist()) == [0, 1, 2, 3, 4]
    assert flow.equal(flow.rand(3, generator=generator.manual_seed(5)), first)
    assert flow.default_generator.manual_seed(3) is flow.manual_seed(3) and flow.initial_seed() == 3


def test_draws_in_compiled_functions():
    """Every run draws other numbers; an equal seed draws equal numbers."""

    def draws(weights):
        return flow.multinomial(weights, 20, True), flow.randperm(20)

    compiled, weights = flow.compile(draws), np.array([[1.0, 0.0, 2.0]], np.float32)
    flow.manual_seed(4)
    first, second = compiled(weights), compiled(weights)
    flow.manual_seed(4)
    again = compiled(weights)
    assert [sorted(order.tolist()) for _, order in (first, second)] == [list(range(20))] * 2
    assert set(first[0].ravel().tolist()) == {0, 2}
    for one, other, repeated in zip(first, second, again, strict=True):
        assert not np.array_equal(one, other) and np.array_equal(one, repeated)


def test_slopes_of_rrelu():
    """In training the slope of each negative element is random and is the gradient; otherwise slopes are the mean."""
    layer, x = flow.nn.RReLU(0.25, 0.5), flow.tensor([-1.0, 2.0, -4.0], requires_grad=True)
    y = layer(x)
    y.sum().backward()
    slopes = x.grad.numpy()
    np.testing.assert_allclose(y.numpy(), x.detach().numpy() * slopes, rtol=1e-6)
    assert slopes[1] == 1 and slopes[0] != slopes[2] and all(0.25 <= s < 0.5 for s in slopes[[0, 2]])
    np.testing.assert_allclose(layer.eval()(x).tolist(), [-0.375, 2.0, -1.5])
    values = flow.tensor([-1.0, 2.0, -4.0])
    np.testing.assert_allclose(flow.nn.functional.rrelu(values, 0.25, 0.5).tolist(), [-0.375, 2.0, -1.5])
    assert flow.nn.functional.rrelu(values, 0.5, 0.5, training=True, inplace=True) is values
    assert values.tolist() == [-0.5, 2.0, -2.0]
    with pytest.raises(flow.OneFlowError, match="expected lower of at most upper for rrelu, got 1 and 0"):
        flow.nn.functional.rrelu(values, 1, 0)


def test_random_numbers_of_a_kind():
    flow.manual_seed(0)
    assert flow.multinomial(flow.tensor([[0.0, 1.0], [1.0, 0.0]]), 3, True).tolist() == [[1, 1, 1], [0, 0, 0]]
    assert sorted(flow.multinomial(flow.tensor([1.0, 2.0, 3.0]), 3).tolist()) == [0, 1, 2]
    with pytest.raises(IndexError, match="a row of weights at least 0, finite and not all 0"):
        flow.multinomial(flow.tensor([1.0, -1.0]), 1)
    rates = flow.empty(4000).exponential_(4.0)
    assert rates.min().item() >= 0
    assert abs(rates.mean().item() - 0.25) < 0.02 and abs(rates.std().item() - 0.25) < 0.02
    drawn = flow.normal(flow.full((4000,), 2.0), 0.5)
    assert abs(drawn.mean().item() - 2) < 0.05 and abs(drawn.std().item() - 0.5) < 0.05
    assert flow.empty(3).bernoulli_(1.0).tolist() == [1, 1, 1] and flow.randint(2, (5,)).max().item() < 2
    uniform = flow.empty(4000).uniform_(2, 4)
    assert uniform.min().item() >= 2 and uniform.max().item() < 4 and abs(uniform.mean().item() - 3) < 0.05
    hard = flow.nn.functional.gumbel_softmax(flow.tensor([[0.0, 50.0, 0.0]]), hard=True)
    assert hard.round().tolist() == [[0, 1, 0]]


#: The printed form of tensors in PyTorch, with OneFlow's element type.
PRINTED = {
    "[]": flow.tensor([]),
    "[], size=(0, 2)": flow.zeros(0, 2),
    "[ 1.0000, -2.5000]": flow.tensor([1, -2.5]),
    "[1., nan, inf]": flow.tensor([1, np.nan, np.inf]),
    "[1.0000e+00, 1.0000e+05]": flow.tensor([1.0, 1e5]),
    "[1.0000e-05, 5.0000e-01]": flow.tensor([1e-5, 0.5]),
    "3.": flow.tensor(3.0),
}


@pytest.mark.parametrize("text", PRINTED)
def test_printing(text):
    assert repr(PRINTED[text]) == f"tensor({text}, dtype=oneflow.float32)"


def test_printing_of_many_elements():
    assert repr(flow.arange(2000)) == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999], dtype=oneflow.int64)"
    try:
        flow.set_printoptions(precision=2, threshold=2, edgeitems=1)
        assert repr(flow.tensor([0.125, 1, 2])) == "tensor([0.12,  ..., 2.00], dtype=oneflow.float32)"
        flow.set_printoptions(sci_mode=True)
        assert repr(flow.tensor([0.5])) == "tensor([5.00e-01], dtype=oneflow.float32)"
    finally:
        flow.set_printoptions(profile="default")
    x = flow.tensor([True], requires_grad=False)
    assert repr(x) == "tensor([True], dtype=oneflow.bool)"
    assert repr(flow.ones(1, requires_grad=True)) == "tensor([1.], dtype=oneflow.float32, requires_grad=True)"
    assert "grad_fn=<" in repr(flow.ones(1, requires_grad=True) * 2)


@pytest.mark.parametrize("kind", [ValueError, RuntimeError])
def test_errors_are_caught_as_in_numpy_and_in_pytorch(kind):
    with pytest.raises(kind, match="expected 3 elements"):
        flow.cross(t(A), t(A), 0)
