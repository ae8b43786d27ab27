// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @binary_cross_entropy(
// CHECK: "oneflow.binary_cross_entropy"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @binary_cross_entropy(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.binary_cross_entropy"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @kl_div_loss(
// CHECK: "oneflow.kl_div_loss"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @kl_div_loss(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.kl_div_loss"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @smooth_l1_loss(
// CHECK: "oneflow.smooth_l1_loss"({{.*}}) {beta = 1.000000e+00 : f32} : (tensor<3x4xf16>, tensor<3x4xf16>) -> tensor<3x4xf16>
func.func @smooth_l1_loss(%arg0: tensor<3x4xf16>, %arg1: tensor<3x4xf16>) -> tensor<*xf16> {
  %0 = "oneflow.smooth_l1_loss"(%arg0, %arg1) {beta = 1.000000e+00 : f32} : (tensor<3x4xf16>, tensor<3x4xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
