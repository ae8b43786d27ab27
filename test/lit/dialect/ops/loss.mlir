// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

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

// CHECK-LABEL: func.func @elements(
// CHECK: "oneflow.binary_cross_entropy_with_logits"{{.*}} : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
func.func @elements(%x: tensor<?x4xf32>, %t: tensor<3x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.binary_cross_entropy_with_logits"(%x, %t) {operand_segment_sizes = array<i32: 1, 1, 0, 0>}
    : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
