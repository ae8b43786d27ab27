"""Modules of data programs: coins, decoded images, lists of tensors."""

import numpy as np
import pytest

import oneflow as flow

IMAGES = np.arange(36, dtype=np.uint8).reshape(2, 2, 3, 3)
CODES = flow.tensor([1, 2], dtype=flow.int8)


def test_coin_flips():
    """Equal seeds flip equal images; each call and each run of a compiled function flips other images."""
    coins, again = (flow.nn.CoinFlip(64, random_seed=3) for _ in range(2))
    flips = [coins().tolist() for _ in range(2)]
    assert flips[0] != flips[1] and flips == [again().tolist() for _ in range(2)]
    assert {coin for row in flips for coin in row} == {0, 1}
    compiled = flow.compile(lambda x: coins() + x)
    assert compiled(CODES[:1]).tolist() != compiled(CODES[:1]).tolist()
    assert flow.nn.CoinFlip(4, probability=1.0, device="cpu")().tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_image_crops(layout):
    layer = flow.nn.CropMirrorNormalize("RGB", layout, 1, 2, 1.0, 0.0, mean=[1.0, 2.0, 3.0], std=[2.0])
    expected = ((IMAGES[:, 1:, :2] - np.array([1, 2, 3], np.float32)) / 2).transpose(
        (0, 3, 1, 2) if layout == "NCHW" else (0, 1, 2, 3)
    )
    np.testing.assert_allclose(layer(flow.tensor(IMAGES)).numpy(), expected)
    mirrored = layer(flow.tensor(IMAGES), flow.tensor([0, 1], dtype=flow.int8)).numpy()
    np.testing.assert_allclose(mirrored[1], np.flip(expected[1], 2 if layout == "NCHW" else 1))
    np.testing.assert_allclose(mirrored[0], expected[0])


def test_flipped_normalized_and_aligned_images():
    flipped = flow.nn.image.flip()(flow.tensor(IMAGES), CODES).numpy()
    np.testing.assert_array_equal(flipped, [IMAGES[0][:, ::-1], IMAGES[1][::-1]])
    normal = flow.nn.image.normalize(std=[2.0, 4.0, 1.0], mean=[1.0, 0.0, 0.0])(flow.tensor(IMAGES).float())
    np.testing.assert_allclose(
        normal.numpy(), (IMAGES - np.array([1, 0, 0], np.float32)) / np.array([2, 4, 1], np.float32)
    )
    aligned = flow.nn.image.batch_align([4, 4, 3], flow.float32, 4)(flow.tensor(IMAGES))
    np.testing.assert_array_equal(aligned.numpy(), np.pad(IMAGES, ((0, 0), (0, 2), (0, 1), (0, 0))))


def test_lists_of_tensors():
    buffer = flow.gen_tensor_buffer([2], [[1, 3], [1, 3]], [1.0, 2.5], flow.float32)
    tensors = flow.tensor_buffer_to_list_of_tensors(buffer, [[1, 3], [3]], [flow.float32] * 2)
    assert [one.tolist() for one in tensors] == [[[1.0] * 3], [2.5] * 3]
    whole = flow.tensor_buffer_to_tensor(flow.tensor_to_tensor_buffer(buffer, 2), flow.float32, [1, 3])
    assert whole.tolist() == buffer.tolist()
    with pytest.raises(flow.OneFlowError, match="expected tensors of one shape"):
        flow.gen_tensor_buffer([2], [[1], [2]], [1.0, 2.5], flow.float32)
