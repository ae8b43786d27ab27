"""Complex numbers in eager mode and in compiled functions: values by NumPy, gradients by PyTorch's convention.

The gradient by z = a + bi of a real number L is dL/da + i dL/db.
"""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect.dtypes import from_numpy
from oneflow.runtime.dlpack import HOST, ImportedTensor, export

Z = np.array([[1 + 2j, -3 - 1j, 0.5j], [2, -1 + 1e-3j, -2 - 0.5j]], np.complex64)
W = np.array([0.5 - 1j, 2 + 0.25j, -1j], np.complex64)
X = np.array([1.5, -2.0, 0.25], np.float32)

VALUES = {
    "add": (lambda m, z, w: z + w),
    "sub": (lambda m, z, w: z - w),
    "mul": (lambda m, z, w: z * w),
    "div": (lambda m, z, w: z / w),
    "matmul": (lambda m, z, w: z @ w),
    "number": (lambda m, z, w: (2 - 1j) * z + 3),
    "real operand": (lambda m, z, w: z * X + X),
    "power": (lambda m, z, w: z**2),
    "exp": (lambda m, z, w: m.exp(z)),
    "sqrt": (lambda m, z, w: m.sqrt(z)),
    "abs": (lambda m, z, w: abs(z)),
    "angle": (lambda m, z, w: m.angle(z)),
    "angle of reals": (lambda m, z, w: m.angle(X)),
    "conj": (lambda m, z, w: m.conj(z)),
    "real": (lambda m, z, w: m.real(z)),
    "imag": (lambda m, z, w: m.imag(z)),
    "sum": (lambda m, z, w: z.sum(0)),
    "mean": (lambda m, z, w: z.mean(1)),
    "equal": (lambda m, z, w: z == w),
    "where": (lambda m, z, w: m.where(m.real(z) > 0, z, w)),
    "index": (lambda m, z, w: z[1:, ::2]),
    "det": (lambda m, z, w: m.linalg.det(z[:, :2])),
    "slogdet": (lambda m, z, w: m.linalg.slogdet(z[:, :2])[0]),
    "log of |det|": (lambda m, z, w: m.linalg.slogdet(z[:, :2])[1]),
    "logaddexp": (lambda m, z, w: m.logaddexp(z, w) if m is flow else np.log(np.exp(z) + np.exp(w))),
    "logsumexp": (lambda m, z, w: m.logsumexp(z, 1) if m is flow else np.log(np.exp(z).sum(1))),
    "softsign": (lambda m, z, w: m.nn.functional.softsign(z) if m is flow else z / (1 + abs(z))),
    "rms_norm": (
        lambda m, z, w: (
            m.nn.functional.rms_norm(z, (3,), eps=0.5)
            if m is flow
            else z / np.sqrt((z * z).mean(1, keepdims=True) + np.float32(0.5))
        )
    ),
    "lerp": (lambda m, z, w: m.lerp(z, z * z, 0.25) if m is flow else z + np.float32(0.25) * (z * z - z)),
    "eye": (lambda m, z, w: z @ (m.eye(3, 2, dtype=m.complex64))),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_those_of_numpy(name):
    function = VALUES[name]
    want = function(np, Z, W)
    eager = function(flow, flow.tensor(Z), flow.tensor(W)).numpy()
    compiled = flow.compile(lambda z, w: function(flow, z, w))(Z, W)
    assert eager.dtype == compiled.dtype == want.dtype
    np.testing.assert_allclose(eager, want, 1e-5, 1e-6)
    np.testing.assert_allclose(compiled, want, 1e-5, 1e-6)


def padded(gradient):
    """The gradient by a matrix of which the first columns are read."""
    return np.pad(gradient, ((0, 0), (0, 1)))


def turned(z):
    """The gradient of Re(det / |det|): the change of the sign is i * sign * Im(trace of inv(z) dz)."""
    return 1j * -np.linalg.slogdet(z)[0].imag * np.linalg.inv(z).conj().T


#: A function into reals, and its gradient by z: from 2 dL/d(conj z), by hand.
GRADIENTS = {
    "|z|^2": (lambda z: (z * z.conj()).real().sum(), lambda z: 2 * z),
    "Re z": (lambda z: z.real().sum(), np.ones_like),
    "Im z": (lambda z: z.imag().sum(), lambda z: 1j * np.ones_like(z)),
    "|z|": (lambda z: z.abs().sum(), lambda z: z / np.abs(z)),
    "Re z^2": (lambda z: (z * z).real().sum(), lambda z: 2 * np.conj(z)),
    "Re exp(z)": (lambda z: z.exp().real().sum(), lambda z: np.conj(np.exp(z))),
    "Im 1/z": (lambda z: (1 / z).imag().sum(), lambda z: np.conj(-1 / z**2) * 1j),
    "angle": (lambda z: z.angle().sum(), lambda z: 1j * z / np.abs(z) ** 2),
    "real times complex": (lambda z: (z.real() * z).real().sum(), lambda z: 2 * z.real + 0j),
    "|det z|": (lambda z: flow.linalg.slogdet(z[:, :2])[1], lambda z: padded(np.linalg.inv(z[:, :2]).conj().T)),
    "Re sign of det z": (lambda z: flow.linalg.slogdet(z[:, :2])[0].real(), lambda z: padded(turned(z[:, :2]))),
    "of both parts": (lambda z: flow.view_as_real(z).square().sum(), lambda z: 2 * z),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_follow_pytorchs_convention(name):
    function: Any
    gradient: Any
    function, gradient = GRADIENTS[name]
    want = gradient(Z.astype(np.complex128)).astype(np.complex64)
    leaf = flow.tensor(Z, requires_grad=True)
    function(leaf).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), want, 2e-5, 1e-6)
    compiled = flow.compile(flow.grad(function))(Z)
    assert compiled.dtype == np.complex64
    np.testing.assert_allclose(compiled, want, 2e-5, 1e-6)


