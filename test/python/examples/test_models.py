"""The examples of ONNX models that packages ship: known answers, and ONNX Runtime's numbers."""

import importlib.util
import sys
import wave
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import oneflow as flow

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "models"))
import file_type
import speech


def folder_of(package):
    """The folder of an installed package; the test is skipped without the package, since the package is optional."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed; pip install --no-deps {package.replace('_', '-')}")
    return Path(spec.origin).parents[1]


FILES = {
    "python": b"import sys\n\n\ndef main():\n    for name in sys.argv[1:]:\n        print(name)\n\n\nmain()\n",
    "json": b'{\n  "name": "x",\n  "values": [1, 2, 3],\n  "more": {"a": null, "b": true}\n}\n',
    "c": b'#include <stdio.h>\n\nint main(void) {\n  int x = 3;\n  printf("%d\\n", x * x);\n  return 0;\n}\n',
    "markdown": b"# Title\n\nSome text with a [link](https://example.org).\n\n- one\n- two\n\n```\ncode\n```\n",
}


def test_file_types_are_classified(tmp_path, capsys):
    """A file of each kind, under a name that does not tell."""
    folder = folder_of("magika")
    for kind, data in FILES.items():
        (tmp_path / f"a_{kind}_file").write_bytes(data)
    assert file_type.main([str(folder), *(str(tmp_path / f"a_{kind}_file") for kind in FILES)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1].split()[0] for line in lines] == list(FILES)


def voice(seconds):
    """Pulses of a voice through the resonances of a vowel, from -1 to 1."""
    samples = np.zeros(round(seconds * speech.RATE))
    samples[::130] = 1.0
    for frequency, width in ((700, 80), (1200, 90), (2600, 120)):
        radius = np.exp(-np.pi * width / speech.RATE)
        turn = 2 * radius * np.cos(2 * np.pi * frequency / speech.RATE)
        past = [0.0, 0.0]
        for i, sample in enumerate(samples):
            samples[i] = sample + turn * past[0] - radius**2 * past[1]
            past = [samples[i], past[0]]
    return samples / np.abs(samples).max()


def test_speech_is_found(tmp_path, capsys):
    """A vowel between stretches of silence; the probabilities of all steps are ONNX Runtime's."""
    folder = folder_of("silero_vad")
    quiet = np.zeros(speech.RATE // 2)
    samples = (np.concatenate([quiet, 0.3 * voice(0.3), quiet]) * 2**15).astype("<i2")
    path = tmp_path / "recording.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(speech.RATE)
        file.writeframes(samples.tobytes())
    assert speech.main([str(folder), str(path)]) == 0
    start, end = map(float, capsys.readouterr().out.splitlines()[0].removesuffix(" s").split(" to "))
    assert 0.45 <= start < end <= 0.85
    model = folder / "silero_vad" / "data" / "silero_vad.onnx"
    session = onnxruntime.InferenceSession(model)
    ours, theirs = (
        speech.probabilities(run, speech.read_samples(path))
        for run in (flow.from_onnx(model), lambda **feeds: session.run(None, feeds))
    )
    np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


def test_recordings_of_another_format_are_refused(tmp_path):
    """The error names the inputs of the model."""
    path = tmp_path / "recording.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44_100)
        file.writeframes(bytes(400))
    with pytest.raises(ValueError, match=r"expected 16000 samples of 16 bits a second in .*, got 44100 of 16 bits"):
        speech.read_samples(path)
