"""Operators offer all sound signatures, unless the record states a reason."""

import math
from typing import Any

import numpy as np
import pytest
from each_case import by_operator
from samples import SAMPLES
from samples.optimizer import SKIP

from oneflow.dialect.dtypes import float32, int32, int64
from oneflow.dialect.record import REGISTRY
from oneflow.testing.checks import described
from oneflow.testing.sample import Sample, T, t, v
from oneflow.testing.sbp_search import calls_of, is_decisive, missing_signatures, signature_holds

#: Operators of which some samples have signatures by coincidence, which others refute.
COINCIDENCES = {
    "attributes at which the operator does nothing, or gives a constant": """
        adadelta_update adam_update argmax assign_if assign_if_not clip_by_scalar ftrl_update lamb_update lars_update
        masked_fill momentum_update moving_average_min_max_observer rmsprop_update scalar_add scalar_div
        scalar_floordiv scalar_pow scalar_reverse_pow scalar_truncdiv sgd_update softmax var""",
    "numbers that are never 0, never negative, infinite, or never equal": """
        abs cast floordiv hardtanh_grad kl_div_loss relu truncdiv""",
}
LISTED = {name for names in COINCIDENCES.values() for name in names.split()}

#: The operands of each of several parameters, and numbers that some updates do not read.
EACH = """model model_diff model_copy momentum_buf m v learning_rate scale_by_tensor skip_if"""
#: Operands whose valid layouts the records leave out as unoffered.
UNOFFERED = {
    "scaled_dot_product_flash_attention_grad": "rng_state",
    "scaled_mm": "scale_a scale_b bias",
    "batch_norm_gather_stats_with_counts": "input",
    "bernoulli": "in",
    "cond": "xs",
    "distributed_partial_fc_sample_disable_boxing": "sampled_weight_diff sampled_label",
    "cublas_fused_mlp_grad": "x weights cublas_aux hidden",
    "fused_dot_feature_interaction_grad": "features sparse_feature",
    "embedding_lookup": "num_unique_ids unique_ids table_ids context",
    "embedding_prefetch": "num_unique_ids unique_ids table_ids",
    "embedding_put": "num_unique_ids unique_ids unique_embeddings",
    "one_embedding_fused_lookup": "shadow ids table_ids",
    "one_embedding_fused_sgd_update_put": """num_unique_ids unique_ids unique_embeddings embedding_grad
        learning_rate""",
    "fused_attention_concat_past_key_value": "key value past_key past_value",
    "fused_codegeex_qkv_reshape": "query key value",
    "grid_sample_grad": "input",
    "grouped_matmul_bias": "xs weights biases",
    "hierarchical_parallel_cast_like": "in like",
    "id_shuffle_copy_out": """num_unique_matrix inverse_unique_partition_indices cur_rank_num_unique
        cur_rank_unique_ids cur_rank_unique_table_ids cur_rank_inverse_indices""",
    "multi_count_not_finite": "x",
    "multi_reduce_sum_pow_abs": "x",
    "multi_square_sum": "x",
    "multi_tensor_adam_update": EACH,
    "multi_tensor_adam_update_with_cast": EACH,
    "multi_tensor_momentum_update": EACH,
    "multi_tensor_momentum_update_with_cast": EACH,
    "multi_tensor_sgd_update": EACH,
    "multi_tensor_sgd_update_with_cast": EACH,
    "multi_tensor_yolov5_weight_update": "model model_update",
    "nll_grad": "input",
    "reduce_nansum": "input_tensor",
    "scan": "xs",
    "softmax_cross_entropy": "label",
    "stft": "input",
    "tuple_identity": "in",
    "while_loop": "xs",
    "xdivy": "x",
    "xdivy_x_grad": "x",
    "xdivy_y_grad": "x",
    "xlogy": "x",
    "xlogy_x_grad": "x",
    "xlogy_y_grad": "x",
    **{record.name: "in" for record in REGISTRY if "boxing" in record.traits},
}
#: Operators that no sample can tell anything of.
SILENT = {
    "results that are 0 for all operands": """
        empty floordiv_x_grad floordiv_y_grad trunc_grad truncdiv_x_grad truncdiv_y_grad zero_like""",
    "as of the operators without cuDNN's name": """
        cudnn_fused_normalization_add_relu cudnn_fused_normalization_add_relu_grad""",
    "a count that the search always divides into 0 and the whole": "embedding_gradient_shuffle",
    "no tensor with an axis to split": "dynamic_loss_scale_schedule tensor_constant",
    "too many operands to try all layouts of axes of 3": """
        deform_conv2d_input_grad deform_conv2d_param_grad fused_get_boundding_boxes_coord
        fused_get_boundding_boxes_coord_grad fused_get_center_dist fused_get_center_dist_grad
        fused_get_convex_diagonal_squared fused_get_convex_diagonal_squared_grad fused_get_intersection_area
        fused_get_intersection_area_grad""",
    "files of images and records, which have more bytes than are tried": """
        image_decode ofrecord_bytes_decoder ofrecord_image_decoder ofrecord_image_decoder_random_crop
        ofrecord_raw_decoder""",
}


