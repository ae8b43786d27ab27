"""Modules that read COCO, tokens and tensors: orders, shares, files that are damaged."""

import copy
import itertools
import json
from typing import Any

import numpy as np
import pytest
from record_files import COCO, IMAGES, write_coco, write_tokens

import oneflow as flow
from oneflow.dialect.coco import Image, grouped
from oneflow.frontend.nn.readers import COCOReader, GPTIndexedBinDataReader, RawReader
from oneflow.runtime.failures import RunError

EMPTY = [[0.0] * 4]


def coco(folder, batch_size=1, **options):
    return COCOReader(folder / "coco.json", folder, batch_size, shuffle=False, **options)


def test_objects_of_images(tmp_path):
    """Objects without area and crowds are left out; boxes end at the image; labels are numbered from 1."""
    write_coco(tmp_path)
    read = coco(tmp_path, 3, remove_images_without_annotations=False, group_by_aspect_ratio=False)
    image, number, size, box, label, points, index = read()
    assert number.tolist() == [10, 20, 30] and size.tolist() == [[3, 1], [1, 4], [2, 3]]
    decoded = flow.nn.image.decode(color_space="RGB")(image).numpy()
    for got, expected in zip(decoded, (IMAGES[1], IMAGES[2], IMAGES[0]), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert box.tolist() == [EMPTY * 2, EMPTY * 2, [[0, 0, 2, 1], [1, 0.5, 2, 1]]]
    assert label.tolist() == [[0, 0], [0, 0], [2, 1]]
    assert points.tolist()[2][3:7] == [[1, 0], [2, 0], [2, 1], [1, 1]] and not points.numpy()[:2].any()
    numbers = [[0, 0, 0], [1, 0, 0], [2, 0, 0], *([i, 0, 1] for i in range(4)), *([i, 1, 1] for i in range(3))]
    assert index.tolist()[2] == numbers and (index.numpy()[:2] == -1).all()
    masks = flow.ops.object_segmentation_polygon_to_mask(points, index, size.flip([1]), shape=[2, 3, 4])
    assert masks.numpy().sum((2, 3)).tolist() == [[0, 0], [0, 0], [5, 5]]


def test_images_that_are_read(tmp_path):
    """Images without objects of more than a pixel, or without keypoints, are left out by default."""
    content: Any = copy.deepcopy(COCO)
    write_coco(tmp_path, content)
    assert [coco(tmp_path)()[1].tolist() for _ in range(2)] == [[30], [30]]
    content["annotations"][3] |= {"bbox": [0, 0, 2, 2], "keypoints": [0, 0, 1] * 9}
    write_coco(tmp_path, content)
    assert coco(tmp_path).attrs["max_points"] == 10 and coco(tmp_path)()[1].tolist() == [30]
    content["annotations"][3]["keypoints"] += [1, 1, 2]
    write_coco(tmp_path, content)
    read = coco(tmp_path, group_by_aspect_ratio=False)
    assert [read()[1].tolist() for _ in range(3)] == [[20], [30], [20]]


def test_orders_of_image_batches(tmp_path):
    write_coco(tmp_path)

    def numbers(seed):
        options = {"remove_images_without_annotations": False, "group_by_aspect_ratio": False}
        read = COCOReader(tmp_path / "coco.json", tmp_path, 3, random_seed=seed, **options)
        return [read()[1].tolist() for _ in range(6)]

    assert numbers(1) == numbers(1) != numbers(2)
    assert all(sorted(batch) == [10, 20, 30] for batch in numbers(1)) and len({*map(tuple, numbers(1))}) > 2
    images = [Image(n, 1 + n % 3, 1, tmp_path) for n in range(9)]
    batches = [[image.image_id for image in batch] for batch in itertools.islice(grouped(iter(images * 2), 2), 8)]
    assert batches == [[0, 3], [1, 4], [2, 5], [6, 0], [7, 1], [8, 2], [3, 6], [4, 7]]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda c: c.pop("images"), "expected images, annotations and categories .* 'images'"),
        (lambda c: c["annotations"][0].update(image_id=5), "got others .KeyError: 5"),
        (lambda c: c["annotations"][0].update(segmentation={"counts": "a"}), "annotation 1: expected a segmentation"),
        (lambda c: c["annotations"][0].update(segmentation=[[1, 2, 3, 4]]), "polygons of at least 3 points, got"),
        (lambda c: c["images"][0].update(file_name="../a.png"), "expected names of files inside of"),
        (lambda c: c["images"][0].update(file_name="/etc/passwd"), "expected names of files inside of"),
        (lambda c: c["images"][0].update(file_name="d.png"), "d.png"),
        (lambda c: c["annotations"].clear(), "expected images with annotations, got none"),
    ],
)
def test_annotations_that_are_damaged(tmp_path, change, match):
    content = copy.deepcopy(COCO)
    change(content)
    write_coco(tmp_path, content)
    with pytest.raises(flow.OneFlowError, match=match):
        coco(tmp_path)()


def test_files_that_are_no_annotations(tmp_path):
    with pytest.raises(flow.OneFlowError, match=r"expected a file of annotations of COCO: .*coco.json"):
        coco(tmp_path)()
    (tmp_path / "coco.json").write_text(json.dumps(COCO)[:40])
    with pytest.raises(flow.OneFlowError, match="expected a file of annotations of COCO"):
        coco(tmp_path)()


DOCUMENTS = [[10, 11, 12], [20], [30, 31, 32, 33], [40, 41]]


