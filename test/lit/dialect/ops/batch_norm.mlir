// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// In inference the results of training are absent.
// CHECK-LABEL: func.func @normalization(
// CHECK: "oneflow.normalization"{{.*}} : (tensor<2x?x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4xf32>
func.func @normalization(%x: tensor<2x?x4xf32>, %p: tensor<3xf32>) -> tensor<*xf32> {
  %y = "oneflow.normalization"(%x, %p, %p, %p, %p) {
    axis = 1 : si32, epsilon = 1.0e-5 : f32, operand_segment_sizes = array<i32: 1, 1, 1, 1, 1, 0>,
    result_segment_sizes = array<i32: 1, 0, 0>
  } : (tensor<2x?x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<*xf32>
  return %y : tensor<*xf32>
}

// In training the mean and 1 / deviation of the batch are results, and so are moving statistics, if present.
// CHECK-LABEL: func.func @training(
// CHECK: "oneflow.normalization"{{.*}} -> (tensor<2x3xf16>, tensor<3xf32>, tensor<3xf32>)
// CHECK: "oneflow.normalization"{{.*}} -> (tensor<2x3xf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
// CHECK: "oneflow.normalization_grad"{{.*}} -> (tensor<3xf32>, tensor<3xf32>, tensor<2x3xf16>)
func.func @training(%x: tensor<2x3xf16>, %p: tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf16>) {
  %y:3 = "oneflow.normalization"(%x, %p, %p) {
    axis = 1 : si32, training = true, operand_segment_sizes = array<i32: 1, 0, 0, 1, 1, 0>,
    result_segment_sizes = array<i32: 1, 1, 1>
  } : (tensor<2x3xf16>, tensor<3xf32>, tensor<3xf32>)
    -> (tensor<*xf16>, tensor<*xf32>, tensor<*xf32>)
  %z:5 = "oneflow.normalization"(%y#0, %p, %p, %p, %p) {
    axis = 1 : si32, training = true, operand_segment_sizes = array<i32: 1, 1, 1, 1, 1, 0>,
    result_segment_sizes = array<i32: 1, 1, 1, 1, 1>
  } : (tensor<*xf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    -> (tensor<*xf16>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %d:3 = "oneflow.normalization_grad"(%x, %z#0, %y#1, %y#2, %p) {axis = 1 : si32}
    : (tensor<2x3xf16>, tensor<*xf16>, tensor<*xf32>, tensor<*xf32>, tensor<3xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf16>)
  return %z#4, %d#2 : tensor<*xf32>, tensor<*xf16>
}
