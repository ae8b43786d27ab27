// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @sparse_softmax_cross_entropy_grad(
// CHECK: "oneflow.sparse_softmax_cross_entropy_grad"({{.*}}) {depth = 4 : i64} : (tensor<3xi32>, tensor<3xf16>, tensor<3x4xf16>) -> tensor<3x4xf16>
func.func @sparse_softmax_cross_entropy_grad(%arg0: tensor<3xi32>, %arg1: tensor<3xf16>, %arg2: tensor<3x4xf16>) -> tensor<*xf16> {
  %0 = "oneflow.sparse_softmax_cross_entropy_grad"(%arg0, %arg1, %arg2) {depth = 4 : i64} : (tensor<3xi32>, tensor<3xf16>, tensor<3x4xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @sparse_softmax_cross_entropy_ms(
// CHECK: "oneflow.sparse_softmax_cross_entropy_ms"({{.*}}) : (tensor<3x4xf16>, tensor<3xi32>) -> (tensor<3x4xf16>, tensor<3xf16>)
func.func @sparse_softmax_cross_entropy_ms(%arg0: tensor<3x4xf16>, %arg1: tensor<3xi32>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0:2 = "oneflow.sparse_softmax_cross_entropy_ms"(%arg0, %arg1) : (tensor<3x4xf16>, tensor<3xi32>) -> (tensor<*xf16>, tensor<*xf16>)
  return %0#0, %0#1 : tensor<*xf16>, tensor<*xf16>
}

// CHECK-LABEL: func.func @sparse_softmax_cross_entropy_ms_grad(
// CHECK: "oneflow.sparse_softmax_cross_entropy_ms_grad"({{.*}}) {depth = 4 : i64} : (tensor<3xi32>, tensor<3xf16>, tensor<3x4xf16>) -> tensor<3x4xf16>
func.func @sparse_softmax_cross_entropy_ms_grad(%arg0: tensor<3xi32>, %arg1: tensor<3xf16>, %arg2: tensor<3x4xf16>) -> tensor<*xf16> {
  %0 = "oneflow.sparse_softmax_cross_entropy_ms_grad"(%arg0, %arg1, %arg2) {depth = 4 : i64} : (tensor<3xi32>, tensor<3xf16>, tensor<3x4xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