@pytest.fixture
def prefix(tmp_path):
    """Documents of ten tokens."""
    write_tokens(tmp_path / "text", DOCUMENTS)
    return tmp_path / "text"


def test_samples_of_tokens(prefix):
    """Samples are consecutive over documents and epochs, and include the first token of the next sample."""
    read = GPTIndexedBinDataReader(prefix, 4, 5, 2, shuffle=False)
    flat = [token for document in DOCUMENTS for token in document] * 3
    rows = [flat[i : i + 5] for i in range(0, 24, 4)]
    assert [read().tolist() for _ in range(3)] == [rows[:2], rows[2:4], rows[4:6]]
    second = GPTIndexedBinDataReader(prefix, 2, 2, 1, flow.int32, False, split_sizes=[1, 1], split_index=1)
    tokens = second()
    assert tokens.tolist() == [[30, 31, 32]] and tokens.dtype == flow.int32
    compiled = flow.compile(GPTIndexedBinDataReader(prefix, 4, 5, 2, shuffle=False))
    assert [compiled().tolist() for _ in range(2)] == [rows[:2], rows[2:4]]


def test_numbered_batches_of_tokens(prefix):
    options = {
        "data_file_prefix": str(prefix),
        "seq_length": 4,
        "num_samples": 5,
        "batch_size": 1,
        "split_sizes": [1],
    }

    def batch(n):
        return flow.ops.megatron_gpt_mmap_data_loader(flow.tensor([n]), dtype=flow.int64, **options)

    tokens, following = batch(2)
    assert tokens.tolist() == [[40, 41, 10, 11, 12]] and following.tolist() == [3]


def test_shuffled_samples_are_those_of_shuffled_documents(prefix):
    """Every sample is read once, and the tokens of a sample are consecutive tokens of the documents."""
    rows = []
    for seed in (1, 1, 2):
        read = GPTIndexedBinDataReader(prefix, 2, 4, 1, random_seed=seed)
        rows.append([read().tolist()[0] for _ in range(4)])
    assert rows[0] == rows[1] != rows[2]
    for row in itertools.chain(*rows):
        assert all(b == a + 1 or b % 10 == 0 for a, b in itertools.pairwise(row))
    begins = {row[0] for row in rows[0]}
    assert len(begins) == 4


def test_files_of_tokens_that_are_damaged(prefix):
    index = prefix.with_suffix(".idx")
    whole = index.read_bytes()
    read = GPTIndexedBinDataReader(prefix, 4, 2, 2, shuffle=False)
    read()
    with pytest.raises(flow.OneFlowError, match="expected the index of one of 2 samples, got 2; see num_samples"):
        read()
    for damaged, match in (
        (b"MMIDIDY" + whole[7:], "expected a file that begins with"),
        (whole[:-1], "and 122 bytes, got type 4, 4 documents, 5 offsets and 121 bytes"),
        (whole[:17] + b"\x63" + whole[18:], "got type 99"),
        (whole[:34] + b"\xff\xff" + whole[36:], "expected documents inside of the 40 bytes"),
    ):
        index.write_bytes(damaged)
        with pytest.raises(flow.OneFlowError, match=match):
            GPTIndexedBinDataReader(prefix, 4, 2, 2)()
    with pytest.raises(flow.OneFlowError, match=r"expected the files .*none.idx and .*none.bin of documents"):
        GPTIndexedBinDataReader(prefix.with_name("none"), 4, 2, 2)()


@pytest.fixture
def files(tmp_path):
    """Seven tensors of two numbers in three files, of which one is empty."""
    numbers = np.arange(14, dtype=np.int16)
    for name, part in (("a", numbers[:6]), ("b", numbers[:0]), ("c", numbers[6:])):
        part.tofile(tmp_path / name)
    return [tmp_path / name for name in "abc"]


def test_raw_tensors(files):
    read = RawReader(files, (2,), flow.int16, 3, random_shuffle=False)
    rows = [[2 * n % 14, 2 * n % 14 + 1] for n in range(12)]
    assert [read().tolist() for _ in range(4)] == [rows[:3], rows[3:6], rows[6:9], rows[:3]]
    with pytest.raises(flow.OneFlowError, match=r"a: expected a multiple of 8 bytes, the size of a tensor, got 12"):
        RawReader(files, (4,), flow.int16, 3)()
    with pytest.raises(flow.OneFlowError, match=r"expected tensors in .*b, got none"):
        RawReader(files[1:2], (4,), flow.int16, 3)()
    with pytest.raises(RunError, match=r"raw_reader: .*expected the file none of tensors.*test_data_readers.py:\d+"):
        flow.compile(RawReader(["none"], (4,), flow.int16, 3))()


def test_shuffled_raw_tensors(files):
    """Blocks stay together; a seed repeats the orders, which differ from round to round."""

    def batches(seed, block):
        read = RawReader(files, (), flow.int16, 4, shuffle_block_size=block, random_seed=seed)
        return [read().tolist() for _ in range(12)]

    assert batches(1, 2) == batches(1, 2) != batches(2, 2)
    assert all(b == (a + 1) % 14 for row in batches(1, 2) for a, b in (row[:2], row[2:]))
    assert all((np.diff(row) % 14 == 1).all() for row in batches(1, 0))
    rounds = [batches(1, 2)[i : i + 4] for i in (0, 4, 8)]
    assert all(sorted(r) == sorted(rounds[0]) for r in rounds) and rounds[0] != rounds[1]
