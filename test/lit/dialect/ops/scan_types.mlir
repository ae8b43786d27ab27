// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @cumprod_grad(
// CHECK: "oneflow.cumprod_grad"({{.*}}) {dim = 1 : i64} : (tensor<2x3x2xf16>, tensor<2x3x2xf16>, tensor<2x3x2xf16>) -> tensor<2x3x2xf16>
func.func @cumprod_grad(%arg0: tensor<2x3x2xf16>, %arg1: tensor<2x3x2xf16>, %arg2: tensor<2x3x2xf16>) -> tensor<*xf16> {
  %0 = "oneflow.cumprod_grad"(%arg0, %arg1, %arg2) {dim = 1 : i64} : (tensor<2x3x2xf16>, tensor<2x3x2xf16>, tensor<2x3x2xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @product_of_others(
// CHECK: "oneflow.product_of_others"({{.*}}) {axis = array<i32: 1>} : (tensor<2x3x2xf16>) -> tensor<2x3x2xf16>
func.func @product_of_others(%arg0: tensor<2x3x2xf16>) -> tensor<*xf16> {
  %0 = "oneflow.product_of_others"(%arg0) {axis = array<i32: 1>} : (tensor<2x3x2xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
