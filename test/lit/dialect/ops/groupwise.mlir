// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @weights(
// CHECK-NEXT: "oneflow.groupwise_dequantize"(%{{.*}}, %{{.*}}) {group_dim = 1 : i64, group_size = 2 : i64} : (tensor<3x4xui8>, tensor<3x2xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: "oneflow.fused_linear_with_groupwise_quantized_weight"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {group_dim = 1 : i64, group_size = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, symmetric = false} : (tensor<3x4xf32>, tensor<3x4xui8>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3xf32>) -> tensor<3x3xf32>
func.func @weights(%a: tensor<3x4xui8>, %b: tensor<3x2xf32>, %c: tensor<3x4xf32>, %d: tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.groupwise_dequantize"(%a, %b) {group_dim = 1 : i64, group_size = 2 : i64} : (tensor<3x4xui8>, tensor<3x2xf32>) -> tensor<*xf32>
  %1 = "oneflow.fused_linear_with_groupwise_quantized_weight"(%c, %a, %b, %b, %d) {group_dim = 1 : i64, group_size = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, symmetric = false} : (tensor<3x4xf32>, tensor<3x4xui8>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3xf32>) -> tensor<*xf32>
  return %0, %1 : tensor<*xf32>, tensor<*xf32>
}
