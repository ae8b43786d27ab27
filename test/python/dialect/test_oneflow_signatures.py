"""A program of OneFlow has the same meaning here, or is refused: signatures against OneFlow's signatures.

`oneflow_signatures.txt` has the signatures of all of OneFlow's operators, `read_oneflow.py` writes it. Differences
are in `DEVIATIONS`, by reason: `+x` is an operand, result or attribute that OneFlow does not have, `-x` an element
that only OneFlow has, `~x` an element that is optional, repeated or defaulted otherwise.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from read_oneflow import signatures

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect.oneflow import BOOKKEEPING
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.signature import ArgDef, AttrDef, Signature, parse_signature
from oneflow.dialect.unsupported_operators import reason_for, refused

TABLE = Path(__file__).parent / "oneflow_signatures.txt"
THEIRS = {s.name: s for s in map(parse_signature, TABLE.read_text(encoding="utf-8").splitlines()[1:])}
SHARED = sorted(name for record in REGISTRY if (name := record.oneflow_name or record.name) in THEIRS)
#: Kinds of attribute that also accept the form that programs write for another kind.
READ_AS = {"nd_sbp": "list_string", "shape": "list_int64"}

DEVIATIONS = {
    "Tensors are values: what OneFlow writes into an operand is a result, and a program without it is refused.": """
        adadelta_update: +model_out +square_avgs_out +acc_deltas_out
        assign: +ref_out
        assign_if: +ref_out
        assign_if_not: +ref_out
        adagrad_update: +model_out +sum_out
        adam_update: +model_out +m_out +v_out +max_v_out +model_copy_out
        batch_norm_gather_stats_with_counts: +running_mean_out +running_var_out
        cudnn_fused_normalization_add_relu: +moving_mean_out +moving_variance_out
        dynamic_loss_scale_schedule: +loss_scale_out +good_step_counter_out
        fused_clip_grad: +model_diff_out
        ftrl_update: +model_out +accumulate_out +z_out
        indexed_slices_adam_update: +model_out +m_out +v_out +max_v_out
        indexed_slices_momentum_update: +model_out +momentum_out
        indexed_slices_sgd_update: +model_out
        lamb_update: +model_out +m_out +v_out
        lars_update: +model_out +momentum_out
        megatron_gpt_mmap_data_loader: +iteration_out
        momentum_update: +model_out +momentum_out
        moving_average_min_max_observer: +moving_max_out +moving_min_out
        multi_tensor_adam_update: +model_out +m_out +v_out
        multi_tensor_adam_update_with_cast: +model_out +m_out +v_out +model_copy_out
        multi_tensor_momentum_update: +model_out +momentum_buf_out
        multi_tensor_momentum_update_with_cast: +model_out +momentum_buf_out +model_copy_out
        multi_tensor_sgd_update: +model_out
        multi_tensor_sgd_update_with_cast: +model_out +model_copy_out
        multi_tensor_yolov5_weight_update: +model_out
        normalization: +moving_mean_out +moving_variance_out
        normalization_add_relu: +moving_mean_out +moving_variance_out
        rmsprop_update: +model_out +mean_square_out +mean_gradient_out
        sgd_update: +model_out +model_copy_out
    """,
    "Every optimizer trains parameters that have a copy in another element type.": """
        adadelta_update: +model_copy +model_copy_out
        adagrad_update: +model_copy +model_copy_out
        ftrl_update: +model_copy +model_copy_out
        lamb_update: +model_copy +model_copy_out
        lars_update: +model_copy +model_copy_out
        momentum_update: +model_copy +model_copy_out
        rmsprop_update: +model_copy +model_copy_out
    """,
    "What an operator writes into a table of the host has a number as its result, and no result is left out.": """
        embedding_lookup: ~embeddings
        embedding_put: +count
        one_embedding_fused_sgd_update_put: +count
    """,
    "Programs that have no complex numbers leave complex_value out.": "constant: ~complex_value",
    "The program of one rank says where its shard lies in the whole tensor.": """
        bernoulli: +logical_shape +logical_begin
        dim_gather: +logical_size +logical_begin
        dim_scatter_add: +logical_size +logical_begin
        dim_scatter_add_like: +logical_size +logical_begin
        dropout: +logical_shape +logical_begin
        embedding: +logical_size +logical_begin
        embedding_grad: +logical_size +logical_begin
        gather: +logical_size +logical_begin
        image_random_crop: +logical_begin
        nll: +logical_size +logical_begin
        nll_grad: +logical_size +logical_begin
        COCOReader: +logical_size +logical_begin
        megatron_gpt_mmap_data_loader: +logical_size +logical_begin
        raw_reader: +logical_size +logical_begin
        ofrecord_image_classification_reader: +logical_size +logical_begin
        ofrecord_image_decoder_random_crop: +logical_begin
        OFRecordReader: +logical_size +logical_begin
        one_hot: +logical_begin
        random_mask_like: +logical_shape +logical_begin
        rrelu: +logical_shape +logical_begin
        sparse_softmax_cross_entropy_grad: +logical_size +logical_begin
        sparse_softmax_cross_entropy_ms_grad: +logical_size +logical_begin
        unsorted_segment_sum: +logical_size +logical_begin
        unsorted_segment_sum_like: +logical_size +logical_begin
    """,
    "A list of images of different sizes is one tensor, of a stated size, and says how large each image is.": """
        COCOReader: +image_bytes +max_objects +max_points
        image_decode: +max_size +out_size
        image_random_crop: +in_size +out_size
        image_resize_keep_aspect_ratio: +in_size
        image_resize_to_fixed: +in_size
        image_target_resize: +in_size
        object_segmentation_polygon_to_mask: +shape
        ofrecord_bytes_decoder: +out_size
        ofrecord_image_classification_reader: +max_size +image_size
        ofrecord_image_decoder: +max_size +out_size
        ofrecord_image_decoder_random_crop: +max_size +out_size
        OFRecordReader: +record_bytes
    """,
    "Each run of a compiled program draws other numbers.": """
        bernoulli: +offset
        coin_flip: +offset
        distributed_partial_fc_sample: +offset
        exponential: +offset
        generate_random_batch_permutation_indices: +offset
        image_random_crop: +offset
        multinomial_with_replacement: +offset
        normal: +offset
        ofrecord_image_decoder_random_crop: +offset
        random_mask_like: +offset
        randperm: +offset
        rrelu: +offset
        uniform: +offset
        uniform_int: +offset
    """,
    "The sizes of a tensor that is drawn may be those of another tensor, which are known at run time only.": """
        exponential: +like
        normal: +like
        uniform: +like
        uniform_int: +like
    """,
    "A tensor of one of several placements says to which it goes, and where its gradient comes back to.": """
        hierarchical_parallel_cast: +placement
        hierarchical_parallel_cast_like: +nd_sbp +stated
    """,
    "How a gradient lies is inferred where a program does not say it.": """
        hierarchical_parallel_cast: ~grad_mode ~grad_nd_sbp
    """,
    "All gradients are always results, and a program that leaves one out is refused.": """
        elementwise_maximum_backward: ~dx ~dy
        elementwise_minimum_backward: ~dx ~dy
        fused_gru_cell_grad: ~grad_hx ~grad_input_bias ~grad_hidden_bias
        fused_lstm_cell_grad: ~grad_cx ~grad_bias
        layer_norm_param_grad: ~beta_diff ~gamma_diff
    """,
    "The number of results follows from operands and attributes; OneFlow's program with the result is refused.": """
        cudnn_fused_normalization_add_relu_grad: +with_addend
        normalization_add_relu_grad: +with_addend
    """,
    "It says again what `padding_before` and `padding_after` say, and is compared with them.": """
        pad: ~padding
    """,
    "The learning rate may be an attribute, as it may in OneFlow's other updates.": """
        lars_update: ~learning_rate +learning_rate_val
    """,
    "PyTorch's RMSprop adds epsilon to the root, and has momentum.": """
        rmsprop_update: +epsilon_apart +momentum +momentum_out +beta
    """,
    "It takes what OneFlow's `tril` takes, such as a mask of attention that is minus infinity elsewhere.": """
        triu: +floating_fill_value +integer_fill_value +is_floating_fill_value
    """,
    "Rows whose number of elements is known at run time only may turn out empty.": """
        reduce_max: +allow_empty
        reduce_min: +allow_empty
    """,
    "Positions that are known to differ are written in any order, which is faster.": """
        tensor_scatter_nd_update: +any_order
    """,
}


def _args(here: Sequence[ArgDef], there: Sequence[ArgDef]) -> Iterator[str]:
    """The differences of operands or of results; additional ones may only follow OneFlow's.

    Names are compared in lower case, since MLIR accepts lower-case names only.
    """
    ours, theirs = ({a.name.lower(): (a.is_optional, a.is_variadic) for a in args} for args in (here, there))
    common = [name for name in theirs if name in ours]
    yield from (f"+{name}" for name in ours if name not in theirs)
    yield from (f"-{name}" for name in theirs if name not in ours)
    yield from (f"~{name}" for name in common if ours[name] != theirs[name])
    if list(ours)[: len(common)] != common:
        yield f"order: {', '.join(ours)}"


def _attributes(here: dict[str, AttrDef], there: dict[str, AttrDef]) -> Iterator[str]:
    """How attributes differ, whose order means nothing."""
    yield from (f"+{name}" for name in here if name not in there)
    yield from (f"-{name}" for name in there if name not in here and name not in BOOKKEEPING)
    for name in here.keys() & there.keys():
        ours, theirs = here[name], there[name]
        kinds = {READ_AS.get(a.kind.name, a.kind.name) for a in (ours, theirs)}
        if len(kinds) > 1 or ours.is_mandatory != theirs.is_mandatory or ours.default != theirs.default:
            yield f"~{name}"


def differences(here: Signature, there: Signature) -> set[str]:
    """The differences between a signature here and OneFlow's signature."""
    return {
        *_args(here.inputs, there.inputs),
        *_args(here.outputs, there.outputs),
        *_attributes(here.attr_by_name, there.attr_by_name),
    }


