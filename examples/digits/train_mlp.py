"""Trains the digits classifier with scikit-learn and writes the weights to `mlp.safetensors`.

The file is in the repository; the script is needed only to make the file again. Data: the 1,797 scans of 8x8 pixels
that scikit-learn includes, pixel values 0 to 16 divided by 16.
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

WEIGHTS = Path(__file__).with_name("mlp.safetensors")


def main() -> None:
    """Trains on all scans and saves w0, b0, w1, b1 as f32."""
    images, labels = load_digits(return_X_y=True)
    model = MLPClassifier((32,), max_iter=300, random_state=0, tol=0.0, n_iter_no_change=300)
    model.fit((images / 16.0).astype(np.float32), labels)
    tensors = {}
    for layer, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        tensors[f"w{layer}"] = np.ascontiguousarray(weight, np.float32)
        tensors[f"b{layer}"] = np.ascontiguousarray(bias, np.float32)
    save_file(tensors, WEIGHTS)
    WEIGHTS.chmod(0o644)


if __name__ == "__main__":
    main()