def test_the_gradient_by_a_real_operand_is_real():
    x, w = flow.tensor(X, requires_grad=True), flow.tensor(W)
    (x * w).imag().sum().backward()
    assert x.grad.dtype == flow.float32
    np.testing.assert_allclose(x.grad.numpy(), W.imag)


def test_backward_begins_at_real_numbers_alone():
    z = flow.tensor(Z, requires_grad=True)
    with pytest.raises(RuntimeError, match="expected one real element to call backward"):
        z.sum().backward()
    z.sum().backward(flow.tensor(1j))
    np.testing.assert_array_equal(z.grad.numpy(), np.full_like(Z, 1j))
    with pytest.raises(flow.OneFlowError, match="one tensor of floats with one element"):
        flow.grad(lambda z: z.sum())(Z)
    with pytest.raises(RuntimeError, match="expected a gradient of type"):
        z.abs().sum().backward(flow.tensor(1j))


def test_tensors_of_complex_numbers():
    assert flow.tensor([1, 2j]).dtype == flow.complex64 == flow.cfloat
    assert flow.tensor(Z).to(flow.complex128).dtype == flow.cdouble
    assert flow.full((2,), 1 + 2j).tolist() == [1 + 2j] * 2
    assert flow.zeros(2, dtype=flow.complex64).tolist() == [0j] * 2
    assert flow.tensor(3 + 1j).item() == 3 + 1j
    assert flow.tensor(Z).is_complex()
    assert not flow.is_complex(flow.tensor(X))
    assert not flow.tensor(Z).is_floating_point()
    filled = flow.tensor(Z).clone()
    filled[0] = 1j
    assert filled[0].tolist() == [1j] * 3


def test_complex_tensors_are_made_of_parts():
    parts = flow.tensor(X), flow.tensor(X[::-1].copy())
    np.testing.assert_array_equal(flow.complex(*parts).numpy(), X + 1j * X[::-1])
    np.testing.assert_allclose(flow.polar(*parts).numpy(), X * np.exp(1j * X[::-1]), 1e-6)
    pairs = flow.view_as_real(flow.tensor(Z))
    assert pairs.shape == (2, 3, 2)
    np.testing.assert_array_equal(flow.view_as_complex(pairs).numpy(), Z)
    for wrong in (lambda: flow.complex(parts[0], parts[1].double()), lambda: flow.imag(parts[0])):
        with pytest.raises(flow.OneFlowError, match="expected"):
            wrong()


