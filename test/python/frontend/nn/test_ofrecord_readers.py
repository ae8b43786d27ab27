"""Modules that read files: the order of batches, positions, shuffles, features, and files that are damaged."""

import itertools

import numpy as np
import pytest
from record_files import IMAGES, RECORDS, record, varint, write

import oneflow as flow
from oneflow.dialect.ofrecord import feature, records, shuffled
from oneflow.frontend.nn.readers import OFRecordReader
from oneflow.runtime.failures import RunError

LABEL = flow.nn.OFRecordRawDecoder("y", shape=(), dtype=flow.int64)


def labelled(*labels):
    return [record(y=(np.int64, [label])) for label in labels]


@pytest.fixture
def folder(tmp_path):
    """Three files with the labels 0 to 6."""
    for index, labels in enumerate(([0, 1, 2], [3, 4], [5, 6])):
        write(tmp_path / f"part-{index:05}", labelled(*labels))
    return tmp_path


def reader(folder, batch_size=3, **options):
    return OFRecordReader(folder, batch_size, 3, part_name_suffix_length=5, **options)


def labels(read, count):
    return [LABEL(read()).tolist() for _ in range(count)]


def test_batches_follow_one_another(folder):
    read = reader(folder)
    assert labels(read, 3) == [[0, 1, 2], [3, 4, 5], [6, 0, 1]]
    assert labels(reader(folder), 1) == [[0, 1, 2]]


def test_compiled_readers_have_positions_of_their_own(folder):
    """Equal readers are not merged, a reader without users is kept, and each function starts at the first record."""
    first, second = reader(folder), reader(folder)

    @flow.compile
    def read():
        return LABEL(first()), LABEL(second())

    @flow.compile
    def skip():
        records = first()
        return LABEL(second()) + 0 * LABEL(records).sum()

    assert [[x.tolist() for x in read()] for _ in range(2)] == [[[0, 1, 2]] * 2, [[3, 4, 5]] * 2]
    assert read.ir("oneflow").count('"oneflow.ofrecordreader"') == 2
    assert [skip().tolist() for _ in range(2)] == [[0, 1, 2], [3, 4, 5]]

    @flow.compile
    def twice():
        return LABEL(first()) + LABEL(first())

    with pytest.raises(flow.OneFlowError, match="expected one call of a OFRecordReader in a compiled function"):
        twice()


def test_ranks_read_parts_of_one_batch(folder):
    ranks = flow.placement("cpu", ranks=[0, 1])
    split = {"placement": ranks, "sbp": flow.sbp.split(0), "random_shuffle": True, "shuffle_buffer_size": 2}
    expected = labels(reader(folder, 4, random_seed=3, random_shuffle=True, shuffle_buffer_size=2), 3)
    read = reader(folder, 4, random_seed=3, **split)
    compiled = flow.compile(lambda: LABEL(read()), placement=ranks)
    assert [compiled().tolist() for _ in range(3)] == expected
    batch = reader(folder, 4, random_seed=3, **split)()
    assert batch.sbp == (flow.sbp.split(0),) and LABEL(batch).numpy().tolist() == expected[0]


def test_random_orders(folder):
    """A buffer of n returns a record at most n records early; equal seeds give equal orders; files are permuted."""
    options = {"random_shuffle": True, "shuffle_buffer_size": 4}
    flow.manual_seed(1)
    first, again, other = (labels(reader(folder, 7, random_seed=s, **options), 4) for s in (3, 3, 5))
    assert first == again != other
    assert labels(reader(folder, 7, **options), 1) != labels(reader(folder, 7, **options), 1)
    flat = list(itertools.islice(shuffled(itertools.count(), 4, 0), 40))
    assert flat != sorted(flat) and len({*flat}) == 40 and all(x <= position + 4 for position, x in enumerate(flat))
    rounds = labels(reader(folder, 7, shuffle_after_epoch=True), 6)
    assert rounds[0] == [*range(7)] and all(sorted(r) == [*range(7)] for r in rounds)
    assert len({tuple(r) for r in rounds}) > 2 and all("".join(map(str, r)).count("34") for r in rounds)


