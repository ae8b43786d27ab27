"""Files of the format PNG, written by hand: inputs of tests that decode images."""

import struct
import zlib

import numpy as np


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels):
    """The file of an image (rows, columns, 1 or 3) of uint8."""
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def rows(files):
    """Files as one array, with zeros behind each."""
    length = max(map(len, files))
    return np.stack([np.frombuffer(file.ljust(length, b"\0"), np.uint8) for file in files])
