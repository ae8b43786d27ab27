// RUN: oneflow-opt %s --oneflow-infer-types --split-input-file | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-decompose --convert-oneflow-to-linalg --split-input-file | FileCheck %s --check-prefix=BODY

// The slope is taken at the operand or at the result; the gradient has the type of both.
// CHECK-LABEL: func.func @at_operand(
// CHECK-SAME: -> (tensor<2x3xf32>, tensor<?x3xf16>, tensor<4xf64>)
// BODY-LABEL: func.func @at_operand(
// BODY: math.cos
// BODY: arith.mulf
func.func @at_operand(%x: tensor<2x3xf32>, %h: tensor<?x3xf16>, %d: tensor<4xf64>)
    -> (tensor<*xf32>, tensor<*xf16>, tensor<*xf64>) {
  %0 = "oneflow.sin_grad"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.leaky_relu_grad"(%h, %h) {alpha = 0.1 : f32} : (tensor<?x3xf16>, tensor<?x3xf16>) -> tensor<*xf16>
  %2 = "oneflow.scalar_pow_grad"(%d, %d) {float_operand = 3.0 : f64, has_float_operand = true}
    : (tensor<4xf64>, tensor<4xf64>) -> tensor<*xf64>
  return %0, %1, %2 : tensor<*xf32>, tensor<*xf16>, tensor<*xf64>
}

// -----

// The result has the sizes that are known from either operand.
// CHECK-LABEL: func.func @at_result(
// CHECK-SAME: -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK: "oneflow.relu_grad"(%arg0, %arg1) : (tensor<2x?xf32>, tensor<?x3xf32>) -> tensor<2x3xf32>
// BODY-LABEL: func.func @at_result(
// BODY: arith.cmpf
// BODY: arith.select
func.func @at_result(%y: tensor<2x?xf32>, %dy: tensor<?x3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.relu_grad"(%y, %dy) : (tensor<2x?xf32>, tensor<?x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.sigmoid_grad"(%0, %dy) : (tensor<*xf32>, tensor<?x3xf32>) -> tensor<*xf32>
  %2 = "oneflow.softshrink_grad"(%1, %0) {alpha = 0.5 : f64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0, %1, %2 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// -----

// Two operands; the gradient by a broadcast operand has the shape of the operand, not of the cotangent.
// CHECK-LABEL: func.func @two_operands(
// CHECK-SAME: -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<3xf32>)
// BODY-LABEL: func.func @two_operands(
func.func @two_operands(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.pow_x_grad"(%x, %x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.pow_y_grad"(%x, %x, %0) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<*xf32>) -> tensor<*xf32>
  %2 = "oneflow.broadcast_div_grad"(%y, %x, %1) : (tensor<3xf32>, tensor<2x3xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0, %1, %2 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @larger(
// CHECK: "oneflow.elementwise_maximum"{{.*}} -> tensor<2x3xf32>
// CHECK: "oneflow.elementwise_minimum_backward"{{.*}} -> (tensor<2x3xf32>, tensor<2x3xf32>)
func.func @larger(%x: tensor<2x?xf32>, %y: tensor<?x3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.elementwise_maximum"(%x, %y) : (tensor<2x?xf32>, tensor<?x3xf32>) -> tensor<*xf32>
  %1:2 = "oneflow.elementwise_minimum_backward"(%0, %x, %y)
    : (tensor<*xf32>, tensor<2x?xf32>, tensor<?x3xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0, %1#0, %1#1 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}
