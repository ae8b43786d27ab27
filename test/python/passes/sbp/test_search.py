"""No operator holds back a sound signature, unless its record says why."""

import pytest
from samples import SAMPLES

from oneflow.dialect.record import REGISTRY
from oneflow.testing.sample import T
from oneflow.testing.sbp_search import missing_signatures

#: What holds for the samples' values, and not for all.
COINCIDENCES = {
    "attributes at which the operator does nothing, or gives a constant": """
        argmax cat clip_by_scalar masked_fill momentum_update scalar_add scalar_div scalar_floordiv scalar_logical_or
        scalar_pow scalar_reverse_pow scalar_truncdiv sgd_update softmax var""",
    "numbers that are never 0, never negative, infinite, or never equal": """
        abs binary_cross_entropy_grad broadcast_logical_and broadcast_logical_or broadcast_not_equal cast floordiv
        isfinite kl_div_loss
        reduce_all reduce_any relu scalar_add_by_tensor scalar_div_by_tensor scalar_mul_by_tensor
        scalar_sub_by_tensor truncdiv ceil floor rint round""",
}
LISTED = {name for names in COINCIDENCES.values() for name in names.split()}


def is_searchable(sample):
    """Whether the operands have an axis of 3 or more, and elements, and are no pieces already."""
    groups = [x if isinstance(x, (list, tuple)) else [x] for x in sample.operands]
    shapes = [x.shape for group in groups for x in group if isinstance(x, T)]
    if sample.attrs.get("logical_size"):
        return False
    return bool(shapes) and max(max(s, default=0) for s in shapes) >= 3 and all(all(s) for s in shapes)


def is_open(name):
    """Whether the record says nothing of signatures that it holds back."""
    return not REGISTRY[name].withheld and "collective" not in REGISTRY[name].traits


SEARCHED = [s for s in SAMPLES if is_open(s.op) and s.op not in LISTED and is_searchable(s)]
WITHHELD = [r.name for r in REGISTRY if r.withheld]


@pytest.mark.parametrize("sample", SEARCHED, ids=str)
def test_nothing_is_missing(sample):
    """Every assignment of S, B and P that gives the whole is offered."""
    assert not missing_signatures(sample)


@pytest.mark.parametrize("name", WITHHELD)
def test_what_is_withheld_is_missing(name):
    """A record that says so holds back something for one of its samples."""
    assert any(missing_signatures(s) for s in SAMPLES if s.op == name and is_searchable(s))


def test_the_list_names_operators():
    """What is listed exists."""
    assert {r.name for r in REGISTRY} >= LISTED


def test_search_finds_what_is_held_back(monkeypatch):
    """Were no signature offered, the six of `matmul` would be found."""
    (sample, *_) = [s for s in SAMPLES if s.op == "matmul" and is_searchable(s) and not s.attrs]
    assert not missing_signatures(sample)
    monkeypatch.setattr(type(REGISTRY["matmul"]), "signatures", lambda self, op: [])
    found = set(map(str, missing_signatures(sample)))
    assert found >= {"S(0), B -> S(0)", "B, S(1) -> S(1)", "S(1), S(0) -> P", "P, B -> P", "B, P -> P", "B, B -> B"}
