"""`flow.fft` against SciPy's transforms, gradients against the adjoints, and `flow.stft` from the definition."""

from typing import Any

import numpy as np
import pytest
import scipy.fft

import oneflow as flow

RNG = np.random.default_rng(3)
REALS = RNG.standard_normal((3, 4, 5))
COMPLEX = REALS + 1j * RNG.standard_normal((3, 4, 5))
FROM_REALS = ("rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn")


def spread(*shape, dtype):
    """Random reals, or complex numbers."""
    values = RNG.standard_normal(shape)
    return (values + 1j * RNG.standard_normal(shape) if dtype[0] == "c" else values).astype(dtype)


LINES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", flow.fft.__all__)
def test_transforms_are_those_of_scipy(name, norm):
    x = REALS if name in FROM_REALS else COMPLEX
    ours, theirs = getattr(flow.fft, name), getattr(scipy.fft, name)
    cases: Any = [({}, {})]
    if name in LINES:
        cases += [({"n": n, "dim": 1}, {"n": n, "axis": 1}) for n in (3, 6)]
    else:
        cases += [({"s": (6, 3), "dim": (2, 0)}, {"s": (6, 3), "axes": (2, 0)})]
    for ours_with, theirs_with in cases:
        got, want = ours(x, norm=norm, **ours_with).numpy(), theirs(x, norm=norm, **theirs_with)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, 1e-10, 1e-12)


@pytest.mark.parametrize("name", flow.fft.__all__)
def test_gradients_are_adjoints(name):
    """The real inner products of a cotangent with the transform and of the gradient with the operand are equal."""
    x = REALS if name in FROM_REALS else COMPLEX
    leaf = flow.tensor(x, requires_grad=True, dtype=flow.float64 if name in FROM_REALS else flow.complex128)
    transform = getattr(flow.fft, name)
    found = transform(leaf, norm="ortho")
    weights = RNG.standard_normal(found.shape) + (1j * RNG.standard_normal(found.shape) if found.is_complex() else 0)
    found.backward(flow.tensor(weights, dtype=found.dtype))
    assert leaf.grad.dtype == leaf.dtype
    direction = RNG.standard_normal(x.shape) * (1 if name in FROM_REALS else 1 - 0.5j)
    along = transform(direction, norm="ortho").numpy()
    np.testing.assert_allclose(
        np.sum((np.conj(weights) * along).real), np.sum((np.conj(leaf.grad.numpy()) * direction).real), 1e-10
    )


@pytest.mark.parametrize("size", [1, 2, 7, 12, 31])
def test_transforms_of_any_length(size):
    x = COMPLEX.ravel()[:size].astype(np.complex64)
    turn = np.exp(-2j * np.pi * np.outer(np.arange(size), np.arange(size)) / size)
    np.testing.assert_allclose(flow.fft.fft(x).numpy(), turn @ x, 1e-5, 1e-5)


def test_compiled_transforms():
    function = flow.compile(lambda a, b: flow.fft.irfft(flow.fft.rfft(a) * flow.fft.rfft(b), n=6))
    a, b = RNG.standard_normal((2, 6))
    circular = [sum(a[j] * b[(i - j) % 6] for j in range(6)) for i in range(6)]
    np.testing.assert_allclose(function(a, b), circular, 1e-10)
    spec = flow.TensorSpec((None, 6), flow.float64)
    np.testing.assert_allclose(flow.compile(lambda x: flow.fft.rfft(x), spec)(a[None]), np.fft.rfft(a)[None], 1e-10)


