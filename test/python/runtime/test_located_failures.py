"""Checks that fail at run time name the user's file and line, on the first run and from the cache."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.nn import functional as F  # noqa: N812
from oneflow.runtime.executable import OutOfBoundsError, SizeError
from oneflow.tools import oneflow_run

KERNEL = np.ones((2, 3, 3, 3), np.float32)
IMAGES = flow.TensorSpec((None, 3, None, None))
SIGNAL = flow.TensorSpec((None, 3, None))
ROWS = flow.TensorSpec((None, 3))


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def at_line(function: Callable[..., Any], below: int = 1) -> str:
    return f"{re.escape(__file__)}:{inspect.getsourcelines(function)[1] + below}:"


def test_a_position_of_a_compiled_function() -> None:
    """The error names the line of the call, also with several calls on the line and for a cached object."""

    def pick(x: Any, i: Any, j: Any) -> Any:
        return flow.gather(x, 0, i), flow.gather(x, 0, j)

    good, bad = np.array([1]), np.array([7])
    for _ in range(2):
        program = flow.compile(pick)
        for arguments in ((good, bad), (bad, good)):
            message = at_line(pick) + r"\d+\): expected an index in \[0, 3\), got 7"
            with pytest.raises(OutOfBoundsError, match=message):
                program(np.ones(3, np.float32), *arguments)


def test_equal_programs_share_an_object_but_not_the_location() -> None:
    """The cache key does not contain locations."""

    def first(x: Any, i: Any) -> Any:
        return flow.gather(x * 7.25, 0, i)

    def second(x: Any, i: Any) -> Any:

        return flow.gather(x * 7.25, 0, i)

    second.__name__ = "first"
    for function, below in ((first, 1), (second, 2)):
        with pytest.raises(OutOfBoundsError, match=at_line(function, below)):
            flow.compile(function)(np.ones(3, np.float32), np.array([7]))


@pytest.mark.parametrize(
    ("function", "spec", "array", "least"),
    [
        (lambda x: F.conv2d(x, KERNEL), IMAGES, ones(1, 3, 2, 5), 3),
        (lambda x: F.conv2d(x, KERNEL, stride=2), IMAGES, ones(1, 3, 5, 2), 3),
        (lambda x: F.conv2d(x, KERNEL, padding=1, dilation=2), IMAGES, ones(1, 3, 2, 4), 3),
        (lambda x: F.conv1d(x, KERNEL[:, :, 0]), SIGNAL, ones(1, 3, 2), 3),
        (lambda x: F.conv3d(x, KERNEL[..., None]), flow.TensorSpec((1, 3, None, 4, None)), ones(1, 3, 1, 4, 1), 3),
        (lambda x: F.max_pool2d(x, 3, 2), IMAGES, ones(1, 3, 2, 5), 3),
        (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), IMAGES, ones(1, 3, 1, 5), 2),
        (lambda x: F.avg_pool2d(x, 3, 2), IMAGES, ones(1, 3, 5, 2), 3),
        (lambda x: F.avg_pool2d(x, 3, 2, padding=1), IMAGES, ones(1, 3, 0, 5), 1),
    ],
)  # fmt: skip
def test_images_smaller_than_a_window(function: Callable[..., Any], spec: Any, array: np.ndarray, least: int) -> None:
    """Runs refuse unknown sizes that type rules refuse when known; the least size is computed."""
    program = flow.compile(function, specs=[spec])
    text = rf"of the image, which is smaller than a window \({re.escape(__file__)}:\d+:\d+\): expected {least}, got"
    with pytest.raises(SizeError, match=text):
        program(array)
    grown = ones(*(max(size, least) if i > 1 else size for i, size in enumerate(array.shape)))
    assert program(grown).size
    static = flow.TensorSpec(tuple(array.shape))
    with pytest.raises(flow.TraceError, match=f"expected (spatial sizes of at least {least}|images with elements)"):
        flow.trace(function, static)


def test_a_dynamic_dimension_is_not_broadcast() -> None:
    """The message states the missing broadcast and the fix; with the static size 1 the operand broadcasts."""

    def add(x: Any, y: Any) -> Any:
        return x + y

    with pytest.raises(
        SizeError, match=at_line(add) + r".*expected 1, got 4; dimensions .* are not broadcast: .*state"
    ):
        flow.compile(add, specs=[ROWS, ROWS])(ones(1, 3), ones(4, 3))
    with pytest.raises(SizeError, match=r"expected 2, got 4$"):
        flow.compile(add, specs=[ROWS, ROWS])(ones(2, 3), ones(4, 3))
    summed = flow.compile(add, specs=[flow.TensorSpec((1, 3)), ROWS])(ones(1, 3), ones(4, 3))
    np.testing.assert_array_equal(summed, 2 * ones(4, 3))


def test_errors_of_eager_mode_have_no_location() -> None:
    """The traceback contains the line of the call."""
    with pytest.raises(OutOfBoundsError, match=r"^oneflow.dim_gather: index: expected"):
        flow.gather(flow.tensor(ones(3)), 0, flow.tensor(np.array([5]))).numpy()


def test_a_program_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """File, line and column of the operation."""
    file = tmp_path / "p.mlir"
    file.write_text("""// A comment before it.
func.func @main(%x: tensor<?x3xf32> {oneflow.name = "x"}) -> tensor<4x3xf32> {
  %0 = "oneflow.narrow"(%x) {dim = 0 : si64, start = 2 : si64, length = 4 : si64}
      : (tensor<?x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
""")
    np.save(tmp_path / "x.npy", ones(5, 3))
    assert oneflow_run.main([str(file), f"--input=x={tmp_path / 'x.npy'}"]) == 1
    assert f"({file}:3:8)" in capsys.readouterr().err


def test_sizes_equated_by_types_are_checked() -> None:
    """The check holds without a loop that assumes the size: a target for each row."""

    def loss(x: Any, target: Any) -> Any:
        return F.nll_loss(x, target)

    program = flow.compile(loss, flow.TensorSpec((None, 5)), flow.TensorSpec((None,), flow.int64))
    assert program(-ones(3, 5), np.zeros(3, np.int64)) == 1
    text = r"dimension 0 of target, which is dimension 0 of input \(.*\): expected 3, got 4"
    with pytest.raises(SizeError, match=at_line(loss) + r"|" + text):
        program(ones(3, 5), np.zeros(4, np.int64))


def test_shapes_of_equal_counts_are_accepted() -> None:
    """Shapes of as many elements, rows of none."""
    either = flow.TensorSpec((None, None))
    shaped = flow.compile(lambda x, y: x.reshape_as(y), either, either)
    assert shaped(ones(2, 6), ones(3, 4)).shape == (3, 4)
    assert shaped(ones(6, 2), ones(12, 1)).shape == (12, 1)
    assert flow.compile(lambda x: flow.softmax(x, -1), either)(ones(2, 0)).shape == (2, 0)
    assert flow.compile(lambda x, y: x @ y, either, either)(ones(2, 6), ones(6, 4)).shape == (2, 4)
