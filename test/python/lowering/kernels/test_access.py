"""Quasi-affine positions: the Python expression of a position has the value of the affine expression."""

import itertools

import pytest

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.access import QuasiAffine, affine_text
from oneflow.lowering.kernels.nodes import Unsupported

TEXTS = (
    "d0 floordiv 3", "(d0 * 2 + d1) mod 5", "d0 - d1 floordiv 2", "d0 - (d1 + 7) mod 3", "(-d0) floordiv 2 - 1",
    "-(d0 mod 5) + d1", "d0 - d1 * 3 - 5", "((d0 + 1) floordiv 2) * 4 + (d1 - d0) mod 3", "d0 - (d1 + 3) * 2",
    "((d0 - 9) mod 4) mod 3 + 5", "d0 * 3 - ((d1 floordiv 2) * 4) floordiv 3", "-d0 - d1",
)  # fmt: skip


@pytest.fixture
def read():
    """Reads an affine expression of two dimensions and a symbol."""
    with ir.Context():
        yield lambda text: ir.Attribute.parse(f"affine_map<(d0, d1)[s0] -> ({text})>").value.results[0]


def value(expression, *numbers):
    """The value of an expression for the numbers of its dimensions and of its symbol, by MLIR's folding."""
    constants = ir.AffineMap.get(0, 0, [ir.AffineExpr.get_constant(n) for n in numbers])
    (result,) = ir.AffineMap.get(0, 0, [expression.compose(constants)]).results
    return result.value


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_has_the_value_of_the_expression(text, read):
    expression = read(text)
    written = affine_text(expression, {0: "a", 1: "b"})
    for a, b in itertools.product((0, 1, 4, 11), (0, 2, 9)):
        assert eval(written, {"a": a, "b": b}) == value(expression, a, b), written


def test_names_of_dimensions_and_symbols(read):
    """A size without a name is 0."""
    assert affine_text(read("d0 floordiv 2 + s0"), {0: "i4"}, {0: "n"}) == "i4 // 2 + n"
    assert affine_text(read("d0 floordiv 2 + s0"), {}) == "0 // 2 + 0"
    with pytest.raises(Unsupported, match="d0 ceildiv 2"):
        affine_text(read("d0 ceildiv 2"), {0: "a"})


def test_positions_with_replaced_dimensions(read):
    """The two dimensions are replaced simultaneously; equal positions are equal values."""
    position = QuasiAffine(((0, 1), (1, 1)), expression=read("(d0 + d1 * 3) floordiv 2"))
    swapped = position.replace_dims([1, 0])
    assert swapped.terms == ((1, 1), (0, 1)) and swapped.text({0: "a", 1: "b"}) == "(b + a * 3) // 2"
    assert (
        swapped.replace_dims([1, 0]) == position
        and position.replace_dims([4, 2]).text({4: "x", 2: "y"}) == "(x + y * 3) // 2"
    )
