// RUN: oneflow-opt %s --oneflow-infer-types --split-input-file | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --convert-oneflow-to-linalg --split-input-file | FileCheck %s --check-prefix=BODY

// CHECK-LABEL: func.func @losses(
// CHECK-SAME: -> (tensor<2x3xf32>, tensor<2x3xf32>)
// BODY-LABEL: func.func @losses(
// BODY: arith.select
func.func @losses(%x: tensor<2x?xf32>, %dy: tensor<?x3xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.smooth_l1_loss_grad"(%x, %dy, %dy) {beta = 1.0 : f32}
    : (tensor<2x?xf32>, tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.kl_div_loss_grad"(%0, %x, %dy) {log_target = true}
    : (tensor<*xf32>, tensor<2x?xf32>, tensor<?x3xf32>) -> tensor<*xf32>
  return %0, %1 : tensor<*xf32>, tensor<*xf32>
}

// -----

// Optional operands come before the cotangent; divisors of the gradient stay away from 0.
// CHECK-LABEL: func.func @cross_entropy(
// CHECK: "oneflow.binary_cross_entropy_grad"(%arg0, %arg0, %arg1)
// CHECK-SAME: operandSegmentSizes = array<i32: 1, 1, 0, 1>
// CHECK-SAME: -> tensor<4xf32>
// BODY-LABEL: func.func @cross_entropy(
// BODY: arith.constant 9.9{{.*}}E-13 : f32
// BODY: arith.divf
func.func @cross_entropy(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.binary_cross_entropy_grad"(%x, %x, %dy) {operand_segment_sizes = array<i32: 1, 1, 0, 1>}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
