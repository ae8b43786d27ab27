// Runs the rules of an operator on a call.
#pragma once
#include <string>
#include <vector>

#include "registry.h"
#include "thrown.h"

namespace oneflow {
namespace user_op {

/// Checks the attributes and fills in the descriptions of results. Throws CheckError.
void Infer(const OpRegistryResult &op, OpCall *call);
/// The operands that are not differentiated, and those that the kernel would write, by the modify function.
void Modify(const OpRegistryResult &op, const OpCall &call, std::vector<std::string> *no_grad);
/// The SBP signatures of a call; each has an SBP for every tensor.
std::vector<SbpOfArgs> SbpSignatures(const OpRegistryResult &op, OpCall *call);
/// The signatures on a mesh that SetGetNdSbpSignatureListFn lists.
std::vector<NdSbpSignature> NdSbpSignatures(const OpRegistryResult &op, OpCall *call, const Shape &mesh);
/// The nd-SBPs of the tensors of a call whose operands have the nd-SBPs `hints`, by SetNdSbpInferFn.
NdSbpSignature InferNdSbp(const OpRegistryResult &op, OpCall *call, const Shape &mesh, const NdSbpSignature &hints);
/// The multiply-adds of a call, by SetComputeComplexityFn.
double Complexity(const OpRegistryResult &op, OpCall *call);
/// The operations of the gradient.
BackwardProgram Gradient(const OpRegistryResult &op, OpCall *call);

/// The value of a Maybe; an error is thrown as an error of the operator's function named `what`.
template <typename T>
auto Require(const Maybe<T> &result, const std::string &what) -> decltype(result.Value()) {
  if (!result.IsOk()) throw CheckError(what + ": " + result.error().text());
  return result.Value();
}

/// The result of a user's function; exceptions of the function become errors.
template <typename Body>
auto Attempt(Body body) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    return Error(ThrownText());
  }
}

}  // namespace user_op
}  // namespace oneflow
