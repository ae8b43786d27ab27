"""Samples of records of OneFlow: files of as many records as a batch has, so that each batch is the same."""

from png_bytes import rows
from record_files import DATA, RECORDS

from oneflow.dialect.dtypes import bool_, float32, float64, int32, int64, uint8
from oneflow.testing.sample import Bad, Sample, t, v

FILES = {"data_dir": str(DATA), "data_part_num": 2, "batch_size": 3}
READ = {**FILES, "record_bytes": max(map(len, RECORDS)) + 2}
IMAGES = {**FILES, "color_space": "RGB", "max_size": [3, 4]}
LIST = v(rows([*RECORDS, b""])[:3], uint8)
IMAGE = {"name": "encoded", "max_size": [3, 4]}
PART = {**IMAGE, "random_area": [0.3, 1.0], "random_aspect_ratio": [0.5, 2.0], "seed": 1}
READER, CLASSES = "ofrecordreader", "ofrecord_image_classification_reader"
RAW = "ofrecord_raw_decoder"

SAMPLES = [
    Sample(READER, [], READ, dtypes=(uint8,)),
    Sample(CLASSES, [], IMAGES, dtypes=(uint8,)),
    Sample("ofrecord_bytes_decoder", [LIST], {"name": "encoded"}, dtypes=(uint8,)),
    Sample(RAW, [LIST], {"name": "class/label", "shape": [], "data_type": int32}, dtypes=(uint8,)),
    Sample(RAW, [LIST], {"name": "x", "shape": [3, 1], "data_type": float32, "truncate": True}, dtypes=(uint8,)),
    Sample(RAW, [LIST], {"name": "x", "shape": [1], "data_type": float64, "truncate": True}, dtypes=(uint8,)),
    Sample("ofrecord_image_decoder", [LIST], IMAGE, dtypes=(uint8,)),
    Sample("ofrecord_image_decoder_random_crop", [LIST], PART, dtypes=(uint8,)),
    Sample("ofrecord_image_decoder_random_crop", [LIST, v([4], int64)], PART, dtypes=(uint8,)),
]
BAD = [
    Bad(READER, [], {**READ, "batch_size": 0}, match="expected batch_size of at least 1"),
    Bad(READER, [], {**READ, "data_part_num": 0}, match="expected data_part_num of at least 1"),
    Bad(READER, [], {**READ, "record_bytes": 0}, match="expected record_bytes of at least 1"),
    Bad(
        READER, [], {**READ, "logical_size": 4, "logical_begin": 2}, match="a part inside of the batch, got 3 from 2"
    ),
    Bad(
        READER,
        [],
        {**READ, "random_shuffle": True, "shuffle_buffer_size": 0},
        match="shuffle_buffer_size of at least",
    ),
    Bad(CLASSES, [], {**IMAGES, "max_size": []}, match="as the most rows and columns"),
    Bad("ofrecord_bytes_decoder", [t(3)], {"name": "x"}, match="expected in of rank 2"),
    Bad(RAW, [LIST], {"name": "x", "shape": [], "data_type": bool_}, match="expected data_type of type ui8"),
    Bad("ofrecord_image_decoder", [LIST], {**IMAGE, "color_space": "XYZ"}, match="one of RGB, BGR, GRAY"),
    Bad(
        "ofrecord_image_decoder_random_crop", [LIST], {**PART, "num_attempts": 0}, match="num_attempts of at least 1"
    ),
]
