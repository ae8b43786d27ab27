// The C interface by which Python drives the registries. Plain structs and opaque handles; functions do not throw.
//
// Functions return 0 for success. oneflow_sdk_result() is then the result as JSON, otherwise the error's text.
// The result belongs to the calling thread and is valid until the thread's next call.
#pragma once
#include <cstdint>

extern "C" {

/// An attribute's value: kind (AttrType) and numbers or texts, as in AttrValue.
struct oneflow_sdk_attr {
  const char *name;
  int32_t type;
  int64_t num_ints, num_floats, num_texts, num_lengths;
  const int64_t *ints;
  const double *floats;
  const char *const *texts;
  const int64_t *lengths;
};

/// Element type (DataType) and sizes of a tensor; of a result that is to be inferred, the type is 0.
struct oneflow_sdk_desc {
  int32_t data_type;
  int64_t rank;
  const int64_t *dims;
};

/// The tensors of one operand or result.
struct oneflow_sdk_arg {
  const char *name;
  int64_t size;
  const oneflow_sdk_desc *descs;
};

/// A call of an operator, every operand and result in the order of the signature.
struct oneflow_sdk_call {
  const char *op;
  int32_t device;
  int64_t num_attrs, num_inputs, num_outputs;
  const oneflow_sdk_attr *attrs;
  const oneflow_sdk_arg *inputs, *outputs;
};

/// A kernel that has been chosen for a call, with state, cache and temporary memory.
struct oneflow_sdk_kernel;

int32_t oneflow_sdk_version();
const char *oneflow_sdk_result();

/// Loads a library. Result: the operators that the library registers. An error undoes the registrations.
int32_t oneflow_sdk_open(const char *path);
/// Removes the registrations of the last library, and closes the library.
int32_t oneflow_sdk_discard();
/// Checks the attributes and infers. Result: descriptions of the results in order, operands without gradient.
int32_t oneflow_sdk_infer(const oneflow_sdk_call *call);
/// Result: the SBP signatures, each a list of [kind, axis] for every operand and result.
int32_t oneflow_sdk_sbp(const oneflow_sdk_call *call);
/// Result: the signatures on a mesh by the operator's own list, each a list, for every operand and result, of
/// [kind, axis] for every axis of the mesh.
int32_t oneflow_sdk_nd_sbp_list(const oneflow_sdk_call *call, const int64_t *mesh, int64_t mesh_axes);
/// Result: the signature for operands with the SBPs `hints`: kind and axis for each operand and mesh axis.
int32_t oneflow_sdk_nd_sbp_infer(const oneflow_sdk_call *call, const int64_t *mesh, int64_t mesh_axes,
                                 const int64_t *hints);
/// Result: the multiply-adds of a call.
int32_t oneflow_sdk_complexity(const oneflow_sdk_call *call);
/// Result: the operations of the gradient, the tensor that is the gradient of each operand, and notes for the user.
int32_t oneflow_sdk_gradient(const oneflow_sdk_call *call);
/// Result: whether a kernel is registered for a call whose results are described, true or false.
int32_t oneflow_sdk_kernel_matches(const oneflow_sdk_call *call);
/// Result: numbers of results and of the operands whose memory they share, as the kernel for a call proposes.
int32_t oneflow_sdk_kernel_in_place(const oneflow_sdk_call *call);
/// Chooses the kernel for a call whose results are described. A guarded kernel, on the CPU only, runs on copies
/// between guards, to detect writes out of bounds and writes to operands.
int32_t oneflow_sdk_kernel_create(const oneflow_sdk_call *call, int32_t guarded, oneflow_sdk_kernel **kernel);
/// Runs a kernel on the memory of all operands and results in order. `stream` is a cudaStream_t, null on the CPU.
int32_t oneflow_sdk_kernel_run(oneflow_sdk_kernel *kernel, void *const *buffers, void *stream);
void oneflow_sdk_kernel_destroy(oneflow_sdk_kernel *kernel);

/// A tensor of a program under construction; id -1 is a missing tensor, size -1 a dynamic size.
struct oneflow_sdk_tensor {
  int64_t id;
  oneflow_sdk_desc desc;
};

/// An argument of a function: none, tensors, or a value.
struct oneflow_sdk_argument {
  int32_t kind;
  int64_t num_tensors;
  const oneflow_sdk_tensor *tensors;
  oneflow_sdk_attr value;
};

/// Adds an operation to the program. `request` is JSON: op, inputs (name and ids), outputs (name and number), attrs.
/// The function answers by oneflow_sdk_reply, with an error's text or with the results.
typedef void (*oneflow_sdk_build)(const char *request);
void oneflow_sdk_reply(const char *error, const oneflow_sdk_tensor *results, int64_t count);

/// Calls a function that a library has added by add_functor. Result: the ids of the function's results.
int32_t oneflow_sdk_function_call(const char *name, const oneflow_sdk_argument *args, int64_t count,
                                  oneflow_sdk_build build);
/// Runs the class that REGISTER_OP_EXPR_GRAD_FUNCTION has registered. `tensors` are all operands, all results, and
/// the gradients of all results. Result: the id of each operand's gradient, null for an operand without gradient.
int32_t oneflow_sdk_grad_function(const oneflow_sdk_call *call, const oneflow_sdk_tensor *tensors,
                                  oneflow_sdk_build build);
}
