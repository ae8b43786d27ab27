// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @binary_cross_entropy_with_logits_grad(
// CHECK: "oneflow.binary_cross_entropy_with_logits_grad"({{.*}}) {operandSegmentSizes = array<i32: 1, 1, 0, 0, 1>} : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @binary_cross_entropy_with_logits_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>, %arg2: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.binary_cross_entropy_with_logits_grad"(%arg0, %arg1, %arg2) {operandSegmentSizes = array<i32: 1, 1, 0, 0, 1>} : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
