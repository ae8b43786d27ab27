// RUN: oneflow-opt %s --oneflow-autodiff --split-input-file | FileCheck %s

// Values that are not between the argument and the result cost nothing: even the forward value is not computed.
// CHECK-LABEL: func.func @unused_grad(
// CHECK-NOT: matmul
// CHECK-NOT: tanh
// CHECK: return
func.func @unused(%x: tensor<3x3xf32>) -> tensor<f32> {
  %0 = "oneflow.matmul"(%x, %x) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = "oneflow.tanh"(%0) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %2 = "oneflow.reduce_sum"(%x) {axis = array<i32: 0, 1>} : (tensor<3x3xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// An argument that nothing depends on has a gradient of zeros.
// CHECK-LABEL: func.func @zero_grad(
// CHECK-SAME: %[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<?x3xf32>
// CHECK: %[[Z:.*]] = "oneflow.zero_like"(%[[Y]]) : (tensor<?x3xf32>) -> tensor<?x3xf32>
// CHECK-NEXT: return %{{.*}}, %[[Z]]
func.func @zero(%x: tensor<f32>, %y: tensor<?x3xf32>) -> tensor<f32> {
  %0 = "oneflow.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Integers and bools end a path: positions, conditions and casts.
// CHECK-LABEL: func.func @integers_grad(
// CHECK: %[[C:.*]] = "oneflow.scalar_logical_greater"
// CHECK-NOT: argmax
// CHECK: %[[W:.*]] = "oneflow.where"(%[[C]], %[[DY:[0-9]+]], %{{[0-9]+}})
// CHECK-NEXT: return %[[W]]
func.func @integers(%x: tensor<3xf32>) -> tensor<f32> {
  %0 = "oneflow.scalar_logical_greater"(%x) {has_float_operand = true} : (tensor<3xf32>) -> tensor<3xi1>
  %1 = "oneflow.zero_like"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "oneflow.where"(%0, %x, %1) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = "oneflow.argmax"(%x) : (tensor<3xf32>) -> tensor<i64>
  %4 = "oneflow.cast"(%3) {dtype = f32} : (tensor<i64>) -> tensor<f32>
  %5 = "oneflow.reduce_sum"(%2) {axis = array<i32: 0>} : (tensor<3xf32>) -> tensor<f32>
  %6 = "oneflow.broadcast_add"(%5, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %6 : tensor<f32>
}

// -----

// No gradient flows through stop_gradient, nor into the values before stop_gradient.
// CHECK-LABEL: func.func @stopped_grad(
// CHECK-SAME: %[[X:.*]]: tensor<f32>
// CHECK: %[[S:.*]] = "oneflow.stop_gradient"(%[[X]])
// CHECK-NEXT: "oneflow.constant"
// CHECK-NEXT: %[[G:.*]] = "oneflow.broadcast_mul"(%{{.*}}, %[[S]])
// CHECK-NEXT: return %[[G]]
func.func @stopped(%x: tensor<f32>) -> tensor<f32> {
  %0 = "oneflow.stop_gradient"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "oneflow.broadcast_mul"(%x, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Of several results, those without a cotangent are left out of the gradient.
// CHECK-LABEL: func.func @norm_grad(
// CHECK: "oneflow.layer_norm_grad"
// CHECK-NOT: layer_norm_param_grad
// CHECK: return
func.func @norm(%x: tensor<2x3xf32>) -> tensor<f32> {
  %y, %mean, %inv = "oneflow.layer_norm"(%x) {operandSegmentSizes = array<i32: 1, 0, 0>, center = false, scale = false, begin_norm_axis = 1 : i64, begin_params_axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>)
  %0 = "oneflow.reduce_sum"(%y) {axis = array<i32: 0, 1>} : (tensor<2x3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}
