// Chooses and runs kernels.
#pragma once
#include <memory>
#include <vector>

#include "registry.h"

namespace oneflow {
namespace user_op {

/// The registered kernel for a call; null if no kernel matches.
const OpKernelRegistryResult *FindKernel(const OpRegistryResult &op, OpCall *call);

/// Numbers of a result and of the operand whose memory the result shares.
using InPlacePairs = std::vector<std::pair<size_t, size_t>>;

/// The pairs that a kernel proposes for a call. Throws CheckError if sizes differ or a tensor is in two pairs.
InPlacePairs ProposedPairs(const OpKernelRegistryResult &kernel, OpCall *call);

/// A kernel chosen for one call, ready to run any number of times.
class KernelLaunch final {
 public:
  /// Throws CheckError if no kernel matches; the text lists the candidates, each with the failed condition.
  KernelLaunch(const OpRegistryResult &op, const OpCall &call);

  /// Runs on the memory of all operands and results in order.
  void Run(void *const *buffers, void *stream);
  /// Runs on guarded copies. Throws CheckError where the kernel wrote to an operand or out of bounds,
  /// or left a result unwritten.
  void RunGuarded(void *const *buffers);

 private:
  [[noreturn]] void FailToChoose(const std::vector<const OpKernelRegistryResult *> &candidates);
  void Compute(void *const *buffers, void *temporary, void *stream);
  std::vector<std::pair<std::string, int64_t>> BufferSizes() const;

  OpCall call_;
  const OpKernelRegistryResult *registered_;
  std::unique_ptr<OpKernel> kernel_;
  std::shared_ptr<OpKernelState> state_;
  std::shared_ptr<OpKernelCache> cache_;
  InPlacePairs in_place_;
  int64_t temporary_bytes_ = 0;
  bool all_empty_ = true;
};

}  // namespace user_op
}  // namespace oneflow
