"""Modules of images of different sizes, against Pillow, OpenCV's documented weights and images written by hand."""

import io
import sys

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageOps
from png_bytes import png, rows

import oneflow as flow
from oneflow.dialect.image_files import decode
from oneflow.dialect.ops.polygons import fill
from oneflow.dialect.resampling import resize
from oneflow.runtime.failures import RunError

RNG = np.random.default_rng(0)
SMALL, LARGE = (RNG.integers(0, 256, shape, np.uint8) for shape in ((3, 5, 3), (6, 2, 3)))
FILES = rows([png(SMALL), png(LARGE)])


def encoded(image, kind, **options):
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


@pytest.mark.parametrize(("space", "expected"), [("RGB", SMALL), ("BGR", SMALL[..., ::-1])])
def test_decoded_images_have_their_sizes(space, expected):
    images = flow.nn.image.decode(color_space=space)(flow.tensor(FILES))
    assert images.size.tolist() == [[3, 5], [6, 2]]
    np.testing.assert_array_equal(images.numpy()[0], expected)
    assert not images.images.numpy()[0, 3:].any()


def test_files_of_other_formats():
    """JPEG decoded like Pillow; colors of gray files; deep pixels; images rotated by Exif data."""
    smooth = np.tile(np.arange(16, dtype=np.uint8) * 9, (8, 1))
    jpeg = encoded(smooth, "JPEG")
    np.testing.assert_array_equal(decode(jpeg, "GRAY", (8, 16))[..., 0], np.asarray(Image.open(io.BytesIO(jpeg))))
    assert decode(encoded(smooth, "BMP"), "RGB", (8, 16)).tolist() == np.stack([smooth] * 3, -1).tolist()
    assert decode(encoded(np.array([[7, 300]], np.uint16), "PNG"), "BGR", (1, 2)).tolist() == [[[7] * 3, [255] * 3]]
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        turned = encoded(smooth, "PNG", exif=exif)
        seen = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(turned))))
        np.testing.assert_array_equal(decode(turned, "GRAY", seen.shape)[..., 0], seen)
        np.testing.assert_array_equal(decode(turned, "GRAY", (8, 16), is_oriented=False)[..., 0], smooth)


def test_invalid_images_are_refused():
    whole = png(SMALL)
    with pytest.raises(ValueError, match=r"expected an image of one of the formats JPEG, .* got bytes of none"):
        decode(np.zeros(9, np.uint8), "RGB", (9, 9))
    with pytest.raises(ValueError, match="got a damaged file of the format PNG"):
        decode(np.frombuffer(whole[:60], np.uint8), "RGB", (9, 9))
    with pytest.raises(ValueError, match="expected an image of at most 2 x 9 pixels, got one of 3 x 5"):
        decode(np.frombuffer(whole, np.uint8), "RGB", (2, 9))
    bomb = whole[:16] + (50_000).to_bytes(4, "big") * 2 + whole[24:]
    with pytest.raises(ValueError, match=r"got bytes of none of them, or more pixels|at most 9 x 9 pixels"):
        decode(np.frombuffer(bomb, np.uint8), "RGB", (9, 9))
    compiled = flow.compile(lambda x: flow.nn.image.decode(max_size=(9, 9))(x).images)
    with pytest.raises(RunError, match=r"image_decode: .*image 1: expected an image .*test_image_lists.py:\d+"):
        compiled(np.stack([FILES[0], np.zeros_like(FILES[0])]))
    with pytest.raises(flow.OneFlowError, match="expected max_size="):
        flow.compile(lambda x: flow.nn.image.decode()(x).images)(FILES)


def test_installations_without_pillow_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"pip install 'oneflow-mlir\[image\]'"):
        decode(FILES[0], "RGB", (9, 9))


