// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @elements(
// CHECK: "oneflow.binary_cross_entropy_with_logits"{{.*}} : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
func.func @elements(%x: tensor<?x4xf32>, %t: tensor<3x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.binary_cross_entropy_with_logits"(%x, %t) {operand_segment_sizes = array<i32: 1, 1, 0, 0>}
    : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
