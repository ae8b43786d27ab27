// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// A weight of one element applies to all elements.
// CHECK-LABEL: func.func @lerp(
// CHECK: "oneflow.lerp"({{.*}}) : (tensor<2x?xf32>, tensor<?x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
// CHECK: "oneflow.scalar_lerp"({{.*}}float_operand = 5.000000e-01 : f64{{.*}} -> tensor<2x3xf32>
func.func @lerp(%a: tensor<2x?xf32>, %b: tensor<?x3xf32>, %w: tensor<1xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.lerp"(%a, %b, %w) : (tensor<2x?xf32>, tensor<?x3xf32>, tensor<1xf32>) -> tensor<*xf32>
  %1 = "oneflow.scalar_lerp"(%a, %b) {has_float_operand = true, float_operand = 0.5 : f64}
    : (tensor<2x?xf32>, tensor<?x3xf32>) -> tensor<*xf32>
  return %0, %1 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @grads(
// CHECK-SAME: -> (tensor<4xf16>, tensor<4xf16>, tensor<4xf16>, tensor<4xf16>, tensor<4xf16>)
func.func @grads(%a: tensor<4xf16>) -> (tensor<*xf16>, tensor<*xf16>, tensor<*xf16>, tensor<*xf16>, tensor<*xf16>) {
  %0:3 = "oneflow.lerp_grad"(%a, %a, %a, %a)
    : (tensor<4xf16>, tensor<4xf16>, tensor<4xf16>, tensor<4xf16>) -> (tensor<*xf16>, tensor<*xf16>, tensor<*xf16>)
  %1:2 = "oneflow.scalar_lerp_grad"(%a, %a, %a) {has_int_operand = true, int_operand = 2 : si64}
    : (tensor<4xf16>, tensor<4xf16>, tensor<4xf16>) -> (tensor<*xf16>, tensor<*xf16>)
  return %0#0, %0#1, %0#2, %1#0, %1#1 : tensor<*xf16>, tensor<*xf16>, tensor<*xf16>, tensor<*xf16>, tensor<*xf16>
}