def _allowed(name: str) -> set[str]:
    """The deviations of an operator that have a reason."""
    lines = [line.split() for text in DEVIATIONS.values() for line in text.splitlines()]
    return {entry for operator, *entries in filter(None, lines) if operator == f"{name}:" for entry in entries}


@pytest.mark.parametrize("name", SHARED)
def test_signatures_equal_oneflows_signatures(name):
    assert differences(REGISTRY[name].signature, THEIRS[name]) == _allowed(name)


def test_every_oneflow_operator_is_defined_or_refused_with_a_reason():
    assert refused() == {*THEIRS} - {*SHARED}


def test_errors_of_refused_operators_give_the_reason():
    assert "Tensors are values" in REGISTRY.unknown("fill_")
    assert reason_for("nosuch") is None
    assert REGISTRY.unknown("nosuch").startswith("unknown operator oneflow.nosuch")


def test_deviations_are_of_defined_operators():
    lines = [line.split() for text in DEVIATIONS.values() for line in text.splitlines()]
    assert {operator.rstrip(":") for operator, *_ in filter(None, lines)} <= {*SHARED}


@pytest.mark.parametrize(
    ("here", "found"),
    [
        ("f(x, y?, a: int32 = 1) -> z", set()),
        ("f(y?, x, a: int32 = 1) -> z", {"order: y, x"}),
        ("f(x, w?, y?, a: int32 = 1) -> z", {"+w", "order: x, w, y"}),
        ("f(x, y?, w?, a: int32 = 1) -> z, v?", {"+w", "+v"}),
        ("f(x, y, a: int32 = 2) -> z*", {"~y", "~a", "~z"}),
        ("f(x, a: int32) -> z", {"-y", "~a"}),
        ("f(x, y?, a: int64 = 1) -> z", {"~a"}),
        ("f(x, y?, b: bool = False) -> z", {"-a", "+b"}),
    ],
)
def test_differing_signatures_are_reported(here, found):
    assert differences(parse_signature(here), parse_signature("f(x, y?, a: int32 = 1) -> z")) == found


