// Kernels: the class that users derive from, and the contexts that functions of the class get.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "oneflow/core/ep/cuda/cuda_stream.h"
#include "oneflow/core/framework/infer_context.h"

#ifdef __NVCC__
#pragma nv_diag_suppress 611  // a kernel overrides only one form of Compute
#endif

namespace oneflow {
namespace user_op {

/// The argument of a predicate that chooses a kernel.
class KernelRegContext final : public OpContext {
 public:
  using OpContext::OpContext;
  const TensorDesc *TensorDesc4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return call()->Find(name, index);
  }
};

/// The argument of the functions that make a kernel's state or cache.
class KernelInitContext : public OpContext {
 public:
  KernelInitContext(OpCall *call, DeviceCtx *device) : OpContext(call), device_(device) {}
  const TensorDesc *TensorDesc4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return call()->Find(name, index);
  }
  const TensorDesc *LogicalTensorDesc4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return call()->Find(name, index);
  }
  ep::Stream *stream() const { return device_; }
  DeviceCtx *device_ctx() const { return device_; }

 private:
  DeviceCtx *device_;
};

using KernelCacheContext = KernelInitContext;
using KernelCreateContext = KernelInitContext;

/// The argument of Compute. The temporary memory of SetInferTmpSizeFn is the tensor "tmp_buffer", 0.
class KernelContext : public KernelInitContext {
 public:
  KernelContext(OpCall *call, DeviceCtx *device);
  /// A tensor; null for a missing optional operand or result.
  Tensor *Tensor4ArgNameAndIndex(const std::string &name, int32_t index) const;

 private:
  friend class KernelLaunch;
  mutable std::map<std::pair<std::string, int32_t>, Tensor> tensors_;
};

class KernelComputeContext final : public KernelContext {
 public:
  using KernelContext::KernelContext;
};

/// The argument of InferShape.
class KernelInferContext final : public KernelContext {
 public:
  using InferFn = std::function<Maybe<void>(InferContext *)>;
  KernelInferContext(OpCall *call, DeviceCtx *device) : KernelContext(call, device), infer_(call) {}
  const Shape &ShapeView4ArgNameAndIndex(const std::string &name, int32_t index) {
    return infer_.InputShape(name, index);
  }
  Shape *MutShapeView4ArgNameAndIndex(const std::string &name, int32_t index) {
    return infer_.Shape4ArgNameAndIndex(name, index);
  }
  InferContext *MutOpInferContext() { return &infer_; }
  /// The operator's infer function has run already.
  InferFn GetOpInferFn() const {
    return [](InferContext *) { return Maybe<void>::Ok(); };
  }

 private:
  InferContext infer_;
};

/// The state of a kernel between calls of Compute.
class OpKernelState {
 public:
  virtual ~OpKernelState();
};

/// Values that a kernel prepares once for all calls of one shape.
class OpKernelCache {
 public:
  /// Flags for `InitOpKernelCacheWithFlags`: properties that may have changed since the cache was made.
  enum Flag : int8_t { kAllMayChanged = 0, kShapeNotChanged = 1, kAttrNotChanged = 2 };

  virtual ~OpKernelCache();
};

/// A state or cache made of any object: `std::make_shared<OpKernelStateWrapper<T>>(..)`.
template <typename T>
class OpKernelStateWrapper final : public OpKernelState {
 public:
  template <typename... Args>
  explicit OpKernelStateWrapper(Args &&...args) : data_(std::forward<Args>(args)...) {}
  const T &Get() const { return data_; }
  T *Mutable() { return &data_; }

 private:
  T data_;
};

/// A kernel. One of the forms of Compute has to be overridden; the other forms call the overridden form.
class OpKernel {
 public:
  virtual ~OpKernel();

  virtual std::shared_ptr<OpKernelState> CreateOpKernelState(KernelInitContext *) const { return nullptr; }
  virtual std::shared_ptr<OpKernelCache> InitOpKernelCache(KernelCacheContext *) const { return nullptr; }
  virtual void InitOpKernelCacheWithFlags(KernelCacheContext *ctx, int8_t flags,
                                          std::shared_ptr<OpKernelCache> *cache) const;

  virtual void Compute(KernelComputeContext *ctx, OpKernelState *state, const OpKernelCache *cache) const;
  virtual void Compute(KernelComputeContext *ctx, OpKernelState *state) const;
  virtual void Compute(KernelComputeContext *ctx) const;
  virtual void Compute(KernelContext *ctx) const;
  virtual void Compute(KernelContext *ctx);

  /// For sizes that are known at run time only. Kernels get static sizes, so that InferShape is never called.
  virtual void InferShape(KernelInferContext *) const {}

  /// Whether Compute is called if every result is empty.
  virtual bool AlwaysComputeWhenAllOutputsEmpty() const { return false; }
  virtual bool IsKernelLaunchSynchronized() const { return true; }
  bool has_state_or_cache() const { return true; }

 protected:
  OpKernel() = default;
};

}  // namespace user_op
}  // namespace oneflow
