"""Sizes that PyTorch computes from dynamic sizes, with integers and with rounded fractions."""

import math
from typing import Any

import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

from oneflow.frontend.importers.torch.sizes import FUNCTIONS_OF_RATIOS, Ratio  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

#: Functions of a size n with values of at least 0, in PyTorch's forms of symbolic expressions.
SIZES = {
    "ceil of a quotient": lambda n: math.ceil(n / 32),
    "ceil of a quotient of sizes": lambda n: math.ceil((n * 7 + 1) / (n + 2)),
    "floor of a quotient": lambda n: math.floor(n / 3),
    "trunc of a quotient": lambda n: math.trunc(n / 7),
    "round, ties to even": lambda n: round(n / 2),
    "a factor": lambda n: math.trunc(n * 0.5) + math.floor(n * 1.25) + math.ceil(1.5 * n - 0.75),
    "largest and smallest": lambda n: max(n // 2, 4) + min(n, 6),
    "remainders": lambda n: n % 5 + (3 * n) % (n - 1) + (n // 2) % 3,
    "powers": lambda n: n**2 + (n + 1) ** 2,
    "up to a multiple": lambda n: -(-n // 8) * 8,
}
#: Functions with numbers that floating-point arithmetic rounds.
ROUNDED = {
    "a factor": lambda n: math.trunc(n * 0.7) + round(n * 0.3) + math.ceil(n * 0.1),
    "sums": lambda n: math.floor(n * 0.7 + 0.3) + n - math.trunc(n / 3 - 0.1),
    "several operations": lambda n: math.trunc(n / 49 * 49) + math.trunc(math.floor(n * 0.7) * 1.1),
    "roots": lambda n: math.trunc(n**0.5) + math.trunc((n * 0.7) ** 2),
    "extremes": lambda n: math.trunc(min(n * 0.7, n - 1.5)),
}


class Rows(nn.Module):
    """A number of rows that is a function of the number of elements plus 2: sizes of 0 and 1 would be static."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x.new_ones(2 + self.size(x.shape[0]), 2) * x.sum()


def test_sizes_of_every_form():
    class All(nn.Module):
        def forward(self, x):
            return [Rows(size)(x) for size in SIZES.values()]

    program = flow.from_torch(All(), (torch.ones(9),), dynamic_shapes=({0: Dim("n", min=4, max=4096)},))
    for count in (9, 5, 6, 7, 11, 64, 65):
        found = program(torch.ones(count))
        for name, size, rows in zip(SIZES, SIZES.values(), found, strict=True):
            assert tuple(rows.shape) == (2 + size(count), 2), f"{name} of {count}"


def test_rounded_fractions_equal_rounded_floats():
    rounding: dict[str, Any] = {
        "FloorToInt": math.floor,
        "CeilToInt": math.ceil,
        "TruncToInt": math.trunc,
        "RoundToInt": round,
    }
    for name, function in rounding.items():
        for above in range(-9, 10):
            for below in (1, 2, 3, 4):
                assert FUNCTIONS_OF_RATIOS[name](Ratio(above, below)) == function(above / below), (name, above, below)


def test_sizes_of_functions_that_libraries_round_differently_are_refused():
    program = torch.compile(Rows(lambda n: math.trunc((n * 0.7) ** 1.5)), backend="oneflow", dynamic=True,
                            options={"fallback": False})  # fmt: skip
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="a power other than 2"):
        program(torch.ones(9))


def test_sizes_of_rounded_numbers():
    def all_rows(x):
        return [Rows(size)(x) for size in ROUNDED.values()]

    compiled = torch.compile(all_rows, backend="oneflow", dynamic=True, options={"fallback": False})
    for count in (9, 10, 20, 29, 30, 49, 90):
        for (name, size), rows in zip(ROUNDED.items(), compiled(torch.ones(count)), strict=True):
            assert tuple(rows.shape) == (2 + size(count), 2), f"{name} of {count}"


def test_rounded_sizes_are_operands():
    def scaled(x):
        return x * math.trunc(x.shape[0] * 0.7) + x.narrow(0, 0, 1) * round(x.shape[0] * 0.3)

    compiled = torch.compile(scaled, backend="oneflow", dynamic=True, options={"fallback": False})
    for count in (10, 20, 30):
        x = torch.linspace(-1, 1, count)
        torch.testing.assert_close(compiled(x), scaled(x))


def test_numbers_from_sizes_are_operands():
    def scaled(x):
        return x / math.sqrt(x.shape[0]) + x.shape[0] / 3 + x.shape[0] * 0.7 - 2.5 ** (x.shape[0] / 8)

    compiled = torch.compile(scaled, backend="oneflow", dynamic=True, options={"fallback": False})
    for count in (9, 5):
        x = torch.linspace(-1, 1, count)
        torch.testing.assert_close(compiled(x), scaled(x))


def test_numbers_as_arguments():
    compiled = torch.compile(lambda x, c: (x * c).sin(), backend="oneflow", dynamic=True, options={"fallback": False})
    x = torch.linspace(-1, 1, 5, requires_grad=True)
    for number in (0.5, 1.75, -3.25):
        result = compiled(x, number)
        torch.testing.assert_close(result, (x * number).sin())
        torch.testing.assert_close(torch.autograd.grad(result.sum(), x)[0], number * (x * number).cos())


def resized_images(x, y):
    """Rows and images in the sizes of another tensor, in every mode."""
    rows, width = x[:, :, 0], y.shape[0]
    modes = ("nearest", "nearest-exact", "linear", "area")
    resized = [nn.functional.interpolate(rows, size=width, mode=mode) for mode in modes]
    aligned = nn.functional.interpolate(y[None, None], size=x.shape[2:], mode="bicubic", align_corners=True)
    rounded = nn.functional.interpolate(rows, scale_factor=1.7, mode="linear", recompute_scale_factor=True)
    return [*resized, aligned, rounded, nn.functional.adaptive_avg_pool1d(rows, width)]


def operators_of_sizes(x, y):
    """Operators that have sizes as arguments."""
    rows, columns = y.shape
    updated = y.clone()
    updated[:, columns - 1] = 2.0
    values, positions = torch.topk(y, columns // 2, -1)
    return [
        torch.arange(columns, -rows, -1.0) + torch.arange(0.5, rows + columns, 1)[: rows + columns],
        torch.arange(0.5, columns, 0.75), torch.linspace(0.5, columns - 0.5, rows),
        torch.fft.fft(torch.fft.ifft(y, dim=-1, norm="ortho"), dim=-2, norm="forward").imag,
        nn.functional.unfold(x, (3, 2), padding=1, stride=2, dilation=(1, 2)),
        nn.functional.pad(x, (0, x.shape[-1] // 2, x.shape[-2] - 3, 1), mode="reflect"),
        nn.functional.pad(x, (1, columns, 0, rows), mode="replicate"),
        updated, values, positions,
    ]  # fmt: skip


@pytest.mark.parametrize("function", [resized_images, operators_of_sizes])
def test_operators_take_dynamic_sizes(function):
    compiled = torch.compile(function, backend="oneflow", dynamic=True, options={"fallback": False})
    for images, sizes in (((2, 3, 5, 7), (9, 4)), ((3, 3, 6, 4), (3, 8))):
        x, y = torch.randn(images, requires_grad=True), torch.randn(sizes)
        wanted, found = function(x, y), compiled(x, y)
        for a, b in zip(wanted, found, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        losses = [sum(r.square().sum() for r in results if r.requires_grad) for results in (wanted, found)]
        torch.testing.assert_close(*(torch.autograd.grad(loss, x)[0] for loss in losses), rtol=1e-4, atol=1e-4)


def test_tensors_of_numbers_that_are_computed_from_sizes():
    def numbers(x):
        count = x.shape[0]
        return torch.full((count, 2), count * 0.3), torch.tensor(count / 3), torch.scalar_tensor(count * 0.7)

    compiled = torch.compile(numbers, backend="oneflow", dynamic=True, options={"fallback": False})
    for count in (4, 7):
        for found, wanted in zip(compiled(torch.ones(count)), numbers(torch.ones(count)), strict=True):
            torch.testing.assert_close(found, wanted)