BASE = """
class OneFlow_CurveBaseOp<string mnemonic, list<Trait> traits = []> :
        OneFlow_BaseOp<mnemonic, !listconcat(traits, [NoMemoryEffect])> {
  let input = (ins OneFlow_Tensor:$x, Optional<OneFlow_Tensor>:$w);
  let output = (outs OneFlow_Tensor:$y);
}
"""
USER = """
#ifdef GET_ONEFLOW_CURVE_OP_DEFINITIONS
def OneFlow_BendOp : OneFlow_CurveBaseOp<"bend", [NoGrad]> {}  // as it is
def OneFlow_ArchOp : OneFlow_BaseOp<"arch", [NoMemoryEffect]> {
  let input = (ins Variadic<OneFlow_Tensor>:$xs);
  let output = (outs
    Optional<AnyType>:$y
  );
  let attrs = (ins
    DefaultValuedAttr<F32Attr, "0.">:$slope, SI32ArrayAttr: $axes, // DefaultValuedAttr<BoolAttr, "true">:$gone
    DefaultValuedAttr<StrAttr, "\\"none\\"">:$mode,
    DefaultValuedAttr<BoolAttr, "false">:$round, OneFlow_DataType:$dtype
  );
  let has_check_fn = 1;
}
#endif
"""


def test_signatures_are_read_from_definitions(tmp_path):
    folder = tmp_path / "oneflow/ir/include/OneFlow"
    folder.mkdir(parents=True)
    (folder / "OneFlowBase.td").write_text(BASE)
    (folder / "OneFlowUserOps.td").write_text(USER)
    attrs = "slope: float = 0.0, axes: list_int32, mode: string = 'none', round: bool = False, dtype: data_type"
    wanted = [f"arch(xs*, {attrs}) -> y?", "bend(x, w?) -> y"]
    assert list(map(str, signatures(tmp_path))) == wanted
