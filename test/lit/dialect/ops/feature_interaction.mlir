// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @dots(
// CHECK: "oneflow.fused_dot_feature_interaction"(%{{.*}}, %{{.*}}, %{{.*}}) {has_output_concat = true, operandSegmentSizes = array<i32: 2, 1, 0, 0, 0>, output_padding = 1 : i32} : (tensor<3x?x3xf32>, tensor<3x?x3xf32>, tensor<3x2xf32>) -> tensor<3x6xf32>
// CHECK: "oneflow.fused_dot_feature_interaction_grad"(%{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 2, 0, 0, 0>, output_concat_grad_dim = 2 : i32, resultSegmentSizes = array<i32: 3, 0, 0>} : (tensor<3x6xf32>, tensor<3x?x3xf32>, tensor<3x?x3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
func.func @dots(%a: tensor<3x1x3xf32>, %b: tensor<3x2x3xf32>, %c: tensor<3x2xf32>, %d: tensor<3x6xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.fused_dot_feature_interaction"(%a, %b, %c) {has_output_concat = true, operandSegmentSizes = array<i32: 2, 1, 0, 0, 0>, output_padding = 1 : i32} : (tensor<3x1x3xf32>, tensor<3x2x3xf32>, tensor<3x2xf32>) -> tensor<*xf32>
  %1:3 = "oneflow.fused_dot_feature_interaction_grad"(%d, %a, %b) {operandSegmentSizes = array<i32: 1, 2, 0, 0, 0>, output_concat_grad_dim = 2 : i32, resultSegmentSizes = array<i32: 3, 0, 0>} : (tensor<3x6xf32>, tensor<3x1x3xf32>, tensor<3x2x3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0, %1#0 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @crosses(
// CHECK-NEXT: "oneflow.fused_cross_feature_interaction"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {interaction_mode = "vector"} : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<2xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x1xf32>)
// CHECK-NEXT: "oneflow.fused_cross_feature_interaction_v1_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x1xf32>) -> (tensor<3x2xf32>, tensor<1x2xf32>, tensor<3x2xf32>, tensor<2xf32>)
// CHECK-NEXT: "oneflow.fused_cross_feature_interaction_v2_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<2x2xf32>, tensor<3x2xf32>, tensor<2xf32>)
func.func @crosses(%a: tensor<3x2xf32>, %b: tensor<1x2xf32>, %c: tensor<2xf32>, %d: tensor<3x1xf32>, %e: tensor<2x2xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.fused_cross_feature_interaction"(%a, %b, %c, %a) {interaction_mode = "vector"} : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<2xf32>, tensor<3x2xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %1:4 = "oneflow.fused_cross_feature_interaction_v1_grad"(%a, %b, %a, %a, %d) : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x1xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %2:4 = "oneflow.fused_cross_feature_interaction_v2_grad"(%a, %e, %c, %a, %a, %a) : (tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0, %2#0 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}
