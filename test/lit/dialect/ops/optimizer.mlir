// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// The new parameter comes first, then the new states, all of its type.
// CHECK-LABEL: func.func @states(
// CHECK-SAME: -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>)
func.func @states(%p: tensor<4x3xf32>, %g: tensor<4x3xf16>, %s: tensor<4x3xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.sgd_update"(%p, %g) {learning_rate_val = 0.1 : f32, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>}
    : (tensor<4x3xf32>, tensor<4x3xf16>) -> tensor<*xf32>
  %1:2 = "oneflow.momentum_update"(%p, %g, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>}
    : (tensor<4x3xf32>, tensor<4x3xf16>, tensor<4x3xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %2:3 = "oneflow.lamb_update"(%p, %g, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 1, 1, 0>}
    : (tensor<4x3xf32>, tensor<4x3xf16>, tensor<4x3xf32>, tensor<4x3xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0, %1#0, %1#1, %2#0, %2#1, %2#2
    : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// A learning rate and a condition to skip the step are tensors of one element.
// CHECK-LABEL: func.func @numbers(
// CHECK-SAME: -> (tensor<5xf64>, tensor<f32>)
func.func @numbers(%p: tensor<5xf64>, %rate: tensor<1xf32>, %skip: tensor<i64>) -> (tensor<*xf64>, tensor<*xf32>) {
  // CHECK: "oneflow.sgd_update"(%arg0, %arg0, %arg1, %arg2)
  %0 = "oneflow.sgd_update"(%p, %p, %rate, %skip) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 1>}
    : (tensor<5xf64>, tensor<5xf64>, tensor<1xf32>, tensor<i64>) -> tensor<*xf64>
  // CHECK: "oneflow.adam_bias_correction_factor"({{.*}}) {beta = 8.000000e-01 : f32} : (tensor<i64>) -> tensor<f32>
  %1 = "oneflow.adam_bias_correction_factor"(%skip) {beta = 0.8 : f32} : (tensor<i64>) -> tensor<*xf32>
  return %0, %1 : tensor<*xf64>, tensor<*xf32>
}

// Segment sizes in OneFlow's form, without a copy of the parameter.
// CHECK-LABEL: func.func @more(
// CHECK: "oneflow.lars_update"{{.*}} -> (tensor<4xf32>, tensor<4xf32>)
// CHECK: "oneflow.ftrl_update"{{.*}} -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
// CHECK: "oneflow.adadelta_update"{{.*}} -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
func.func @more(%p: tensor<4xf32>, %rate: tensor<1xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.lars_update"(%p, %p, %rate, %p) {operand_segment_sizes = array<i32: 1, 1, 1, 1, 0, 0>}
    : (tensor<4xf32>, tensor<4xf32>, tensor<1xf32>, tensor<4xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %1:3 = "oneflow.ftrl_update"(%p, %p, %p, %p) {
    learning_rate_val = 0.1 : f32, operand_segment_sizes = array<i32: 1, 1, 0, 0, 1, 1>}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %2:3 = "oneflow.adadelta_update"(%p, %p, %p, %p) {
    learning_rate_val = 0.1 : f32, operand_segment_sizes = array<i32: 1, 1, 0, 0, 1, 1>}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0, %2#0 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}