def _going_on(operand):
    """An operand that does not say that an update is left out."""
    return v([0], int64) if operand is SKIP else operand


SMALL: dict[str, Any] = {"low": -1, "high": 2}
#: Rows all of whose elements, some, and none are 0.
MIXED = v([[0, 0, 0], [0, 1, -1], [2, 1, 3]])
RATES = v(0.2, float32), v(0.1, float32)
SIDES, EPS = [t(3, low=0.5)] * 4, {"eps": 0.125}
#: Where the elements of three images of 1 x 4 were, by the sizes of the images.
PLACES = {n: v(np.reshape([0, 2, 1, 3, 0, 3], (3, *[1] * n, 2)), int64) for n in (2, 3)}
WINDOWS = {n: {"kernel_size": [*[1] * (n - 1), 2], "stride": [*[1] * (n - 1), 2], "padding": [0] * n} for n in PLACES}
#: Samples that refute coincidences of the samples in the table.
MORE = [
    *(Sample(name, [MIXED], {"axis": [1]}, dtypes=(int32,)) for name in ("reduce_any", "reduce_all")),
    Sample("scalar_logical_or", [t(3, 4, **SMALL)], {"has_int_operand": True, "int_operand": 0}, dtypes=(int32,)),
    Sample("adam_update", [t(3, 4), t(3, 4), *[None] * 3, v([0], int64), *RATES, t(3, 4), t(3, 4, low=0.1)],
           {"learning_rate_val": 0.1, "do_bias_correction": True}),
    Sample("sgd_update", [t(3, 4)] * 2, {"learning_rate_val": 0.1, "l1": 0.5}),
    Sample("momentum_update", [t(3, 4)] * 3, {"learning_rate_val": 0.1, "l1": 0.5}),
    Sample("sqrt_square_sum", [t(3, 4)]),
    Sample("stft", [t(6, 3, 4)]),
    Sample("tuple_identity", [[t(3, 2), t(3)]]),
    Sample("in_top_k", [v([0, 2, 1], int32), v([[3, 1, 2], [3, 2, 1], [1, 3, 2]])], {"k": 1}),
    Sample("fused_get_iou", [*SIDES, t(3, low=0.1, high=0.4)], EPS),
    Sample("fused_get_iou_grad", [t(3), *SIDES, t(3, low=0.1, high=0.4)], EPS),
    Sample("fused_get_ciou_diagonal_angle", SIDES, EPS),
    Sample("fused_get_ciou_result", [t(3, low=0.5), t(3), t(3), t(3, low=0.5)], EPS),
    Sample("fused_get_ciou_diagonal_angle_grad", [*SIDES, t(3)], EPS),
    Sample("fused_scale_mask_bias_softmax", [t(3, 3), t(1, 3), t(3, 1)], {"scale": 0.5}),
    *(Sample(f"max_unpool_{n}d", [t(3, *[1] * n, 2), PLACES[n]], {"output_size": []} | WINDOWS[n]) for n in PLACES),
    *(Sample(f"max_unpool_{n}d_grad", [t(3, *[1] * n, 2), PLACES[n], t(3, *[1] * n, 4)]) for n in PLACES),
    Sample("grid_sample_grad", [t(3, 1, 1, 1), t(3, 1, 2, 2), t(3, 1, 1, 2, low=-0.5, high=0.5)],
           {"interpolation_mode": "bilinear", "padding_mode": "zeros", "align_corners": False}),
    *(Sample(s.op, list(map(_going_on, s.operands)), s.attrs, s.dtypes) for s in SAMPLES if SKIP in s.operands),
]  # fmt: skip


