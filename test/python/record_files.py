"""Files of records of OneFlow, of COCO, of tokens and of tensors, written by hand: inputs of the tests of readers.

The module, run as a program, writes the files of the samples again.
"""

import json
import struct
from pathlib import Path

import numpy as np
from png_bytes import png

DATA = Path(__file__).parent / "samples" / "data"
FIELDS = {bytes: 1, np.float32: 2, np.float64: 3, np.int32: 4, np.int64: 5}


def varint(number):
    """An integer of a variable length."""
    number %= 2**64
    octets = []
    while number > 127:
        octets.append(number % 128 + 128)
        number //= 128
    return bytes([*octets, number])


def field(number, data):
    """A field that is bytes or a message."""
    return varint(number * 8 + 2) + varint(len(data)) + data


def values(kind, items):
    """The list of a feature."""
    if kind is bytes:
        return b"".join(field(1, item) for item in items)
    if np.dtype(kind).kind == "i":
        return field(1, b"".join(map(varint, items)))
    return field(1, np.array(items, kind).tobytes())


def record(**features):
    """A record with features, each a kind and a list of values; `__` is a slash in their names."""
    entries = (
        field(1, name.replace("__", "/").encode()) + field(2, field(FIELDS[kind], values(kind, items)))
        for name, (kind, items) in features.items()
    )
    return b"".join(field(1, entry) for entry in entries)


def write(path, records):
    """Writes a file of records."""
    path.write_bytes(b"".join(struct.pack("<q", len(one)) + one for one in records))


IMAGES = [np.arange(h * w * 3, dtype=np.uint8).reshape(h, w, 3) * 3 for h, w in ((2, 3), (3, 1), (1, 4))]
#: The records of the samples: an image, its label and numbers.
RECORDS = [
    record(encoded=(bytes, [png(image)]), class__label=(np.int32, [label]), x=(np.float32, [label / 2, -1.5]))
    for label, image in zip((3, -7, 300), IMAGES, strict=True)
]

#: Annotations of COCO: an image with two objects, one with a crowd alone, and one with an empty box.
COCO = {
    "images": [
        {"id": 30, "height": 2, "width": 3, "file_name": "a.png"},
        {"id": 10, "height": 3, "width": 1, "file_name": "b.png"},
        {"id": 20, "height": 1, "width": 4, "file_name": "c.png"},
    ],
    "categories": [{"id": 90}, {"id": 7}],
    "annotations": [
        {"id": 1, "image_id": 30, "iscrowd": 0, "category_id": 90, "bbox": [0, 0, 3, 2],
         "segmentation": [[0, 0, 2, 0, 2, 1]]},
        {"id": 2, "image_id": 10, "iscrowd": 1, "category_id": 7, "bbox": [0, 0, 1, 3],
         "segmentation": {"counts": []}},
        {"id": 3, "image_id": 30, "iscrowd": 0, "category_id": 7, "bbox": [1, 0.5, 9, 9],
         "segmentation": [[1, 0, 2, 0, 2, 1, 1, 1], [0, 0, 1, 0, 1, 1]]},
        {"id": 4, "image_id": 20, "iscrowd": 0, "category_id": 7, "bbox": [1, 0, 2, 1], "segmentation": []},
    ],
}  # fmt: skip


def write_coco(folder, content=COCO):
    """Writes annotations and their images."""
    (folder / "coco.json").write_text(json.dumps(content))
    for name, image in zip("abc", IMAGES, strict=True):
        (folder / f"{name}.png").write_bytes(png(image))


def write_tokens(prefix, documents, code=4, dtype=np.int32):
    """Writes documents of tokens as Megatron does."""
    arrays = [np.array(document, dtype) for document in documents]
    lengths = np.array([len(a) for a in arrays], np.int32)
    starts = np.cumsum([0, *(a.nbytes for a in arrays)])[:-1]
    offsets = np.arange(len(arrays) + 1)
    header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(arrays), len(offsets))
    index = header + b"".join(a.tobytes() for a in (lengths, starts.astype(np.int64), offsets.astype(np.int64)))
    Path(f"{prefix}.idx").write_bytes(index)
    Path(f"{prefix}.bin").write_bytes(b"".join(a.tobytes() for a in arrays))


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    write(DATA / "part-0", RECORDS[:2])
    write(DATA / "part-1", RECORDS[2:])
    write_coco(DATA)
    write_tokens(DATA / "tokens", [[5, 1, 4], [2], [7, 3]])
    np.arange(1, 7, dtype=np.float32).tofile(DATA / "tensors.bin")
