// An operator with a kernel for the CPU and one for a CUDA device; test_device_kernels.py says what it computes.
#include "oneflow/core/ep/cuda/cuda_stream.h"
#include "oneflow/core/framework/framework.h"
#include "oneflow/core/kernel/util/cuda_half_util.h"

namespace oneflow {
namespace {

// t_device: out = x * factor, with the temporary memory of the kernel between; "where" selects the kernel.
REGISTER_USER_OP("t_device")
    .Input("x")
    .Output("out")
    .Attr<float>("factor", 2.0f)
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetGetSbpFn(user_op::GetSbpFnUtil::SplitForEachAxis);

class CpuKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    float *out = ctx->Tensor4ArgNameAndIndex("out", 0)->mut_dptr<float>();
    const float factor = ctx->Attr<float>("factor");
    FOR_RANGE(int64_t, i, 0, x->shape().elem_cnt()) { out[i] = x->dptr<float>()[i] * factor; }
  }
};
REGISTER_USER_KERNEL("t_device")
    .SetCreateFn<CpuKernel>()
    .SetIsMatchedHob((user_op::HobDeviceType() == DeviceType::kCPU) & (user_op::HobDataType("x", 0) == kFloat));

template <typename T>
__global__ void Scale(const int64_t n, const T factor, const T *x, T *y) {
  CUDA_1D_KERNEL_LOOP(i, n) { y[i] = x[i] * factor; }
}

template <typename T>
class GpuKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    user_op::Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    T *tmp = reinterpret_cast<T *>(ctx->Tensor4ArgNameAndIndex("tmp_buffer", 0)->mut_dptr<char>());
    const int64_t n = x->shape().elem_cnt();
    const T factor = static_cast<T>(ctx->Attr<float>("factor"));
    RUN_CUDA_KERNEL((Scale<T>), ctx->device_ctx(), n, n, factor, x->dptr<T>(), tmp);
    Scale<T><<<32, 256, 0, ctx->stream()->As<ep::CudaStream>()->cuda_stream()>>>(n, T(1), tmp, out->mut_dptr<T>());
    OF_CUDA_CHECK(cudaGetLastError());
  }
};

__global__ void ScaleHalves(const int64_t n, const half factor, const half *x, half *y) {
  CUDA_1D_KERNEL_LOOP(i, n) { y[i] = __hfma(x[i], __hmul(factor, hone()), hzero()); }
}

class HalfKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    const half *from = reinterpret_cast<const half *>(x->dptr<float16>());
    half *to = reinterpret_cast<half *>(ctx->Tensor4ArgNameAndIndex("out", 0)->mut_dptr<float16>());
    const int64_t n = x->shape().elem_cnt();
    const half factor = float16_2half(float16(ctx->Attr<float>("factor")));
    CHECK_EQ(float(half2float16(factor)), ctx->Attr<float>("factor"));
    ep::CudaStream *stream = ctx->stream()->As<ep::CudaStream>();
    CHECK_GE(stream->cuda_arch(), 530);
    stream->LaunchKernelDefaultWaves(ScaleHalves, n, n, factor, from, to);
    OF_CUDA_CHECK(cudaGetLastError());
  }
};
REGISTER_USER_KERNEL("t_device")
    .SetCreateFn<HalfKernel>()
    .SetIsMatchedHob((user_op::HobDeviceType() == DeviceType::kCUDA) && (user_op::HobDataType("x", 0) == kFloat16));
#define REGISTER_GPU_KERNEL(T)                                                             \
  REGISTER_USER_KERNEL("t_device")                                                         \
      .SetCreateFn<GpuKernel<T>>()                                                         \
      .SetIsMatchedHob((user_op::HobDeviceType() == DeviceType::kGPU) &&                   \
                       (user_op::HobDataType("out", 0) == GetDataType<T>::value))          \
      .SetInferTmpSizeFn([](user_op::InferContext *ctx) -> size_t {                        \
        return ctx->InputShape("x", 0).elem_cnt() * sizeof(T);                             \
      });
REGISTER_GPU_KERNEL(float)
REGISTER_GPU_KERNEL(double)

}  // namespace
}  // namespace oneflow
