"""No operator holds back a sound signature, but for those listed here with the reason."""

import pytest
from samples import SAMPLES

from oneflow.dialect.record import REGISTRY
from oneflow.testing.sample import T
from oneflow.testing.sbp_search import missing_signatures

#: Operators that could offer more.
OPEN = {
    "reads only the shape of an operand, which could be a partial sum as well": """
        adaptive_avg_pool1d_grad adaptive_avg_pool2d_grad adaptive_avg_pool3d_grad avg_pool_1d_grad avg_pool_2d_grad
        avg_pool_3d_grad broadcast_like conv_data_grad dim_scatter_add_like embedding_grad max_pool_1d_grad
        max_pool_2d_grad max_pool_3d_grad narrow_grad nll_grad random_mask_like bernoulli reduce_sum_like reshape_like
        scatter_nd_like split_like unsorted_segment_sum_like cumprod_grad softmax""",
    "is linear in an operand or several that are never partial sums in programs for many devices": """
        binary_cross_entropy binary_cross_entropy_with_logits broadcast_div_grad dim_scatter_add group_norm
        group_norm_grad group_norm_param_grad kl_div_loss layer_norm layer_norm_grad layer_norm_param_grad
        masked_fill nll normalization rms_norm rms_norm_grad rms_norm_param_grad
        sparse_softmax_cross_entropy_grad square_grad xdivy xdivy_x_grad xdivy_y_grad xlogy xlogy_x_grad xlogy_y_grad
        reduce_nansum sgd_update momentum_update""",
    "holds for some values of attributes or of small integers only": """
        abs argmax broadcast_logical_and broadcast_logical_or broadcast_not_equal cast cat ceil clip_by_scalar
        clip_by_scalar_min clip_by_scalar_max expand floor floordiv isfinite reduce_all reduce_any relu rint round
        scalar_add scalar_add_by_tensor scalar_div scalar_div_by_tensor scalar_floordiv scalar_logical_or
        scalar_mul_by_tensor scalar_pow scalar_reverse_pow scalar_sub_by_tensor scalar_truncdiv tril triu trunc
        truncdiv var""",
}
LISTED = {name for names in OPEN.values() for name in names.split()}


def is_searchable(sample):
    """Whether the operands have an axis of 3 or more, and elements."""
    groups = [x if isinstance(x, (list, tuple)) else [x] for x in sample.operands]
    shapes = [x.shape for group in groups for x in group if isinstance(x, T)]
    return bool(shapes) and max(max(s, default=0) for s in shapes) >= 3 and all(all(s) for s in shapes)


SEARCHED = [
    s for s in SAMPLES if s.op not in LISTED and "collective" not in REGISTRY[s.op].traits and is_searchable(s)
]


@pytest.mark.parametrize("sample", SEARCHED, ids=str)
def test_nothing_is_missing(sample):
    """Every assignment of S, B and P that gives the whole is offered."""
    assert not missing_signatures(sample)


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
