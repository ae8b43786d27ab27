"""Samples of readers: files of as many items as a batch has, so that each batch is the same."""

from record_files import DATA

from oneflow.dialect.dtypes import bool_, float32, float64, int32, int64
from oneflow.testing.sample import Bad, Sample, t, v

READ = {
    "annotation_file": str(DATA / "coco.json"), "image_dir": str(DATA), "batch_size": 3, "image_bytes": 90,
    "max_objects": 2, "max_points": 11,
}  # fmt: skip
ALL = {**READ, "remove_images_without_annotations": False, "group_by_ratio": False, "shuffle_after_epoch": False}
RAW = {
    "files": [str(DATA / "tensors.bin")], "shape": [2], "batch_size": 3, "shuffle_block_size": 0,
    "data_type": float32,
}  # fmt: skip
TOKENS = {
    "data_file_prefix": str(DATA / "tokens"), "seq_length": 2, "num_samples": 300, "batch_size": 3, "dtype": int32,
    "split_sizes": [1],
}  # fmt: skip
LOADER = "megatron_gpt_mmap_data_loader"

SAMPLES = [
    Sample("cocoreader", [], ALL),
    Sample("raw_reader", [], {**RAW, "random_shuffle": False}),
    Sample("raw_reader", [], {**RAW, "shape": [], "shuffle_block_size": 3, "batch_size": 6, "data_type": int32}),
    Sample(LOADER, [None], TOKENS, dtypes=(int32,)),
    Sample(LOADER, [v([4], int64)], {**TOKENS, "dtype": int64, "shuffle": True}, dtypes=(int64,)),
    Sample(LOADER, [v(1, int64)], {**TOKENS, "split_sizes": [1, 2], "split_index": 1}, dtypes=(int32,)),
]
BAD = [
    Bad("cocoreader", [], {**ALL, "batch_size": 0}, match="expected batch_size of at least 1"),
    Bad("cocoreader", [], {**ALL, "max_points": -1}, match="max_objects and max_points of at least 0, got 90, 2, -1"),
    Bad("raw_reader", [], {**RAW, "files": []}, match="expected files and a shape of at least one element"),
    Bad("raw_reader", [], {**RAW, "shuffle_block_size": 2}, match="shuffle_block_size to divide the batch of 3"),
    Bad("raw_reader", [], {**RAW, "data_type": bool_}, match="expected data_type of type"),
    Bad(LOADER, [None], {**TOKENS, "dtype": float64}, match="expected dtype of type i32, i64"),
    Bad(LOADER, [None], {**TOKENS, "seq_length": 0}, match="expected seq_length, label_length and num_samples"),
    Bad(LOADER, [None], {**TOKENS, "split_index": 1}, match="and split_index of one of them, got [1] and 1"),
    Bad(LOADER, [t(2, dtype=int64)], TOKENS, match="expected iteration of one element of i64"),
]
