"""OneFlow's operators that the dialect does not have, by the reason.

reason_for("fill_")      the text of `oneflow-opt --show-op`, errors and `docs/coverage.md` about the name
"""

from __future__ import annotations

#: Names under their common reason.
REFUSED = {
    "A program keeps the tensors that a collective reads until the collective ends.": "eager_ccl_touch",
    "The ranks of a program exchange tensors where placements differ: state the placements.": "recv send",
    "Tensors are values: use the new value instead of the tensor that was assigned to.": """
        broadcast_inplace_greater fill_ fill_tensor_ scalar_logical_inplace_greater
    """,
    "The operator keeps values between runs: pass the values as arguments, and return the new values.": """
        mutable_cast_once ssp_variable_proxy CategoricalOrdinalEncode
    """,
    "The operator writes the number of a step as an integer into a row of floats: keep the step in a separate "
    "tensor.": """
        one_embedding_smart_decay_sparse_adam_update
    """,
    "The operator orders or repeats steps of OneFlow's runtime; a step here is one call of the program.": """
        acc acc_ctrl_tick cast_to_tick pack repeat unpack
    """,
    "OneFlow's own compiler creates the operator: compile the original program.": "kernel_launch mlir_jit",
    "A profiler marks the kernels of a program by their names.": "nvtx_end nvtx_start",
    "The operator writes files while the program runs: write files from the results.": """
        create_summary_writer flush_summary_writer summary_write_histogram summary_write_image
        summary_write_pb summary_write_scalar
    """,
    "The operator ends the program on purpose, for OneFlow's own tests.": "throw_error",
    "The order of dimensions in memory is no part of a type: write transpose.": "convert_memory_format",
    "Passes of OneFlow replace the operator: write embedding_lookup, an update of the rows and embedding_put.": """
        one_embedding_fused_lookup_grad
    """,
}

_REASONS = {name: reason for reason, names in REFUSED.items() for name in names.split()}


def refused() -> frozenset[str]:
    """The names of all refused operators."""
    return frozenset(_REASONS)


def reason_for(name: str) -> str | None:
    """Why the dialect lacks OneFlow's operator `name`; None where OneFlow has no such operator."""
    return _REASONS.get(name)
