"""A small convolutional network on the digits, as a Python function compiled by oneflow.

python examples/digits/cnn.py      compiles the network, runs all scans, compares with SciPy's convolution
"""

import numpy as np
from scipy.signal import correlate
from sklearn.datasets import load_digits

import oneflow as flow


def make_weights(seed: int = 0) -> dict[str, np.ndarray]:
    """Weights of two convolutions and a classifier, drawn from a normal distribution (He's scale)."""
    rng = np.random.default_rng(seed)
    shapes = {"c0": (8, 1, 3, 3), "c1": (16, 8, 3, 3), "fc": (64, 10)}
    fans = {"c0": 9, "c1": 72, "fc": 64}
    return {k: (rng.standard_normal(s) * np.sqrt(2 / fans[k])).astype(np.float32) for k, s in shapes.items()}


@flow.compile
def cnn(x: flow.Tensor, weights: dict[str, flow.Tensor]) -> flow.Tensor:
    """Class probabilities (n, 10) of scans `x` (n, 1, 8, 8)."""
    x = flow.relu(flow.conv2d(x, weights["c0"], padding=1))
    x = flow.max_pool2d(x, 2)
    x = flow.relu(flow.conv2d(x, weights["c1"], padding=1))
    x = flow.max_pool2d(x, 2)
    probabilities: flow.Tensor = flow.softmax(flow.matmul(x.reshape(-1, 64), weights["fc"]), dim=1)
    return probabilities


def convolve(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The convolution by SciPy: zero padding of 1, in f64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    kernels = weight.astype(np.float64)
    maps = [correlate(padded, kernel[None], mode="valid")[:, 0] for kernel in kernels]
    return np.stack(maps, axis=1)


def pool(x: np.ndarray) -> np.ndarray:
    """The maximum of each 2 x 2 window."""
    n, c, h, w = x.shape
    largest: np.ndarray = x.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
    return largest


def reference(x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """The same network with NumPy and SciPy, in f64."""
    x = pool(np.maximum(convolve(x, weights["c0"]), 0))
    x = pool(np.maximum(convolve(x, weights["c1"]), 0))
    scores = x.reshape(-1, 64) @ weights["fc"].astype(np.float64)
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities: np.ndarray = e / e.sum(axis=1, keepdims=True)
    return probabilities


def main() -> None:
    """Prints the largest difference from the reference over all scans."""
    images = (load_digits().images / 16.0).astype(np.float32)[:, None]
    weights = make_weights()
    difference = np.abs(cnn(images, weights) - reference(images, weights)).max()
    print(f"cnn: largest difference from SciPy over {len(images)} scans: {difference:.1e}")


if __name__ == "__main__":
    main()
