#include "kernel.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "guarded.h"
#include "host_memory.h"
#include "infer.h"

namespace oneflow {
namespace user_op {

OpKernelState::~OpKernelState() = default;
OpKernelCache::~OpKernelCache() = default;
OpKernel::~OpKernel() = default;

void OpKernel::InitOpKernelCacheWithFlags(KernelCacheContext *ctx, int8_t,
                                          std::shared_ptr<OpKernelCache> *cache) const {
  *cache = InitOpKernelCache(ctx);
}

void OpKernel::Compute(KernelComputeContext *ctx, OpKernelState *state, const OpKernelCache *) const {
  Compute(ctx, state);
}

void OpKernel::Compute(KernelComputeContext *ctx, OpKernelState *) const { Compute(ctx); }

void OpKernel::Compute(KernelComputeContext *ctx) const { Compute(static_cast<KernelContext *>(ctx)); }

void OpKernel::Compute(KernelContext *ctx) const {
  // OneFlow's oldest signature is not const; the kernel object never is.
  const_cast<OpKernel *>(this)->Compute(ctx);
}

void OpKernel::Compute(KernelContext *) {
  throw CheckError(
      "the kernel overrides no form of Compute; write void Compute(user_op::KernelComputeContext *) const");
}

KernelContext::KernelContext(OpCall *call, DeviceCtx *device) : KernelInitContext(call, device) {
  for (const auto &entry : call->descs) {
    const std::string name = entry.first.first + "[" + std::to_string(entry.first.second) + "]";
    tensors_.emplace(entry.first, Tensor(name, entry.second, call->device));
  }
}

Tensor *KernelContext::Tensor4ArgNameAndIndex(const std::string &name, int32_t index) const {
  const auto found = tensors_.find({name, index});
  if (found != tensors_.end()) return &found->second;
  call()->Find(name, index);
  return nullptr;
}

namespace {

const char *const kTemporary = "tmp_buffer";

/// A function of the driver that the process has loaded.
template <typename F>
F DriverFunction(const char *name) {
  static void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void *const found = driver == nullptr ? nullptr : dlsym(driver, name);
  if (found == nullptr) throw CheckError("the CUDA driver has no " + std::string(name));
  return reinterpret_cast<F>(found);
}

/// Memory of a CUDA device, allocated and freed in stream order by the driver that the process has loaded.
class DeviceMemory final {
 public:
  DeviceMemory(int64_t bytes, void *stream) : stream_(stream) {
    const int error = DriverFunction<int (*)(void **, size_t, void *)>("cuMemAllocAsync")(&data_, bytes, stream);
    if (error != 0) throw CheckError("the device has no " + std::to_string(bytes) + " bytes for a kernel");
  }
  ~DeviceMemory() { DriverFunction<int (*)(void *, void *)>("cuMemFreeAsync")(data_, stream_); }
  void *data() const { return data_; }

