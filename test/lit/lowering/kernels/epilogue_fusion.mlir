// RUN: oneflow-opt %s --stage gpu-linalg | oneflow-opt --oneflow-form-kernels=gpu=true | FileCheck %s

// The epilogue of a product reads an added residual if that is cheap enough for the target.
// CHECK: func.func private @cheap_kernel_0({{.*}}oneflow.kernel = "contraction"
// CHECK-NOT: func.func private @cheap_kernel_1
// CHECK: func.func private @costly_kernel_0({{.*}}oneflow.kernel = "contraction"
// CHECK: func.func private @costly_kernel_1({{.*}}oneflow.kernel = "pointwise"
func.func @cheap(%a: tensor<64x32xf32>, %b: tensor<32x48xf32>, %r: tensor<64x48xf32>) -> tensor<64x48xf32> {
  %0 = "oneflow.matmul"(%a, %b) : (tensor<64x32xf32>, tensor<32x48xf32>) -> tensor<64x48xf32>
  %1 = "oneflow.broadcast_add"(%0, %r) : (tensor<64x48xf32>, tensor<64x48xf32>) -> tensor<64x48xf32>
  return %1 : tensor<64x48xf32>
}

func.func @costly(%a: tensor<64x32xf32>, %b: tensor<32x48xf32>, %r: tensor<64x48xf32>, %s: tensor<64x48xf32>,
    %t: tensor<64x48xf32>, %u: tensor<64x48xf32>) -> tensor<64x48xf32> {
  %0 = "oneflow.matmul"(%a, %b) : (tensor<64x32xf32>, tensor<32x48xf32>) -> tensor<64x48xf32>
  %1 = "oneflow.broadcast_add"(%0, %r) : (tensor<64x48xf32>, tensor<64x48xf32>) -> tensor<64x48xf32>
  %2 = "oneflow.broadcast_mul"(%1, %s) : (tensor<64x48xf32>, tensor<64x48xf32>) -> tensor<64x48xf32>
  %3 = "oneflow.broadcast_add"(%2, %t) : (tensor<64x48xf32>, tensor<64x48xf32>) -> tensor<64x48xf32>
  %4 = "oneflow.broadcast_mul"(%3, %u) : (tensor<64x48xf32>, tensor<64x48xf32>) -> tensor<64x48xf32>
  return %4 : tensor<64x48xf32>
}
