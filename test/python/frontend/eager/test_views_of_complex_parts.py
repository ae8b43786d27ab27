"""Real and imaginary parts, and complex numbers as pairs, share memory with the tensor, as in PyTorch."""

import numpy as np
import pytest

import oneflow as flow

Z = (np.arange(12).reshape(3, 4) + 1j * np.arange(100, 112).reshape(3, 4)).astype(np.complex64)


def real(f, z):
    f.real(z).mul_(2)


def imag_of_a_part(f, z):
    f.imag(z[1:, ::2]).add_(0.5)


def a_part_of_imag(f, z):
    f.imag(z.t())[1] = -1


def pairs(f, z):
    f.view_as_real(z)[..., 1].mul_(3)


def there_and_back(f, z):
    f.view_as_complex(f.view_as_real(z)[1:]).mul_(1j)


def root_of_a_view(f, z):
    part = f.real(z)[0]
    z.mul_(2)
    part.add_(part)


def strided(f, z):
    f.as_strided(f.imag(z), (2, 2), (8, 2), 1).mul_(-1)


UPDATES = [real, imag_of_a_part, a_part_of_imag, pairs, there_and_back, root_of_a_view, strided]
#: The tensor after the updates, by NumPy.
WANTED = {
    real: lambda z: z + z.real,
    imag_of_a_part: lambda z: z + 0.5j * np.outer([0, 1, 1], [1, 0, 1, 0]),
    a_part_of_imag: lambda z: np.where(np.arange(4) == 1, z.real - 1j, z),
    pairs: lambda z: z + 2j * z.imag,
    there_and_back: lambda z: np.where(np.arange(3)[:, None] > 0, z * 1j, z),
    root_of_a_view: lambda z: 2 * z + np.where(np.arange(3)[:, None] == 0, 2 * z.real, 0),
    strided: lambda z: np.where(np.isin(np.arange(12), (0, 1, 4, 5)).reshape(3, 4), z.conj(), z),
}
every_update = pytest.mark.parametrize("update", UPDATES, ids=lambda u: u.__name__)


@every_update
def test_updates_of_parts_reach_the_tensor(update):
    z = flow.tensor(Z)
    update(flow, z)
    np.testing.assert_array_equal(z.numpy(), WANTED[update](Z))

    def compiled(z):
        z = z + 0
        update(flow, z)
        return z

    np.testing.assert_array_equal(flow.compile(compiled)(Z), WANTED[update](Z))


@every_update
def test_parts_are_those_of_pytorch(update):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")
    z = torch.from_numpy(Z.copy())
    update(torch, z)
    np.testing.assert_array_equal(z.numpy(), WANTED[update](Z))


def test_gradients_flow_through_updated_parts():
    z = flow.tensor(Z, requires_grad=True)
    w = z * 1
    w.real()[0] = 0
    (w.real() * 2 + w.imag() * 3).sum().backward()
    want = np.full((3, 4), 2 + 3j)
    want[0] = 3j
    np.testing.assert_array_equal(z.grad.numpy(), want)


def test_layouts_of_parts():
    z = flow.tensor(Z)
    im = z.imag()
    assert im.stride() == (8, 2) and im.storage_offset() == 1 and not im.is_contiguous()
    assert flow.view_as_real(z).stride() == (8, 2, 1)
    x = flow.zeros(3, 4)
    assert flow.view_as_complex(x.reshape(3, 2, 2)).stride() == (2, 1)
    turned = flow.view_as_complex(x.reshape(2, 6).t())  # whose parts are not adjacent: a copy
    turned.add_(1)
    assert x.sum() == 0
    z.mul_(2)
    np.testing.assert_array_equal(im.numpy(), 2 * Z.imag)
    real = flow.zeros(2)
    assert flow.real(real) is real


def test_conjugates_are_copies():
    z = flow.tensor(Z)
    z.conj().mul_(0)
    np.testing.assert_array_equal(z.numpy(), Z)