@pytest.mark.parametrize("size", [(3, 5), (7, 11), (9, 5)])
def test_enlarged_images_are_those_of_pillow(size):
    image = SMALL[..., 0].astype(np.float32)
    for kind, filter in (("bilinear", Image.Resampling.BILINEAR), ("nn", Image.Resampling.NEAREST)):
        expected = np.asarray(Image.fromarray(image).resize(size[::-1], filter))
        shift = 0 if kind == "bilinear" or size == (3, 5) else None
        got = resize(image[..., None], size[0], size[1], kind)[..., 0]
        if shift is None:  # OpenCV takes the pixel at the begin of a new one, Pillow that at its center
            expected = image[np.arange(size[0])[:, None] * 3 // size[0], np.arange(size[1]) * 5 // size[1]]
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_values_of_pytorch():
    """`torch.nn.functional.interpolate` of [0, 1, 4, 9], and shares of pixels."""
    line = np.array([0, 1, 4, 9], np.float32)[None, :, None]
    for kind, size, expected in (
        ("bicubic", 2, [0.21875, 6.78125]), ("bicubic", 5, [-0.06075, 0.390251, 2.125, 5.725749, 9.303749]),
        ("bilinear", 2, [0.5, 6.5]), ("bilinear", 5, [0, 0.7, 2.5, 5.5, 9]), ("area", 2, [0.5, 6.5]),
        ("area", 3, [0.25, 2.5, 7.75]),
    ):  # fmt: skip
        np.testing.assert_allclose(resize(line, 1, size, kind)[0, :, 0], expected, atol=1e-5, err_msg=kind)


def test_resized_lists():
    images = flow.nn.image.decode(color_space="RGB")(flow.tensor(FILES))
    fixed, scale, size = flow.nn.image.Resize((4, 3), interpolation_type="bilinear")(images)
    assert size is None and fixed.shape == (2, 3, 4, 3) and fixed.dtype == flow.uint8
    np.testing.assert_allclose(scale.numpy(), [[4 / 5, 1], [2, 0.5]])
    for one, image in zip(fixed.numpy(), (SMALL, LARGE), strict=True):
        np.testing.assert_array_equal(one, resize(image, 3, 4, "bilinear"))
    kept = flow.nn.image.Resize(6, max_size=9, keep_aspect_ratio=True, interpolation_type="nn")
    resized, scale, size = kept(images)
    assert size.tolist() == [[9, 5], [3, 9]] and resized.size.tolist() == [[5, 9], [9, 3]]
    np.testing.assert_allclose(scale.numpy(), [[9 / 5, 5 / 3], [3 / 2, 3 / 2]])
    assert [image.shape for image in resized.numpy()] == [(5, 9, 3), (9, 3, 3)]
    decoder = flow.nn.image.decode(color_space="RGB", max_size=(6, 6))
    compiled = flow.compile(lambda x: flow.nn.image.Resize((4, 3), interpolation_type="bilinear")(decoder(x))[0])
    np.testing.assert_array_equal(compiled(FILES), fixed.numpy())


def test_lists_that_are_flipped_normalized_and_aligned():
    images = flow.nn.image.decode(flow.float32, "RGB", max_size=(6, 6))(flow.tensor(FILES))
    flipped = flow.nn.image.flip()(images, flow.tensor([1, 3], dtype=flow.int8))
    for got, expected in zip(flipped.numpy(), (SMALL[:, ::-1], LARGE[::-1, ::-1]), strict=True):
        np.testing.assert_array_equal(got, expected)
    normal = flow.nn.image.normalize(std=[2.0, 4.0, 1.0], mean=[1.0, 0.0, 3.0])(images)
    for got, image in zip(normal.numpy(), (SMALL, LARGE), strict=True):
        np.testing.assert_allclose(got, (image - np.array([1, 0, 3], np.float32)) / np.array([2, 4, 1], np.float32))
    for batch in (flipped.images, normal.images):
        assert not batch.numpy()[0, 3:].any() and not batch.numpy()[1, :, 2:].any()
    aligned = flow.nn.image.batch_align([8, 8, 3], flow.float32, 8)(normal).numpy()
    np.testing.assert_array_equal(aligned[:, :6, :6], normal.images)


def test_random_parts_differ_and_repeat():
    image = np.arange(400, dtype=np.uint8).reshape(1, 20, 20, 1).repeat(8, 0)
    options = {"random_area": [0.1, 0.5], "random_aspect_ratio": [0.5, 2.0], "seed": 5}

    def parts(x):
        return flow.ops.image_random_crop(x, **options)

    out, size = parts(image)
    areas = np.prod(size.numpy(), 1) / 400
    assert len({tuple(row) for row in size.numpy().tolist()}) > 4 and (areas > 0.06).all() and (areas < 0.56).all()
    part, (height, width) = out.numpy()[0, ..., 0], size.numpy()[0]
    steps = np.diff(part[:height, :width].astype(int), axis=1) % 256
    assert (steps == 1).all() and not part[height:].any()
    np.testing.assert_array_equal(parts(image)[0].numpy(), out.numpy())


def test_masks_are_those_of_pillow():
    corners = np.array([[1, 1], [9, 3], [7, 9], [2, 6]])
    picture = Image.new("1", (12, 11))
    ImageDraw.Draw(picture).polygon(list(map(tuple, corners.tolist())), fill=1, outline=1)
    differing = fill((11, 12), [corners]) != np.asarray(picture)
    assert differing.sum() <= 4  # lines of other pixels for the same edge
    hole = np.array([[3, 3], [5, 3], [5, 5], [3, 5]])
    square = np.array([[1, 1], [7, 1], [7, 7], [1, 7]])
    mask = fill((9, 9), [square, hole])
    assert mask[1:8, 1:8].sum() == 48 and not mask[4, 4] and mask.sum() == 48
