// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @gated(
// CHECK-NEXT: "oneflow.fused_glu"(%{{.*}}, %{{.*}}, %{{.*}}) {activation = "gelu", has_bias = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<3x2xf32>, tensor<4x2xf32>, tensor<4xf32>) -> (tensor<3x2xf32>, tensor<3x4xf32>)
// CHECK-NEXT: "oneflow.fused_glu_without_linear_grad"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
func.func @gated(%a: tensor<3x2xf32>, %b: tensor<4x2xf32>, %c: tensor<4xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.fused_glu"(%a, %b, %c) {activation = "gelu", has_bias = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<3x2xf32>, tensor<4x2xf32>, tensor<4xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %1:2 = "oneflow.fused_glu_without_linear_grad"(%a, %a, %a) : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0 : tensor<*xf32>, tensor<*xf32>
}
