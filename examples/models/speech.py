"""Finds where a recording has speech, by the model that the package `silero-vad` ships.

    pip install --no-deps --target models silero-vad
    python examples/models/speech.py models recording.wav

The recording is a WAV file of 16-bit samples, 16,000 a second. Each line of the output has the start and the end of
a stretch of speech in seconds. The model reads 512 samples a step and keeps a state between steps.
"""

from __future__ import annotations

import argparse
import sys
import wave
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import oneflow as flow

RATE = 16_000
STEP = 512
#: The number of samples of the previous step that the model reads again.
CONTEXT = 64


def read_samples(path: Path) -> np.ndarray:
    """The samples of a recording in f32, from -1 to 1, as the mean of the channels.

    Raises:
        ValueError: the file has another sample rate or other types of samples.
    """
    with wave.open(str(path)) as file:
        if (file.getframerate(), file.getsampwidth()) != (RATE, 2):
            rate, bits = file.getframerate(), 8 * file.getsampwidth()
            raise ValueError(f"expected {RATE} samples of 16 bits a second in {path}, got {rate} of {bits} bits")
        frames = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        samples: np.ndarray = frames.reshape(-1, file.getnchannels()).mean(1).astype(np.float32) / 2**15
        return samples


def probabilities(program: Callable[..., Sequence[np.ndarray]], samples: np.ndarray) -> np.ndarray:
    """How likely each step of a recording has speech, of f32."""
    state = np.zeros((2, 1, 128), np.float32)
    padded = np.pad(samples, (CONTEXT, -len(samples) % STEP))
    results = []
    for start in range(0, len(padded) - CONTEXT, STEP):
        part = padded[None, start : start + CONTEXT + STEP]
        probability, state = program(input=part, state=state, sr=np.array(RATE))
        results.append(probability[0, 0])
    return np.array(results, np.float32)


def stretches(likely: np.ndarray) -> Iterator[tuple[float, float]]:
    """The starts and ends, in seconds, of the runs of steps that have speech."""
    changes = np.flatnonzero(np.diff(np.pad(likely, 1).astype(np.int8)))
    for start, end in changes.reshape(-1, 2):
        yield start * STEP / RATE, end * STEP / RATE


def main(argv: list[str] | None = None) -> int:
    """Prints a line for each stretch of speech."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="the folder that has the package silero-vad")
    parser.add_argument("recording", type=Path, help="a WAV file")
    parser.add_argument("--threshold", type=float, default=0.5, help="the least probability of speech (default: 0.5)")
    arguments = parser.parse_args(argv)
    models = sorted(arguments.package.glob("**/silero_vad/data/silero_vad.onnx"))
    if not models:
        raise FileNotFoundError(f"expected the package silero-vad in {arguments.package}; see --help")
    likely = probabilities(flow.from_onnx(models[0]), read_samples(arguments.recording)) >= arguments.threshold
    for start, end in stretches(likely):
        print(f"{start:.2f} to {end:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
