"""Prints the kind of content of files, according to the model that the package `magika` ships.

    pip install --no-deps --target models magika
    python examples/models/file_type.py models README.md pyproject.toml

The model reads the first and the last bytes of a file. Each line of the output has a path, the most likely kind and
its probability.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import oneflow as flow


def find_model(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The newest model of the package `magika` in a folder, and the configuration of the model.

    Raises:
        FileNotFoundError: the folder has no such package.
    """
    models = sorted(folder.glob("**/magika/models/*/model.onnx"))
    if not models:
        raise FileNotFoundError(f"expected the package magika in {folder}; see --help")
    return models[-1], json.loads((models[-1].parent / "config.min.json").read_text())


def tokens_of(data: bytes, config: dict[str, Any]) -> np.ndarray:
    """The input of the model for a file, as i32: bytes of the start and of the end of the file, and padding."""
    first, last, block, padding = (config[k] for k in ("beg_size", "end_size", "block_size", "padding_token"))
    start, end = data[:block].lstrip()[:first], data[-block:].rstrip()[-last:]
    return np.array([[*start, *[padding] * (first - len(start)), *[padding] * (last - len(end)), *end]], np.int32)


def main(argv: list[str] | None = None) -> int:
    """Prints a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="the folder that has the package magika")
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args(argv)
    path, config = find_model(arguments.package)
    program = flow.from_onnx(path)
    for file in arguments.files:
        probabilities = program(tokens_of(file.read_bytes(), config))[0]
        likely = int(np.argmax(probabilities))
        print(f"{file}: {config['target_labels_space'][likely]} {probabilities[likely]:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
