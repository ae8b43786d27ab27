"""Random operators: Philox against published vectors, and the numbers' distribution."""

import numpy as np
import pytest

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes, ops  # noqa: F401
from oneflow.dialect import scalar as s
from oneflow.dialect.evaluate import evaluate
from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.philox import numpy_philox, philox
from oneflow.dialect.record import REGISTRY

# Known answers of Random123's kat_vectors for philox4x32-10: counter, key, words.
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize("counter,key,words", VECTORS)
def test_reference_matches_published_vectors(counter, key, words):
    got = numpy_philox([np.array([w], np.uint64) for w in counter], key[0] | key[1] << 32)
    assert tuple(int(w[0]) for w in got) == words


@pytest.mark.parametrize("counter,key,words", VECTORS)
def test_evaluation_matches_published_vectors(counter, key, words):
    drawn = philox([s.const(w, dtypes.int64) for w in counter], key[0] | key[1] << 32)
    got = evaluate([c.element_wise((1,), lambda i, w=w: w) for w in drawn], [])
    assert tuple(int(w[0]) for w in got) == words


def draw(op, **attrs):
    return NumpyBuilder().call(op, **attrs)[0].handle


SHAPE = (200, 250)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_uniform_numbers_are_evenly_distributed(dtype):
    x = draw("uniform", dtype=dtype, shape=SHAPE, **{"from": -1.0}, to=3.0, seed=11).astype(np.float64)
    assert x.min() >= -1 and x.max() < 3
    np.testing.assert_allclose([x.mean(), x.var()], [1.0, 16 / 12], atol=0.02)
    assert np.ptp(np.histogram(x, 10, (-1, 3))[0]) < 500


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_normal_has_its_moments(dtype):
    x = draw("normal", dtype=dtype, shape=SHAPE, mean=2.0, std=3.0, seed=11).astype(np.float64)
    z = (x - 2) / 3
    np.testing.assert_allclose([z.mean(), z.var(), (z**3).mean(), (z**4).mean()], [0, 1, 0, 3], atol=0.08)


def test_uniform_int_takes_every_value():
    x = draw("uniform_int", dtype=dtypes.int64, shape=SHAPE, **{"from": -3}, to=4, seed=11)
    counts = np.bincount((x + 3).reshape(-1))
    assert len(counts) == 7
    np.testing.assert_allclose(counts / x.size, 1 / 7, atol=0.01)


def test_f64_numbers_are_distinct():
    x = draw("uniform", dtype=dtypes.float64, shape=SHAPE)
    assert len(np.unique(x)) == x.size


def test_numbers_repeat_for_a_seed_and_differ_between_seeds():
    first, again, other = (draw("uniform", dtype=dtypes.float32, shape=(100,), seed=n) for n in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)


def test_numbers_depend_on_the_position_alone():
    row, matrix = (draw("normal", dtype=dtypes.float32, shape=n, seed=5) for n in ((12,), (3, 4)))
    np.testing.assert_array_equal(row.reshape(3, 4), matrix)


def test_dropout_keeps_the_mean():
    out, mask = NumpyBuilder().dropout(np.ones(SHAPE, np.float32), rate=0.25, seed=3)
    np.testing.assert_allclose(mask.handle.mean(), 0.75, atol=0.01)
    np.testing.assert_array_equal(out.handle, np.where(mask.handle, np.float32(1 / 0.75), 0))


def test_random_operators_are_marked():
    drawn = {"uniform", "normal", "uniform_int", "bernoulli", "random_mask_like", "dropout"}
    assert {r.name for r in REGISTRY if "random" in r.traits} >= drawn
