// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-infer-types | FileCheck %s

// The tensors of a repeated operand have one type in MLIR: those of other shapes are cast to what they share.
// CHECK-LABEL: func.func @operands
func.func @operands(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) -> tensor<*xf32> {
  // CHECK: %[[P:.*]] = "oneflow.relu"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %p = "oneflow.relu"(%a) : (tensor<2x3xf32>) -> tensor<*xf32>
  // CHECK: %[[Q:.*]] = "oneflow.relu"(%arg1) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %q = "oneflow.relu"(%b) : (tensor<4x3xf32>) -> tensor<*xf32>
  // CHECK: %[[PC:.*]] = tensor.cast %[[P]] : tensor<2x3xf32> to tensor<?x3xf32>
  // CHECK: %[[QC:.*]] = tensor.cast %[[Q]] : tensor<4x3xf32> to tensor<?x3xf32>
  // CHECK: "oneflow.cat"(%[[PC]], %[[QC]]) {{.*}} : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<6x3xf32>
  %0 = "oneflow.cat"(%p, %q) {axis = 0 : i64, max_dim_size = 6 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @results
// CHECK-SAME: -> (tensor<3x2xf32>, tensor<3x3xf32>)
func.func @results(%x: tensor<3x5xf32>, %p: tensor<3x2xf32>, %q: tensor<3x3xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  // CHECK: %[[S:.*]]:2 = "oneflow.split_like"{{.*}} -> (tensor<3x?xf32>, tensor<3x?xf32>)
  // CHECK-DAG: %[[A:.*]] = tensor.cast %[[S]]#0 : tensor<3x?xf32> to tensor<3x2xf32>
  // CHECK-DAG: %[[B:.*]] = tensor.cast %[[S]]#1 : tensor<3x?xf32> to tensor<3x3xf32>
  // CHECK: "oneflow.relu"(%[[A]]) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %0:2 = "oneflow.split_like"(%x, %p, %q) {axis = 1 : i64}
    : (tensor<3x5xf32>, tensor<3x2xf32>, tensor<3x3xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>)
  %1 = "oneflow.relu"(%0#0) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return %1, %0#1 : tensor<?x?xf32>, tensor<?x?xf32>
}
