"""Files of records of OneFlow, written by hand: inputs of tests that read them.

python test/python/record_files.py      writes the file of the samples again
"""

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

if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    write(DATA / "part-0", RECORDS[:2])
    write(DATA / "part-1", RECORDS[2:])
