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

// CHECK-LABEL: func.func @rows(
// CHECK: "oneflow.sparse_softmax_cross_entropy"{{.*}} : (tensor<?x10xf32>, tensor<?xi32>) -> (tensor<?x10xf32>, tensor<?xf32>)
// CHECK: "oneflow.nll"{{.*}} : (tensor<?x10xf32>, tensor<?xi32>) -> (tensor<?xf32>, tensor<?xf32>)
func.func @rows(%x: tensor<?x10xf32>, %label: tensor<?xi32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %prob, %loss = "oneflow.sparse_softmax_cross_entropy"(%x, %label) {depth = 10 : si64}
    : (tensor<?x10xf32>, tensor<?xi32>) -> (tensor<*xf32>, tensor<*xf32>)
  %out, %weight = "oneflow.nll"(%x, %label) {ignore_index = -100 : si64}
    : (tensor<?x10xf32>, tensor<?xi32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %loss, %out : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @nll_grad(
// CHECK: "oneflow.nll_grad"({{.*}}) {ignore_index = -1 : i64, logical_begin = 2 : i64, logical_size = 4 : i64} : (tensor<3xf32>, tensor<3x2xf32>, tensor<3xi32>) -> tensor<3x2xf32>
func.func @nll_grad(%arg0: tensor<3xf32>, %arg1: tensor<3x2xf32>, %arg2: tensor<3xi32>) -> tensor<*xf32> {
  %0 = "oneflow.nll_grad"(%arg0, %arg1, %arg2) {ignore_index = -1 : i64, logical_begin = 2 : i64, logical_size = 4 : i64} : (tensor<3xf32>, tensor<3x2xf32>, tensor<3xi32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
