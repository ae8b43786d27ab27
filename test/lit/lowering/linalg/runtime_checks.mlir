// RUN: oneflow-opt %s --convert-oneflow-to-linalg | FileCheck %s

// CHECK: module attributes {oneflow.sites = ["oneflow.broadcast_add: dimension 0 of y, shared with other operands ({{.*}}:19:{{[0-9]+}})", "oneflow.gather: indices ({{.*}}:35:{{[0-9]+}})"]}
// CHECK-DAG: func.func private @oneflow_rt_check_index(i64, i64, i32) -> i64
// CHECK-DAG: func.func private @oneflow_rt_check_size(i64, i64, i32)

// Sizes that a shared loop equates are compared once; results have the sizes of the allocation.

// CHECK-LABEL: func.func @sizes(
// CHECK: %[[X:.*]] = tensor.dim %arg0
// CHECK: %[[Y:.*]] = tensor.dim %arg1
// CHECK: %[[GOT:.*]] = arith.index_cast %[[Y]] : index to i64
// CHECK: %[[WANTED:.*]] = arith.index_cast %[[X]] : index to i64
// CHECK: call @oneflow_rt_check_size(%[[GOT]], %[[WANTED]], %{{.*}})
// CHECK-NOT: oneflow_rt_check_size
// CHECK-NOT: tensor.dim
// CHECK: return
func.func @sizes(%a: tensor<?x4xf32>, %b: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = "oneflow.broadcast_add"(%a, %b) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %1 = "oneflow.broadcast_mul"(%0, %b) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %2 = "oneflow.broadcast_sub"(%1, %0) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %2 : tensor<?x4xf32>
}

// A position from data is checked once, outside of the loops that the position does not depend on.

// CHECK-LABEL: func.func @positions(
// CHECK: %[[SAFE:.*]] = linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%arg1 : tensor<2xi64>)
// CHECK: func.call @oneflow_rt_check_index
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%[[SAFE]] : tensor<2xi64>)
// CHECK-NOT: call
// CHECK: tensor.extract %arg0
// CHECK: return
func.func @positions(%a: tensor<5x4xf32>, %i: tensor<2xi64>) -> tensor<2x4xf32> {
  %0 = "oneflow.gather"(%a, %i) {axis = 0 : si64} : (tensor<5x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