def operands_of(sample):
    groups = [x if isinstance(x, (list, tuple)) else [x] for x in sample.operands]
    return [x for group in groups for x in group if isinstance(x, T)]


def is_searchable(sample):
    """Whether operands are small, with an axis of 3 or more, and are not shards already."""
    shapes = [x.shape for x in operands_of(sample)]
    if sample.attrs.get("logical_size") or max(map(math.prod, shapes), default=0) > 160:
        return False
    return not shapes or (max(max(s, default=0) for s in shapes) >= 3 and all(all(s) for s in shapes))


def is_open(name):
    """Whether the record has no unoffered signatures."""
    return not REGISTRY[name].unoffered and "collective" not in REGISTRY[name].traits


SEARCHABLE = [s for s in (*SAMPLES, *MORE) if is_searchable(s)]
SEARCHED = by_operator(s for s in SEARCHABLE if is_open(s.op) and s.op not in LISTED)


def of(name):
    return [s for s in SEARCHABLE if s.op == name]


@pytest.mark.parametrize("name", SEARCHED)
def test_all_sound_signatures_are_offered(name):
    """Every assignment of S, B and P that gives the whole is offered."""
    assert not {str(sample): missing for sample in SEARCHED[name] if (missing := missing_signatures(sample))}


@pytest.mark.parametrize("name", sorted(LISTED))
def test_signatures_that_hold_by_coincidence_are_refuted(name):
    """Another sample refutes an unoffered signature that holds for one sample."""
    missing = dict.fromkeys(s for sample in of(name) for s in missing_signatures(sample))
    assert missing, f"{name} has no coincidences"
    assert not [str(s) for s in missing if not any(signature_holds(other, s) is False for other in of(name))]


@pytest.mark.parametrize("name", [r.name for r in REGISTRY if r.unoffered])
def test_unoffered_signatures_are_missing(name):
    """A record with unoffered signatures withholds one for a sample, and only for the listed operands."""
    free = UNOFFERED[name].split()
    found = [(s, m) for s in of(name) for m in missing_signatures(s)]
    assert found
    assert not [(str(s), str(m)) for s, m in found if not _differs_at(s, m, free)]


def _differs_at(sample, signature, names):
    """Whether a signature equals an offered signature except for the operands `names` and the results."""
    call = described(calls_of(sample, REGISTRY)[0])
    flat = [n for n, x in call.inputs.items() for _ in (x if isinstance(x, tuple) else () if x is None else (x,))]

    def kept(inputs):
        return [x for x, n in zip(inputs, flat, strict=True) if n not in names]

    return any(kept(s.inputs) == kept(signature.inputs) for s in call.record.signatures(call))


def test_every_operator_is_searched():
    """Every operator has a small sample that decides signatures, or no sample can."""
    silent = {name for names in SILENT.values() for name in names.split()}
    told = {s.op for s in SEARCHABLE if is_decisive(s)}
    names = {r.name for r in REGISTRY if "collective" not in r.traits} & {s.op for s in SAMPLES}
    assert names - told == silent


def test_the_lists_name_operators():
    """Listed operators exist, and operators listed as unoffered have unoffered signatures."""
    assert {r.name for r in REGISTRY} >= LISTED
    assert set(UNOFFERED) == {r.name for r in REGISTRY if r.unoffered}


def test_the_search_finds_signatures_that_are_not_offered(monkeypatch):
    """Were no signature offered, the six of `matmul` would be found."""
    matmuls = [s for s in SAMPLES if s.op == "matmul" and is_searchable(s) and not s.attrs]
    sample = next(s for s in matmuls if any(d.is_float for d in s.dtypes))
    assert not missing_signatures(sample)
    monkeypatch.setattr(type(REGISTRY["matmul"]), "signatures", lambda self, op: [])
    found = set(map(str, missing_signatures(sample)))
    assert found >= {"S(0), B -> S(0)", "B, S(1) -> S(1)", "S(1), S(0) -> P", "P, B -> P", "B, P -> P", "B, B -> B"}
