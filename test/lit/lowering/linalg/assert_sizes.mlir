// RUN: oneflow-opt %s --oneflow-assert-sizes | FileCheck %s
// RUN: oneflow-opt %s --stage linalg | FileCheck %s --check-prefix=ONCE

// CHECK: oneflow.sites = ["oneflow.assign: dimension 0 of value, which is dimension 0 of ref (
// CHECK-LABEL: func.func @assigned(
// CHECK-SAME: %[[REF:[a-z0-9]+]]: tensor<?x3xf32>, %[[VALUE:[a-z0-9]+]]:
// CHECK-DAG: %[[GOT:.*]] = tensor.dim %[[VALUE]]
// CHECK-DAG: %[[WANTED:.*]] = tensor.dim %[[REF]]
// CHECK-DAG: %[[A:.*]] = arith.index_cast %[[GOT]]
// CHECK-DAG: %[[B:.*]] = arith.index_cast %[[WANTED]]
// CHECK: call @oneflow_rt_check_size(%[[A]], %[[B]],
// CHECK-NOT: check_size
// CHECK: "oneflow.assign"(%[[REF]], %[[VALUE]])

// The conversion does not compare the sizes of the sum again.
// ONCE-LABEL: func.func @assigned(
// ONCE: call @oneflow_rt_check_size
// ONCE-NOT: call @oneflow_rt_check_size
func.func @assigned(%ref: tensor<?x3xf32>, %value: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = "oneflow.assign"(%ref, %value) : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %1 = "oneflow.broadcast_add"(%0, %ref) : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}

// A decomposition without a check relies on the checks of the decomposed operators.
// CHECK-LABEL: func.func @softmax(
// CHECK-NOT: check_size
// CHECK: "oneflow.softmax"
// ONCE-LABEL: func.func @softmax(
func.func @softmax(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = "oneflow.softmax"(%x) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