def test_integers_become_floats():
    assert flow.fft.fft(flow.arange(4)).tolist() == [6, -2 + 2j, -2, -2 - 2j]
    assert flow.fft.ifft(flow.arange(4)).dtype == flow.complex64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: flow.fft.fft(x, norm="double"), "expected norm to be one of backward, ortho, forward"),
        (lambda x: flow.fft.fft(x, n=0), "expected sizes of at least 1"),
        (lambda x: flow.fft.fftn(x, dim=(0, 0)), "expected every dimension once"),
        (lambda x: flow.fft.fftn(x, s=(2,), dim=(0, 1)), "expected as many sizes in s as dimensions"),
        (lambda x: flow.fft.rfft(flow.tensor(COMPLEX)), "expected real numbers for rfft"),
        (lambda x: flow.fft.fft(x.half()), "expected input of type f32, f64, got f16"),
        (lambda x: flow.fft.fft(x, dim=5), "expected"),
        (lambda x: flow.stft(x, 4), "expected signals of rank 1 or 2"),
        (lambda x: flow.stft(x[0, 0], 4, hop_length=0), "expected n_fft and hop_length of at least 1"),
        (lambda x: flow.stft(x[0, 0], 4, window=flow.ones(3)), "expected a window of win_length 4"),
        (lambda x: flow.stft(flow.tensor(COMPLEX[0, 0]), 4, onesided=True), "expected onesided to be False"),
        (lambda x: flow.istft(x[0], 4), "expected complex spectra"),
        (lambda x: flow.istft(flow.tensor(COMPLEX[0]), 5), r"spectra of n_fft = 5 frequencies for istft"),
        (lambda x: flow.istft(flow.tensor(COMPLEX[0]), 4, onesided=True), "if onesided"),
        (lambda x: flow.istft(flow.tensor(COMPLEX[0]), 4, 5, return_complex=True), "overlap without gaps"),
        (lambda x: flow.istft(flow.tensor(COMPLEX[0]), 4, length=-1), "expected length to be at least 0 for istft"),
        (lambda x: flow.istft(flow.tensor(COMPLEX[0]), 4, window=COMPLEX[0, 0]), "return_complex to be True"),
    ],
)
def test_refused_transforms(call, message):
    with pytest.raises(flow.OneFlowError, match=message):
        call(flow.tensor(REALS))


@pytest.mark.parametrize(("onesided", "dtype"), [(True, "f4"), (False, "f4"), (None, "c8")])
@pytest.mark.parametrize("batch", [(), (1,), (2,)], ids=str)
def test_stft(batch, onesided, dtype):
    """Frames of 6 elements, 2 apart, of a signal that is mirrored at both ends, under a window of 4 elements."""
    signal = spread(*batch, 11, dtype=dtype)
    window = np.array([0.5, 1.0, 2.0, 0.25], np.float32)
    padded = np.pad(signal, [(0, 0)] * len(batch) + [(3, 3)], "reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 6, -1)[..., ::2, :] * np.pad(window, 1)
    want = np.swapaxes((np.fft.rfft if onesided else np.fft.fft)(frames) / np.sqrt(6), -1, -2)
    options = {"hop_length": 2, "win_length": 4, "window": window, "normalized": True, "onesided": onesided}
    got = flow.stft(signal, 6, return_complex=True, **options).numpy()
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)
    parts = flow.stft(signal, 6, return_complex=False, **options).numpy()
    np.testing.assert_allclose(parts[..., 0] + 1j * parts[..., 1], want, 1e-5, 1e-5)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("frames", "length"), [(1, None), (3, 0)])
def test_istft_gives_signals_without_elements(frames, length, compiled):
    """Half a frame is cut off at both ends of a single frame, so that no element is left."""

    def inverse(spectra):
        return flow.istft(spectra, 4, length=length)

    signals = (flow.compile(inverse) if compiled else inverse)(flow.ones(2, 3, frames, dtype=flow.complex64))
    assert signals.shape == (2, 0) and signals.dtype == flow.float32


@pytest.mark.parametrize(("dtype", "center", "compiled"), [("f8", True, False), ("c16", False, True)])
def test_istft_gives_the_signals_of_spectra(dtype, center, compiled):
    """The inverse of `stft`, and of other spectra the closest signal: weighted means of frames."""
    signals = spread(2, 24, dtype=dtype)
    options = {"hop_length": 3, "window": flow.tensor(np.hanning(8)[1:-1]), "win_length": 6, "center": center}

    def inverse(spectra, **more):
        return flow.istft(spectra, 6, normalized=True, return_complex=dtype == "c16", **options, **more)

    run = flow.compile(inverse) if compiled else inverse
    spectra = flow.stft(signals, 6, normalized=True, return_complex=True, **options)
    np.testing.assert_allclose(run(spectra).numpy(), signals, 1e-10, 1e-12)
    longer = run(spectra, length=20).numpy()
    np.testing.assert_allclose(longer, signals[:, :20], 1e-10, 1e-12)
    noise = RNG.standard_normal(spectra.shape) + 1j * RNG.standard_normal(spectra.shape)
    transform = np.fft.irfft if dtype == "f8" else np.fft.ifft
    frames = transform(noise, 6, axis=1) * np.sqrt(6)
    window, sums = np.hanning(8)[1:-1], np.zeros((2, 6 + 3 * (noise.shape[2] - 1)), dtype)
    weights = np.zeros(sums.shape[1])
    for t in range(noise.shape[2]):
        sums[:, 3 * t : 3 * t + 6] += frames[:, :, t] * window
        weights[3 * t : 3 * t + 6] += window**2
    cut = slice(3, -3) if center else slice(None)
    np.testing.assert_allclose(run(flow.tensor(noise)).numpy(), (sums / weights)[:, cut], 1e-9, 1e-12)
