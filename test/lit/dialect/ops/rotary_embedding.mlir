// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @rotated(
// CHECK-NEXT: "oneflow.fused_apply_rotary_emb"(%{{.*}}) {k_size = 4 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, rotary_size = 4 : i64} : (tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
func.func @rotated(%a: tensor<2x2x3x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.fused_apply_rotary_emb"(%a) {k_size = 4 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, rotary_size = 4 : i64} : (tensor<2x2x3x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