 private:
  void *data_ = nullptr;
  void *stream_;
};

int64_t Bytes(const TensorDesc &desc) {
  return desc.shape().elem_cnt() * static_cast<int64_t>(GetSizeOfDataType(desc.data_type()));
}

void Copy(DeviceType device, void *to, const void *from, int64_t bytes, void *stream) {
  if (to == from || bytes == 0) return;
  if (device == kCPU) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  using CopyFn = int (*)(void *, const void *, size_t, void *);
  const int error = DriverFunction<CopyFn>("cuMemcpyDtoDAsync_v2")(to, from, static_cast<size_t>(bytes), stream);
  if (error != 0) throw CheckError("copying an operand on the device failed: error " + std::to_string(error));
}

size_t NumberOf(const ArgVec &args, const std::string &name, int32_t index, const char *what) {
  const auto found = std::find(args.begin(), args.end(), std::make_pair(name, index));
  if (found == args.end()) {
    throw CheckError("the call has no " + std::string(what) + " " + name + "[" + std::to_string(index) + "]");
  }
  return static_cast<size_t>(found - args.begin());
}

}  // namespace

const OpKernelRegistryResult *FindKernel(const OpRegistryResult &op, OpCall *call) {
  const KernelRegContext ctx(call);
  const OpKernelRegistryResult *best = nullptr;
  for (const OpKernelRegistryResult *kernel : Registry::Instance().Kernels(op.signature.name)) {
    if ((best == nullptr || kernel->priority > best->priority) && kernel->is_matched_hob(ctx)) best = kernel;
  }
  if (best != nullptr && call->device != kCPU) Registry::Instance().ExpectOnDevice(op.signature.name);
  return best;
}

InPlacePairs ProposedPairs(const OpKernelRegistryResult &kernel, OpCall *call) {
  InPlacePairs pairs;
  if (!kernel.inplace_proposal_fn) return pairs;
  std::set<size_t> results, operands;
  const auto add = [&](const std::string &out, int32_t oi, const std::string &in, int32_t ii, bool) -> Maybe<void> {
    const std::pair<size_t, size_t> pair(NumberOf(call->outputs, out, oi, "result"),
                                         NumberOf(call->inputs, in, ii, "operand"));
    const int64_t made = Bytes(call->descs.at({out, oi})), given = Bytes(call->descs.at({in, ii}));
    if (made != given) {
      return Error() << out << " has " << made << " bytes, " << in << ", whose memory it is to share, " << given;
    }
    if (!results.insert(pair.first).second) return Error() << out << " is to share the memory of two operands";
    if (!operands.insert(pair.second).second) return Error() << "two results are to share the memory of " << in;
    pairs.push_back(pair);
    return Maybe<void>::Ok();
  };
  Require(Attempt([&] { return kernel.inplace_proposal_fn(InferContext(call), add); }),
          "SetInplaceProposalFn (" + kernel.where + ") failed");
  return pairs;
}

KernelLaunch::KernelLaunch(const OpRegistryResult &op, const OpCall &call) : call_(call) {
  registered_ = FindKernel(op, &call_);
  if (registered_ == nullptr) FailToChoose(Registry::Instance().Kernels(op.signature.name));
  ep::CudaStream device(call_.device, nullptr);
  KernelInitContext ctx(&call_, &device);
  if (registered_->infer_tmp_size_fn) {
    InferContext infer(&call_);
    temporary_bytes_ = static_cast<int64_t>(registered_->infer_tmp_size_fn(&infer));
    if (temporary_bytes_ < 0) {
      throw CheckError("SetInferTmpSizeFn (" + registered_->where + ") gave " + std::to_string(temporary_bytes_) +
                       " bytes for tmp_buffer, expected 0 or more");
    }
  }
  kernel_.reset(registered_->create_fn(&ctx));
  if (kernel_ == nullptr) {
    throw CheckError("the function that makes the kernel (" + registered_->where + ") gave none, expected a kernel");
  }
  state_ = kernel_->CreateOpKernelState(&ctx);
  kernel_->InitOpKernelCacheWithFlags(&ctx, OpKernelCache::kAllMayChanged, &cache_);
  in_place_ = ProposedPairs(*registered_, &call_);
  for (const auto &output : call_.outputs) {
    all_empty_ = all_empty_ && call_.descs.at(output).shape().elem_cnt() == 0;
  }
  if (temporary_bytes_ > 0) call_.descs[{kTemporary, 0}] = TensorDesc(Shape({temporary_bytes_}), kChar);
}

void KernelLaunch::FailToChoose(const std::vector<const OpKernelRegistryResult *> &candidates) {
  const std::string name = call_.conf->op_type_name;
  std::string text = "no kernel matches on " + std::string(DeviceTag(call_.device)) + " for";
  for (const auto &entry : call_.descs) {
    text += " " + entry.first.first + "[" + std::to_string(entry.first.second) +
            "]: " + DataType_Name(entry.second.data_type()) + entry.second.shape().ToString();
  }
  const KernelRegContext ctx(&call_);
  for (const OpKernelRegistryResult *kernel : candidates) {
    text += "\n  " + kernel->where + " failed: " + kernel->is_matched_hob.DebugStr(ctx);
  }
  if (candidates.empty()) text += "\n  there is none";
  throw CheckError(
      text + "\n  add one: REGISTER_USER_KERNEL(\"" + name + "\").SetCreateFn<YourKernel>()" +
      ".SetIsMatchedHob(user_op::HobDeviceType() == DeviceType::" + (call_.device == kCPU ? "kCPU" : "kCUDA") + ")");
}

void KernelLaunch::Run(void *const *buffers, void *stream) {
  if (all_empty_ && !kernel_->AlwaysComputeWhenAllOutputsEmpty()) return;
  if (temporary_bytes_ == 0) {
    Compute(buffers, nullptr, stream);
  } else if (call_.device == kCPU) {
    Compute(buffers, Allocate(temporary_bytes_).get(), stream);
  } else {
    const DeviceMemory temporary(temporary_bytes_, stream);
    Compute(buffers, temporary.data(), stream);
  }
}

void KernelLaunch::Compute(void *const *buffers, void *temporary, void *stream) {
  ep::CudaStream device(call_.device, static_cast<CUstream_st *>(stream));
  KernelComputeContext ctx(&call_, &device);
  size_t next = 0;
  for (const ArgVec *args : {&call_.inputs, &call_.outputs}) {
    for (const auto &arg : *args) ctx.tensors_.at(arg).set_data(buffers[next++]);
  }
  for (const auto &pair : in_place_) {
    const auto &result = call_.outputs[pair.first];
    void *const memory = buffers[call_.inputs.size() + pair.first];
    Copy(call_.device, memory, buffers[pair.second], Bytes(call_.descs.at(result)), stream);
    ctx.tensors_.at(call_.inputs[pair.second]).set_data(memory);
  }
  if (temporary != nullptr) ctx.tensors_.at({kTemporary, 0}).set_data(temporary);
  kernel_->Compute(&ctx, state_.get(), cache_.get());
}

std::vector<std::pair<std::string, int64_t>> KernelLaunch::BufferSizes() const {
  std::vector<std::pair<std::string, int64_t>> sizes;
  for (const ArgVec *args : {&call_.inputs, &call_.outputs}) {
    for (const auto &arg : *args) {
      sizes.emplace_back(arg.first + "[" + std::to_string(arg.second) + "]", Bytes(call_.descs.at(arg)));
    }
  }
  return sizes;
}

void KernelLaunch::RunGuarded(void *const *buffers) {
  if (all_empty_ && !kernel_->AlwaysComputeWhenAllOutputsEmpty()) return;
  const size_t num_inputs = call_.inputs.size(), count = num_inputs + call_.outputs.size();
  std::vector<std::pair<std::string, int64_t>> sizes = BufferSizes();
  if (temporary_bytes_ > 0) sizes.emplace_back(kTemporary, temporary_bytes_);
  const GuardedBuffers guarded(sizes);
  std::vector<void *> pointers;
  for (size_t i = 0; i < count; ++i) {
    pointers.push_back(guarded.data(i));
    if (i < num_inputs && guarded.bytes(i) > 0) std::memcpy(guarded.data(i), buffers[i], guarded.bytes(i));
  }
  Compute(pointers.data(), temporary_bytes_ > 0 ? guarded.data(count) : nullptr, nullptr);
  guarded.CheckGuards();
  for (size_t i = 0; i < count; ++i) {
    if (guarded.bytes(i) == 0) continue;
    if (i >= num_inputs) {
      guarded.CheckWritten(i);
      std::memcpy(buffers[i], guarded.data(i), guarded.bytes(i));
    } else if (std::memcmp(buffers[i], guarded.data(i), guarded.bytes(i)) != 0) {
      throw CheckError("its kernel wrote its input " + guarded.name(i) + "; give what is written as an output");
    }
  }
}

}  // namespace user_op
}  // namespace oneflow
