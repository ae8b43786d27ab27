// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @log_softmax_grad(
// CHECK: "oneflow.log_softmax_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @log_softmax_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.log_softmax_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @softmax_grad(
// CHECK: "oneflow.softmax_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @softmax_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.softmax_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
