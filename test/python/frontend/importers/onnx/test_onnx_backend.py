"""A sample of ONNX's own cases for backends, some of each family; `suite.py` runs all."""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import helper, numpy_helper
from onnx.backend.test.case import node as node_cases
from onnx.backend.test.runner import Runner, _normalize_tensor

import oneflow.onnx.backend as backend

SAMPLE = """
add_bcast and_bcast4v2d bitshift_left_uint8 cast_FLOAT_to_FLOAT8E4M3FN cast_INT4_to_FLOAT cast_FLOAT_to_FLOAT4E2M1
clip_default_int8_min mod_mixed_sign_int64 max_float16 where_long_example reduce_l2_negative_axes_keep_dims_random
reduce_max_empty_set argmax_negative_axis_keepdims_random_select_last_index cumsum_2d_axis_1 top_k_smallest
einsum_batch_diagonal gemm_all_attributes matmulinteger qlinearmatmul_3D_uint8_float32
conv_with_strides_and_asymmetric_padding
convtranspose_autopad_same maxpool_with_argmax_2d_precomputed_strides averagepool_2d_ceil lppool_2d_dilations
batchnorm_epsilon_training_mode layer_normalization_3d_axis1_epsilon softmax_large_number lrn_default
reshape_negative_extended_dims slice_neg_steps wrap_pad split_variable_parts_2d_opset18 depthtospace_crd_mode_example
tile
gather_negative_indices scatter_elements_with_negative_indices scatternd_max onehot_negative_indices
nonzero_example unique_sorted_with_axis nonmaxsuppression_two_batches
resize_upsample_scales_cubic_align_corners
gridsample_reflection_padding roialign_mode_max dequantizelinear_blocked quantizelinear_e5m2 lstm_with_peepholes
gru_seq_length if_seq loop13_seq scan9_sum sequence_insert_at_front optional_has_element_optional_input
attention_3d_gqa_causal rotary_embedding_interleaved nllloss_NCd1d2_with_weight_reduction_mean stft_with_window
dft_axis adam adagrad_multiple
""".split()
SHIPPED = Path(onnx.backend.test.__file__).parent / "data"


@pytest.fixture(scope="session")
def cases():
    with warnings.catch_warnings():  # the cases divide by zero on purpose
        warnings.simplefilter("ignore")
        return {case.name: case for case in node_cases.collect_testcases()}


@pytest.mark.parametrize("name", SAMPLE)
def test_onnx_node_cases(name, cases):
    case = cases[f"test_{name}"]
    prepared = backend.prepare(case.model)
    for inputs, outputs in ([list(map(_normalize_tensor, part)) for part in parts] for parts in case.data_sets):
        Runner.assert_similar_outputs(outputs, prepared.run(inputs), case.rtol, case.atol)


@pytest.mark.parametrize("name", ["pytorch-converted/test_BatchNorm2d_eval", "pytorch-operator/test_operator_addmm"])
def test_shipped_cases(name):
    folder = SHIPPED / name
    prepared = backend.prepare(onnx.load(folder / "model.onnx"))
    data = folder / "test_data_set_0"
    inputs, outputs = (
        [numpy_helper.to_array(onnx.load_tensor(str(file))) for file in sorted(data.glob(f"{kind}_*.pb"))]
        for kind in ("input", "output")
    )
    Runner.assert_similar_outputs(outputs, prepared.run(inputs), 1e-3, 1e-7)


def test_a_node_runs_alone():
    node = helper.make_node("Concat", ["a", "b"], ["c"], axis=0)
    (found,) = backend.run_node(node, [np.zeros(2, np.float32), np.ones(1, np.float32)])
    np.testing.assert_array_equal(found, [0, 0, 1])


def test_devices():
    assert backend.supports_device("CPU") and not backend.supports_device("TPU")


def test_exclusions_have_cases(cases):
    """Each row of the table is for existing cases, in the node suite or among the shipped cases."""
    spec = importlib.util.spec_from_file_location("exclusions", Path(__file__).parent / "exclusions.py")
    assert spec and spec.loader
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    names = [*cases, *(folder.name for folder in SHIPPED.glob("*/test_*"))]
    assert [row for row in table.EXCLUDED if not any(table.reason(n) == row[1] for n in names)] == []
    assert not any(table.reason(f"test_{name}") for name in SAMPLE)
