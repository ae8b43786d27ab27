// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @adagrad_update(
// CHECK: "oneflow.adagrad_update"({{.*}}) {epsilon = 1.000000e-03 : f32, learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 1, 0>} : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>) -> (tensor<3x4xf16>, tensor<3x4xf16>)
func.func @adagrad_update(%arg0: tensor<3x4xf16>, %arg1: tensor<3x4xf16>, %arg2: tensor<3x4xf16>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0:2 = "oneflow.adagrad_update"(%arg0, %arg1, %arg2) {epsilon = 1.000000e-03 : f32, learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 1, 0>} : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>) -> (tensor<*xf16>, tensor<*xf16>)
  return %0#0, %0#1 : tensor<*xf16>, tensor<*xf16>
}

// CHECK-LABEL: func.func @adam_update(
// CHECK: "oneflow.adam_update"({{.*}}) {epsilon = 1.000000e-03 : f32, learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0>, resultSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>) -> (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>)
func.func @adam_update(%arg0: tensor<3x4xf16>, %arg1: tensor<3x4xf16>, %arg2: tensor<3x4xf16>, %arg3: tensor<3x4xf16>) -> (tensor<*xf16>, tensor<*xf16>, tensor<*xf16>) {
  %0:3 = "oneflow.adam_update"(%arg0, %arg1, %arg2, %arg3) {epsilon = 1.000000e-03 : f32, learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0>, resultSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>) -> (tensor<*xf16>, tensor<*xf16>, tensor<*xf16>)
  return %0#0, %0#1, %0#2 : tensor<*xf16>, tensor<*xf16>, tensor<*xf16>
}

// CHECK-LABEL: func.func @rmsprop_update(
// CHECK: "oneflow.rmsprop_update"({{.*}}) {epsilon = 1.000000e-03 : f32, learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>) -> (tensor<3x4xf16>, tensor<3x4xf16>)
func.func @rmsprop_update(%arg0: tensor<3x4xf16>, %arg1: tensor<3x4xf16>, %arg2: tensor<3x4xf16>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0:2 = "oneflow.rmsprop_update"(%arg0, %arg1, %arg2) {epsilon = 1.000000e-03 : f32, learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>) -> (tensor<*xf16>, tensor<*xf16>)
  return %0#0, %0#1 : tensor<*xf16>, tensor<*xf16>
}
