// RUN: oneflow-opt %s --stage gpu-linalg | oneflow-opt --oneflow-form-kernels=epilogue=1 | FileCheck %s
// RUN: oneflow-opt %s --stage gpu-linalg | oneflow-opt --oneflow-form-kernels=epilogue=0 | FileCheck %s --check-prefix=APART

// The epilogue of a product reads an added residual if that is cheap enough.
// CHECK: func.func private @main_kernel_0({{.*}}oneflow.kernel = "contraction"
// CHECK-NOT: func.func private @main_kernel_1
// APART: func.func private @main_kernel_0({{.*}}oneflow.kernel = "contraction"
// APART: func.func private @main_kernel_1({{.*}}oneflow.kernel = "pointwise"
func.func @main(%a: tensor<64x32xf32>, %b: tensor<32x48xf32>, %r: tensor<64x48xf32>) -> tensor<64x48xf32> {
  %0 = "oneflow.matmul"(%a, %b) : (tensor<64x32xf32>, tensor<32x48xf32>) -> tensor<64x48xf32>
  %1 = "oneflow.broadcast_add"(%0, %r) : (tensor<64x48xf32>, tensor<64x48xf32>) -> tensor<64x48xf32>
  return %1 : tensor<64x48xf32>
}
