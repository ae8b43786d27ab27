// RUN: oneflow-opt %s --oneflow-autodiff --split-input-file | FileCheck %s

// The source function is unchanged; the gradient function comes after the source, in the type of the argument.
// CHECK-LABEL: func.func @square(
// CHECK: func.func @square_grad(%[[X:.*]]: tensor<3xf32>) -> tensor<3xf32>
// CHECK-NEXT: %[[S:.*]] = "oneflow.square"(%[[X]])
// CHECK-NEXT: %[[ONE:.*]] = "oneflow.constant"() {dtype = f32, floating_value = 1.0{{.*}}} : () -> tensor<f32>
// CHECK-NEXT: %[[DY:.*]] = "oneflow.broadcast_like"(%[[ONE]], %[[S]])
// CHECK-NEXT: %[[XX:.*]] = "oneflow.broadcast_add"(%[[X]], %[[X]])
// CHECK-NEXT: %[[G:.*]] = "oneflow.broadcast_mul"(%[[DY]], %[[XX]])
// CHECK-NEXT: return %[[G]] : tensor<3xf32>
func.func @square(%x: tensor<3xf32>) -> tensor<f32> {
  %0 = "oneflow.square"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "oneflow.reduce_sum"(%0) {axis = array<i32: 0>} : (tensor<3xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// The gradient of a broadcast operand is summed to the shape of the operand.
// CHECK-LABEL: func.func @bias_grad(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>)
// CHECK: %[[S:.*]] = "oneflow.reduce_sum_like"(%[[DY:.*]], %[[B]]) {axis = array<i32: 0>}
// CHECK: return %[[DY]], %[[S]]
func.func @bias(%x: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<f32> {
  %0 = "oneflow.broadcast_add"(%x, %b) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.reduce_sum"(%0) {axis = array<i32: 0, 1>} : (tensor<2x3xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Three uses: two sums.
// CHECK-LABEL: func.func @uses_grad(
// CHECK-SAME: %[[X:.*]]: tensor<f32>) -> tensor<f32>
// CHECK: %[[A:.*]] = "oneflow.broadcast_add"(%[[ONE:.*]], %[[ONE]])
// CHECK-NEXT: %[[B:.*]] = "oneflow.broadcast_add"(%[[A]], %[[ONE]])
// CHECK-NEXT: return %[[B]]
func.func @uses(%x: tensor<f32>) -> tensor<f32> {
  %0 = "oneflow.broadcast_add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "oneflow.broadcast_add"(%0, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// A result with one element, of any rank, has the default cotangent 1.
// CHECK-LABEL: func.func @one_element_grad(%{{.*}}: tensor<1x1xf64>) -> tensor<1x1xf64>
// CHECK: "oneflow.constant"() {dtype = f64, floating_value = 1.0{{.*}} shape = array<i64: 1, 1>} : () -> tensor<1x1xf64>
func.func @one_element(%x: tensor<1x1xf64>) -> tensor<1x1xf64> {
  %0 = "oneflow.scalar_mul"(%x) {has_float_operand = true, float_operand = 3.0 : f64} : (tensor<1x1xf64>) -> tensor<1x1xf64>
  return %0 : tensor<1x1xf64>
}

// -----

// A 16-bit value is differentiated in f32 and has a 16-bit gradient.
// CHECK-LABEL: func.func @half_grad(%{{.*}}: tensor<f16>) -> tensor<f16>
// CHECK: "oneflow.cast"(%{{.*}}) {dtype = f16} : (tensor<f32>) -> tensor<f16>
func.func @half(%x: tensor<f16>) -> tensor<f16> {
  %0 = "oneflow.tanh"(%x) : (tensor<f16>) -> tensor<f16>
  return %0 : tensor<f16>
}