def test_images_of_records(tmp_path):
    write(tmp_path / "part-0", RECORDS)
    read = OFRecordReader(str(tmp_path), 3)
    batch = read()
    images = flow.nn.OFRecordImageDecoder("encoded", color_space="RGB")(batch)
    assert images.size.tolist() == [[2, 3], [3, 1], [1, 4]]
    for got, expected in zip(images.numpy(), IMAGES, strict=True):
        np.testing.assert_array_equal(got, expected)
    files = flow.nn.OFRecordBytesDecoder("encoded")(batch)
    np.testing.assert_array_equal(flow.nn.image.decode(color_space="RGB")(files).images, images.images)
    cut = flow.nn.OFRecordImageDecoderRandomCrop("encoded", random_seed=1, random_area=(0.3, 0.5))
    parts = cut(batch).numpy()
    assert all(p.size < i.size for p, i in zip(parts, IMAGES, strict=True) if i.shape[0] > 1)
    crop = flow.nn.CropMirrorNormalize("RGB", mean=[1.0], std=[2.0])

    @flow.compile
    def step():
        records = read()
        decoder = flow.nn.OFRecordImageDecoder("encoded", color_space="RGB", max_size=(3, 4))
        resized = flow.nn.image.Resize((2, 2))(decoder(records))[0]
        return crop(resized), flow.nn.OFRecordRawDecoder("class/label", (), flow.int32)(records)

    batch, classes = step()
    assert batch.shape == (3, 3, 2, 2) and classes.tolist() == [3, -7, 300]


def test_features_of_every_kind():
    whole = record(
        a=(bytes, [b"xy", b""]), b=(np.float32, [1.5]), c=(np.float64, [2.5, -1]), d=(np.int64, [-(2**63), 5])
    )
    assert feature(whole, "a").values == [b"xy", b""]
    assert [feature(whole, n).values.tolist() for n in "bcd"] == [[1.5], [2.5, -1.0], [-(2**63), 5]]
    assert feature(whole + b"\0\0", "b").kind == "float"
    # Unpacked numbers, as in older writers, and a field of a later version.
    one_by_one = b"\x08" + varint(300) + b"\x08" + varint(-1)
    entry = b"\x0a\x01n\x12" + varint(len(one_by_one) + 2) + b"\x22" + varint(len(one_by_one)) + one_by_one
    old = b"\x0a" + varint(len(entry)) + entry + b"\x50\x01"
    assert feature(old, "n").values.tolist() == [300, -1]


@pytest.mark.parametrize(
    ("options", "values", "expected"),
    [
        ({"shape": (2,)}, (np.int32, [1, 2]), [1, 2]),
        ({"shape": (3,), "truncate": True}, (np.float32, [1.5]), [1, 0, 0]),
        ({"shape": (1,), "truncate": True}, (np.int64, [7, 8]), [7]),
        ({"shape": (2,), "dim1_varying_length": True}, (np.int64, [7]), [7, 0]),
        ({"shape": (2,)}, (bytes, [b"\x01\xff"]), [1, -1]),
    ],
)
def test_values_of_records(options, values, expected):
    rows = np.frombuffer(record(x=values), np.uint8)[None]
    assert flow.nn.OFRecordRawDecoder("x", dtype=flow.int32, **options)(flow.tensor(rows))[0].tolist() == expected


@pytest.mark.parametrize(
    ("damaged", "match"),
    [
        (b"\x05\0\0\0\0\0\0\0abc", "expected a record of 5 bytes at byte 0, got a file with 3 more"),
        (b"\xff" * 8 + b"abc", "expected a record of -1 bytes"),
        (b"\0\0\0", "expected a record of 0 bytes"),
        (b"", "expected records in .*part-0, got none"),
    ],
)
def test_files_that_are_damaged(tmp_path, damaged, match):
    (tmp_path / "part-0").write_bytes(damaged)
    with pytest.raises(flow.OneFlowError, match=match):
        OFRecordReader(tmp_path)()
    compiled = flow.compile(OFRecordReader(tmp_path, record_bytes=9))
    for _ in range(2):
        with pytest.raises(RunError, match=rf"ofrecordreader: .*{match}.*test_ofrecord_readers.py:\d+"):
            compiled()


def test_records_that_are_damaged(folder):
    with pytest.raises(flow.OneFlowError, match="expected batch_size of at least 1"):
        reader(folder, 0)()
    with pytest.raises(flow.OneFlowError, match=r"expected the file .*part-00003 of records: .*No such file"):
        OFRecordReader(folder, 1, 4, part_name_suffix_length=5)()
    with pytest.raises(flow.OneFlowError, match="record 0: expected at most record_bytes 3 bytes, got"):
        reader(folder, record_bytes=3)()
    rows = next(records([folder / "part-00000"], False))
    for data, match in (
        (rows[:-1], "expected a whole record, got one that ends 1 bytes early"),
        (b"\xff" * 12, "an integer of more than 10 bytes"),
        (b"\x0b", "a field of wire type 3"),
        (b"\0\x01", "got a field of the number 0"),
        (b"", "expected a record with the feature 'y', got none"),
    ):
        with pytest.raises(ValueError, match=match):
            feature(data, "y")
    with pytest.raises(RunError, match="record 0: expected 2 values of the feature 'y', got 1"):
        flow.nn.OFRecordRawDecoder("y", (2,), flow.int32)(reader(folder)())
    with pytest.raises(RunError, match="expected a record with the feature 'z', got 'y'"):
        flow.nn.OFRecordRawDecoder("z", (), flow.int32)(reader(folder)())
