"""SBP rules as factors: addends, biases and linear operands."""

from types import SimpleNamespace

from oneflow.dialect.sbp import Factors, common_axes
from oneflow.dialect.tensor_desc import TensorDesc, parse_desc

SUMS = Factors("r c, r c -> r c")


def texts(factors: Factors) -> list[str]:
    return [str(s) for s in factors.signatures()]


def desc(text: str) -> TensorDesc:
    found = parse_desc(text)
    assert found is not None
    return found


def test_a_bias_is_split_with_the_result_and_is_an_addend_of_partial_sums():
    assert texts(Factors("m k, n k -> m n", "each").plus("n")) == [
        "S(0), B, B -> S(0)",
        "S(1), S(1), P -> P",
        "B, S(0), S(0) -> S(1)",
        "P, B, P -> P",
        "B, P, P -> P",
    ]


def test_addends_follow_the_operands_in_order():
    assert texts(Factors("m k, k n -> m n").plus("n").plus("m n"))[2] == "B, S(1), S(0), S(1) -> S(1)"


def test_factors_of_operands_and_results_contain_addends():
    assert Factors("m k, n k -> m n").plus("n").sides() == ([["m", "k"], ["n", "k"], ["n"]], [["m", "n"]])


def test_linear_operands_are_partial_sums_jointly():
    op = SimpleNamespace(inputs={"dy": 1, "x": 2})
    assert texts(SUMS.linear_in(op, "dy").linear_in(op, "dy", "x"))[2:] == ["P, B -> P", "P, P -> P"]


def test_missing_operands_are_skipped_and_repeated_ones_counted():
    op = SimpleNamespace(inputs={"x": (1, 2), "weight": None})
    assert SUMS.linear_in(op, "weight") == SUMS
    assert texts(SUMS.linear_in(op, "x"))[2:] == ["P, P -> P"]


def test_results_that_are_not_split():
    op = SimpleNamespace(inputs={"x": 1})
    assert texts(Factors("_ -> _, _").linear_in(op, "x", results=(1,))) == ["P -> B, P"]


def test_summing_results_are_sums_over_the_factors_that_they_lack():
    """Without `summing` a result that lacks a factor of another result does not depend on the factor."""
    assert texts(Factors("r c, r c, c -> r c, c"))[0] == "S(0), S(0), B -> S(0), B"
    gradient = Factors("r c, r c, c -> r c, c").summing(1)
    assert texts(gradient) == ["S(0), S(0), B -> S(0), P", "S(1), S(1), S(0) -> S(1), S(0)"]
    picked = Factors("r c, r -> r, r").summing(0)
    assert texts(picked) == ["S(0), S(0) -> S(0), S(0)", "S(1), B -> P, B"]
    op = SimpleNamespace(inputs={"dy": 1, "x": 2, "weight": 3})
    assert texts(gradient.linear_in(op, "dy", results=(0, 1)))[2:] == ["P, B, B -> P, P"]


def test_dimensions_of_size_one_are_not_split():
    found = Factors("m k, n k -> m n").plus("n").signatures([(1, 4), (2, 4), (2,)])
    assert [str(s) for s in found] == ["S(1), S(1), P -> P", "B, S(0), S(0) -> S(1)"]


def test_common_axes_are_those_of_all_tensors():
    assert common_axes([desc("tensor<4x1x2xf32>"), desc("tensor<3x5xf32>")]) == ["d0 _ _", "d0 _"]
