// REGISTER_USER_KERNEL: a kernel of an operator, and the calls that the kernel accepts.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "oneflow/core/framework/infer_context.h"
#include "oneflow/core/framework/user_op_hob.h"

namespace oneflow {
namespace user_op {

using OpKernelCreateFn = std::function<OpKernel *(KernelInitContext *)>;
using InferTmpSizeFn = std::function<size_t(InferContext *)>;
using IsMatchedPred = std::function<bool(const KernelRegContext &)>;
/// Called with (result, index, operand, index, whether the kernel changes the operand): the two tensors share memory.
using AddInplaceArgPair =
    std::function<Maybe<void>(const std::string &, int32_t, const std::string &, int32_t, bool)>;
using InplaceProposalFn = MaybeFn<const InferContext &, AddInplaceArgPair>;

enum KernelPriority {
  kKernelPriorityFallback = -10,
  kKernelPriorityDefault = 0,
  kKernelPriorityOptimized = 10,
  kKernelPriorityExperimental = 100,
};

/// A kernel: the constructor, the predicate of calls, and the size of temporary memory.
struct OpKernelRegistryResult {
  std::string name;
  std::string where;
  OpKernelCreateFn create_fn;
  HobBool is_matched_hob = HobBool(true);
  InferTmpSizeFn infer_tmp_size_fn;
  InplaceProposalFn inplace_proposal_fn;
  int32_t priority = kKernelPriorityDefault;
};

/// Builds a kernel; every method returns the registry, so that calls can be chained.
class OpKernelRegistry final {
 public:
  OpKernelRegistry(const std::string &name, const char *file, int line);

  OpKernelRegistry &Name(const std::string &name);
  /// Kernels are objects of the class T.
  template <typename T>
  OpKernelRegistry &SetCreateFn() {
    return SetCreator([](KernelInitContext *) -> OpKernel * { return new T(); });
  }
  /// `fn` makes the kernel; `fn` takes no argument, a `const KernelInitContext &` or a `KernelCreateContext *`.
  template <typename F>
  OpKernelRegistry &SetCreateFn(F fn) {
    return SetCreator([fn](KernelInitContext *ctx) -> OpKernel * {
      const OpKernel *made = Create(fn, ctx, 0);
      return const_cast<OpKernel *>(made);  // OneFlow's functions return const and non-const pointers
    });
  }
  OpKernelRegistry &SetIsMatchedHob(const HobBool &hob);
  OpKernelRegistry &SetIsMatchedPred(IsMatchedPred pred);
  OpKernelRegistry &SetInferTmpSizeFn(InferTmpSizeFn fn);
  /// Proposes results that share the memory of operands. The result takes over the memory of an operand that has no
  /// later use; other operands are copied to the result's memory first. The kernel gets one pointer for both.
  OpKernelRegistry &SetInplaceProposalFn(InplaceProposalFn fn);
  OpKernelRegistry &SetPriority(int32_t priority);

  OpKernelRegistry &Finish() { return *this; }
  const OpKernelRegistryResult &GetResult() const { return result_; }

 private:
  template <typename F>
  static auto Create(const F &fn, KernelInitContext *ctx, int) -> decltype(fn(*ctx)) {
    return fn(*ctx);
  }
  template <typename F>
  static auto Create(const F &fn, KernelInitContext *ctx, int) -> decltype(fn(ctx)) {
    return fn(ctx);
  }
  template <typename F>
  static auto Create(const F &fn, KernelInitContext *, long) -> decltype(fn()) {
    return fn();
  }
  OpKernelRegistry &SetCreator(OpKernelCreateFn fn);

  OpKernelRegistryResult result_;
};

}  // namespace user_op
}  // namespace oneflow
