// RUN: oneflow-opt %s --convert-oneflow-to-linalg | FileCheck %s

// Conditions that type rules check for static sizes are checked at run time for unknown sizes, before any read.

// CHECK: oneflow.sites = [
// CHECK-SAME: "oneflow.avg_pool_2d_grad: dimension 2 of x, which is too small
// CHECK-SAME: "oneflow.avg_pool_2d_grad: dimension 2 of dy, which is ((dimension 2 of x - 3) // 2) + 1
// CHECK-SAME: "oneflow.group_norm: dimension 1 of x % 2
// CHECK-SAME: "oneflow.argmax: dimension 1 of in, which is too small
// CHECK-SAME: "tensor.cast: dimension 0

// CHECK-LABEL: func.func @windows(
// CHECK: %[[DY:.*]] = tensor.dim %arg1
// CHECK: call @oneflow_rt_check_size
// CHECK: linalg.generic
func.func @windows(%x: tensor<1x2x?x4xf32>, %dy: tensor<1x2x?x1xf32>) -> tensor<1x2x?x4xf32> {
  %0 = "oneflow.avg_pool_2d_grad"(%x, %dy) {
    kernel_size = [3 : si32, 4 : si32], stride = [2 : si32, 2 : si32], padding = [0 : si32, 0 : si32],
    data_format = "channels_first"} : (tensor<1x2x?x4xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x4xf32>
  return %0 : tensor<1x2x?x4xf32>
}

// A remainder, of which the size of the rest is none.

// CHECK-LABEL: func.func @remainder(
// CHECK: arith.remsi
// CHECK: call @oneflow_rt_check_size
func.func @remainder(%x: tensor<2x?x3xf32>) -> (tensor<2x?x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %0:3 = "oneflow.group_norm"(%x) {num_groups = 2 : si32, affine = false, epsilon = 1.0e-5 : f64}
      : (tensor<2x?x3xf32>) -> (tensor<2x?x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x?x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// CHECK-LABEL: func.func @not_empty(
// CHECK: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: arith.minsi
// CHECK: call @oneflow_rt_check_size
func.func @not_empty(%x: tensor<2x?xf32>) -> tensor<2xi64> {
  %0 = "oneflow.argmax"(%x) : (tensor<2x?xf32>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}

// CHECK-LABEL: func.func @cast(
// CHECK: call @oneflow_rt_check_size
// CHECK-NEXT: tensor.cast %arg0
func.func @cast(%x: tensor<?x3xf32>) -> tensor<4x3xf32> {
  %0 = tensor.cast %x : tensor<?x3xf32> to tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// Casts between known sizes, or to less known sizes, have no check.

// CHECK-LABEL: func.func @known(
// CHECK-NOT: call @oneflow_rt_check_size
func.func @known(%x: tensor<4x3xf32>) -> tensor<?x3xf32> {
  %0 = tensor.cast %x : tensor<4x3xf32> to tensor<?x3xf32>
  %1 = "oneflow.argmax"(%x) : (tensor<4x3xf32>) -> tensor<4xi64>
  return %0 : tensor<?x3xf32>
}

// Storage types are propagated along unknown sizes as along known sizes.

// CHECK-LABEL: func.func @stored(
// CHECK: call @oneflow_rt_check_index
// CHECK: -> tensor<2x3xf8E4M3FN>
func.func @stored(%x: tensor<?x1xf8E4M3FN>) -> tensor<2x3xf8E4M3FN> {
  %0 = "oneflow.expand"(%x) {expand_shape = [2, 3]} : (tensor<?x1xf8E4M3FN>) -> tensor<2x3xf8E4M3FN>
  return %0 : tensor<2x3xf8E4M3FN>
}
