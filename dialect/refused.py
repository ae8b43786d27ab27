"""OneFlow's operators that the dialect does not have, by the reason.

reason_for("fill_")      what `oneflow-opt --show-op`, errors and `docs/coverage.md` say of the name
"""

from __future__ import annotations

#: Names under the reason that they share.
REFUSED = {
    "The compiler inserts the collectives: state the layouts by hierarchical_parallel_cast.": """
        _nccl_logical_2D_same_dim0_all2all _nccl_logical_2D_same_dim0_all_gather
        _nccl_logical_2D_same_dim0_all_gather_noncontinuous _nccl_logical_2D_same_dim0_all_reduce
        _nccl_logical_2D_same_dim1_all_reduce _nccl_logical_all_gather _nccl_logical_all_gather_noncontinuous
        _nccl_logical_all_reduce _nccl_logical_fusion _nccl_logical_reduce_scatter
        _nccl_logical_reduce_scatter_noncontinuous _nccl_logical_s2s _nccl_logical_send_recv eager_b_to_s
        eager_ccl_all_gather eager_ccl_all_reduce eager_ccl_broadcast eager_ccl_reduce
        eager_ccl_reduce_scatter eager_ccl_s2s eager_ccl_touch eager_naive_s_to_s eager_p_to_b eager_p_to_s
        eager_s_to_b eager_s_to_p eager_symmetric_s_to_p
    """,
    "The ranks of a program exchange tensors where placements differ: state the placements.": "recv send",
    "Tensors are values: use the new value instead of the tensor that was assigned to.": """
        broadcast_inplace_greater fill_ fill_tensor_ scalar_logical_inplace_greater
    """,
    "It keeps values from run to run: pass them in, and give the new ones back.": """
        mutable_cast_once ssp_variable_proxy CategoricalOrdinalEncode
    """,
    "It writes the number of a step as an integer into a row of floats: keep the step in a tensor of its own.": """
        one_embedding_smart_decay_sparse_adam_update
    """,
    "It orders or repeats the steps of OneFlow's runtime; a step here is one call of the program.": """
        acc acc_ctrl_tick cast_to_tick pack repeat unpack
    """,
    "OneFlow's own compiler makes it: compile the program that it came from.": "kernel_launch mlir_jit",
    "A profiler marks the kernels of a program by their names.": "nvtx_end nvtx_start",
    "It writes files while the program runs: write them from the results.": """
        create_summary_writer flush_summary_writer summary_write_histogram summary_write_image
        summary_write_pb summary_write_scalar
    """,
    "It ends the program on purpose, for OneFlow's own tests.": "throw_error",
    "The order of dimensions in memory is no part of a type: write transpose.": "convert_memory_format",
    "Not yet: files and images are read and decoded outside of the program.": """
        COCOReader OFRecordReader ofrecord_bytes_decoder ofrecord_image_classification_reader
        ofrecord_image_decoder ofrecord_image_decoder_random_crop ofrecord_raw_decoder raw_reader
        megatron_gpt_mmap_data_loader
    """,
    "Not yet: there are no tables of embeddings outside of the program.": """
        embedding_lookup embedding_prefetch embedding_put one_embedding_fused_lookup
        one_embedding_fused_lookup_grad one_embedding_fused_sgd_update_put
    """,
}

_REASONS = {name: reason for reason, names in REFUSED.items() for name in names.split()}


def refused() -> frozenset[str]:
    """The names of all refused operators."""
    return frozenset(_REASONS)


def reason_for(name: str) -> str | None:
    """Why the dialect lacks OneFlow's operator `name`; None where OneFlow has no such operator."""
    return _REASONS.get(name)
