"""The training examples: the final losses, and the bitwise equal continuation of a killed run."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import oneflow as flow

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
#: The script, the number of steps of a short run, and the number of steps between checkpoints.
SHORT = {"train_digits.py": (40, 8), "train_gpt.py": (24, 6)}


def command(script, out, *options):
    return [sys.executable, str(ROOT / "examples" / script), "--out", str(out), *map(str, options)]


def run(*args):
    done = subprocess.run(command(*args), env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def kill_after_a_checkpoint(script, out, *options):
    """Starts a run and kills the process after the first checkpoint, like a machine failure."""
    with subprocess.Popen(command(script, out, *options), env=ENVIRONMENT, stderr=subprocess.DEVNULL) as process:
        while not (out / "checkpoint.safetensors").exists() and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, "the run ended before it was killed"


@pytest.mark.parametrize("script", SHORT)
def test_a_killed_run_resumes_bit_for_bit(script, tmp_path):
    steps, every = SHORT[script]
    options = ("--steps", steps, "--every", every)
    run(script, tmp_path / "whole", *options)
    kill_after_a_checkpoint(script, tmp_path / "killed", *options)
    saved = flow.load(tmp_path / "killed" / "checkpoint.safetensors")["values"]["losses"]
    assert every <= len(saved) < steps and not (tmp_path / "killed" / "model.safetensors").exists()
    resumed = run(script, tmp_path / "killed", *options, "--resume")
    assert f"{steps}/{steps}" in resumed.stderr and "loss" in resumed.stderr
    for name in ("checkpoint.safetensors", "model.safetensors"):
        whole, killed = (load_file(tmp_path / folder / name) for folder in ("whole", "killed"))
        assert whole.keys() == killed.keys()
        for key, array in whole.items():
            np.testing.assert_array_equal(array, killed[key], err_msg=key)
    assert (tmp_path / "killed" / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_digits_are_learned(tmp_path):
    """In less than a minute of two cores: processor time, which concurrent tests do not lengthen."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run("train_digits.py", tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2 * 60
    (accuracy,) = re.findall(r"([\d.]+)% of 360 held-out digits right, [\d.]+ s", done.stdout)
    assert float(accuracy) >= 98.5
    assert re.search(r"loss \d\.\d{4}, [\d,]+ digits/s", done.stderr)