@pytest.mark.parametrize(
    ("operands", "want"),
    [
        (("float32", "complex64"), "complex64"),
        (("float64", "complex64"), "complex128"),
        (("int64", "complex64"), "complex64"),
        (("bfloat16", "complex64"), "complex64"),
        (("float16", 1j), "complex64"),
        (("float32", 1j), "complex64"),
        (("float64", 1j), "complex128"),
        (("int32", 1j), "complex64"),
        (("complex64", 2.5), "complex64"),
        (("complex64", "complex128"), "complex128"),
    ],
)
def test_promotion_is_pytorchs(operands, want):
    made = [flow.ones(2, dtype=getattr(flow, x)) if isinstance(x, str) else x for x in operands]
    assert (made[0] + made[1]).dtype == getattr(flow, want)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([6, -2 + 2j], "tensor([ (6+0j), (-2+2j)], dtype=oneflow.complex64)"),
        ([0.5 - 0.25j], "tensor([(0.5000-0.2500j)], dtype=oneflow.complex64)"),
        (1e-6 + 1j, "tensor((1.0000e-06+1.0000e+00j), dtype=oneflow.complex64)"),
    ],
)
def test_printing(values, text):
    assert str(flow.tensor(values, dtype=flow.complex64)) == text


def test_determinants_of_singular_matrices_and_of_many_rows():
    sign, logarithm = flow.linalg.slogdet(flow.zeros(2, 2, dtype=flow.complex64))
    assert sign.item() == 0 and logarithm.item() == -np.inf
    sign, logarithm = flow.linalg.slogdet(flow.eye(300) * -8.0)
    assert sign.item() == 1
    np.testing.assert_allclose(logarithm.item(), 300 * np.log(8), 1e-6)


def test_determinants_keep_their_digits():
    """The second is too large for a part of the type."""
    large, huge = (flow.tensor(np.diag([n * 1j, n]).astype(np.complex64)) for n in (1e18, 1e20))
    np.testing.assert_allclose(flow.linalg.det(large).numpy(), 1e36j, 2e-7)
    assert flow.linalg.det(huge).numpy() == complex(0, np.inf)


def test_sums_of_exponentials_of_infinite_numbers():
    infinite = np.array([complex(-np.inf, 0.5), complex(-np.inf, 0.5)])
    got = flow.logaddexp(flow.tensor(infinite), flow.tensor(np.array([infinite[0], 1 + 1j]))).numpy()
    assert got[0].real == -np.inf and got[1] == 1 + 1j


def test_undefined_complex_functions_are_refused():
    z = flow.tensor(Z)
    for call in (lambda: z < z, lambda: flow.relu(z), lambda: z.max(), lambda: flow.erf(z)):
        with pytest.raises((flow.OneFlowError, RuntimeError), match=r"complex|floating"):
            call()


def test_memory_of_other_libraries_and_files(tmp_path):
    array = Z.copy()
    shared = flow.from_numpy(array)
    array[0, 0] = 7j
    assert shared[0, 0].item() == 7j
    np.testing.assert_array_equal(np.from_dlpack(flow.tensor(Z)), Z)
    flow.save({"z": flow.tensor(Z)}, tmp_path / "z")
    np.testing.assert_array_equal(flow.load(tmp_path / "z")["z"].numpy(), Z)


def test_complex_numbers_of_dynamic_sizes():
    spec = flow.TensorSpec((None, 3), flow.complex64)
    function = flow.compile(lambda z: (z * z.conj()).real().sum(0), spec)
    np.testing.assert_allclose(function(Z), (np.abs(Z) ** 2).sum(0), 1e-5)
    np.testing.assert_allclose(function(Z[:1]), np.abs(Z[0]) ** 2, 1e-5)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_capsules_of_complex_numbers(dtype):
    array = np.array([1 + 2j, 3j], dtype)
    imported = ImportedTensor(export(array, array.ctypes.data, array.shape, from_numpy(dtype), (HOST, 0)))
    assert imported.dtype == from_numpy(dtype) and imported.shape == (2,)
