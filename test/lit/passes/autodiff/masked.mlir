// RUN: oneflow-opt %s --oneflow-autodiff --split-input-file | FileCheck %s

// A slope that can be infinite is multiplied so that a zero cotangent wins.
// CHECK-LABEL: func.func @root_grad(
// CHECK: "oneflow.broadcast_mul_no_nan"
func.func @root(%x: tensor<f32>) -> tensor<f32> {
  %0 = "oneflow.sqrt"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Slopes that are always finite are not.
// CHECK-LABEL: func.func @smooth_grad(
// CHECK-NOT: no_nan
// CHECK: return
func.func @smooth(%x: tensor<f32>) -> tensor<f32> {
  %0 = "oneflow.sigmoid"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "oneflow.gelu"(%0) : (tensor<f32>) -> tensor<f32>
  %2 = "oneflow.softplus"(%1) {beta = 1.0 : f64, threshold = 20.0 : f64} : (tensor<f32>) -> tensor<f32>
  %3 = "oneflow.scalar_pow"(%2) {has_float_operand = true, float_operand = 3.0 : f64} : (tensor<f32>) -> tensor<f32>
  %4 = "oneflow.broadcast_mul"(%3, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %4 : tensor<f32>
}

// -----

// x * log(x): the factor log(x) may be infinite, through a reshape too, so its product is masked as well.
// CHECK-LABEL: func.func @entropy_grad(
// CHECK: %[[L:.*]] = "oneflow.log"
// CHECK: %[[R:.*]] = "oneflow.reshape"(%[[L]])
// CHECK: "oneflow.broadcast_mul_no_nan"(%{{.*}}, %[[R]])
// CHECK: "oneflow.broadcast_mul_no_nan"
func.func @entropy(%x: tensor<1xf32>) -> tensor<f32> {
  %0 = "oneflow.log"(%x) : (tensor<1xf32>) -> tensor<1xf32>
  %1 = "oneflow.reshape"(%0) {shape = array<i64>} : (tensor<1xf32>) -> tensor<f32>
  %2 = "oneflow.reshape"(%x) {shape = array<i64>} : (tensor<1xf32>) -> tensor<f32>
  %3 = "oneflow.broadcast_mul"(%2, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

// A sum with an infinite element is infinite: nothing after the sum is masked.
// CHECK-LABEL: func.func @summed_grad(
// CHECK: "oneflow.broadcast_mul"(%{{.*}}, %{{.*}}) : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK-COUNT-1: no_nan
// CHECK-NOT: no_nan
func.func @summed(%x: tensor<3xf32>, %w: tensor<f32>) -> tensor<f32> {
  %0 = "oneflow.log"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "oneflow.reduce_sum"(%0) {axis = array<i32: 0>} : (tensor<3xf32>) -> tensor<f32>
  %2 = "oneflow.broadcast_mul"(%w, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
