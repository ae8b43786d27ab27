// RUN: oneflow-opt %s --oneflow-to-triton | FileCheck %s

// The kernel of @other is one of the two that a launch of @main fuses; the call in @other keeps the kernel.
// CHECK: func.func private @main_kernel_0_1(
// CHECK: func.func private @main_kernel_0(
// CHECK-SAME: oneflow.triton
// CHECK-NOT: func.func private @main_kernel_1(
// CHECK: call @main_kernel_0(
func.func @main(%x: tensor<8xf32>, %y: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %0 = "oneflow.relu"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "oneflow.exp"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<8xf32>, tensor<4xf32>
}

func.func @other(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
