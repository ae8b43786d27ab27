// RUN: oneflow-opt %s --stage linalg | oneflow-opt --oneflow-form-kernels=siblings=true | FileCheck %s
// RUN: oneflow-opt %s --stage linalg | oneflow-opt --oneflow-form-kernels | FileCheck %s --check-prefix=ALONE

// Sums of the same tensors over the same loops read the tensors once.
// CHECK: func.func private @main_kernel_0(
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT: func.func private @main_kernel_1
// ALONE: func.func private @main_kernel_1
func.func @main(%x: tensor<300x64xf32>, %y: tensor<300x64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %0 = "oneflow.reduce_sum"(%x) {axis = [0 : si32], keepdims = false} : (tensor<300x64xf32>) -> tensor<64xf32>
  %1 = "oneflow.broadcast_mul"(%x, %y) : (tensor<300x64xf32>, tensor<300x64xf32>) -> tensor<300x64xf32>
  %2 = "oneflow.reduce_sum"(%1) {axis = [0 : si32], keepdims = false} : (tensor<300x64xf32>) -> tensor<64xf32>
  return %0, %2 : tensor<64xf32>, tensor<64xf32>
}
