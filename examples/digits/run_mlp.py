"""Classifies scikit-learn's 1,797 handwritten digits with `mlp.mlir`, and compares with scikit-learn.

The script writes the scans to a file, runs `oneflow-run` on the file as a user would, and reads the labels back.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

HERE = Path(__file__).parent


def reference_labels(pixels: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The predictions of scikit-learn's classifier with the same weights."""
    weights = load_file(HERE / "mlp.safetensors")
    model = MLPClassifier((32,))
    model.partial_fit(pixels[:100], labels[:100], classes=np.unique(labels))
    model.coefs_ = [weights["w0"], weights["w1"]]
    model.intercepts_ = [weights["b0"], weights["b1"]]
    labels_found: np.ndarray = model.predict(pixels)
    return labels_found


def run(pixels: np.ndarray) -> np.ndarray:
    """The labels that `oneflow-run mlp.mlir` gives."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", pixels)
        command = [sys.executable, "-m", "oneflow.tools.oneflow_run", str(HERE / "mlp.mlir")]
        command += ["--entry-point", "predict", "--input", f"x={folder}/x.npy"]
        command += ["--input", str(HERE / "mlp.safetensors"), "--output", f"{folder}/out.npz"]
        subprocess.run(command, check=True)
        found: np.ndarray = np.load(f"{folder}/out.npz")["label"]
        return found


def main() -> None:
    """Prints the accuracy and how many predictions are scikit-learn's."""
    images, labels = load_digits(return_X_y=True)
    pixels = (images / 16.0).astype(np.float32)
    predicted = run(pixels)
    same = int(np.sum(predicted == reference_labels(pixels, labels)))
    print(
        f"digits: {np.mean(predicted == labels):.1%} right, {same} of {len(labels)} predictions equal scikit-learn's"
    )
    sys.exit(same != len(labels))


if __name__ == "__main__":
    main()
