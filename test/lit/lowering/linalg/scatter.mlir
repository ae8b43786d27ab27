// RUN: oneflow-opt %s --convert-oneflow-to-linalg | FileCheck %s

// CHECK: oneflow.sites = ["oneflow.dim_scatter_add: index ({{.*}}:19:{{[0-9]+}})"]
// CHECK: func.func private @oneflow_rt_check_index(i64, i64, i32) -> i64

// CHECK-LABEL: func.func @add(
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[T:.*]] = %arg0) -> (tensor<5x3xf32>)
// CHECK: scf.for %[[J:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[U:.*]] = %[[T]]) -> (tensor<5x3xf32>)
// CHECK: %[[P:.*]] = tensor.extract %arg1[%[[I]], %[[J]]] : tensor<2x3xi64>
// CHECK: %[[K:.*]] = func.call @oneflow_rt_check_index
// CHECK: %[[AT:.*]] = arith.index_cast %[[K]] : i64 to index
// CHECK: %[[OLD:.*]] = tensor.extract %[[U]][%[[AT]], %[[J]]] : tensor<5x3xf32>
// CHECK: %[[V:.*]] = tensor.extract %arg2[%[[I]], %[[J]]] : tensor<2x3xf32>
// CHECK: %[[NEW:.*]] = arith.addf %[[OLD]], %[[V]] : f32
// CHECK: %[[IN:.*]] = tensor.insert %[[NEW]] into %[[U]][%[[AT]], %[[J]]] : tensor<5x3xf32>
// CHECK: scf.yield %[[IN]]
func.func @add(%a: tensor<5x3xf32>, %i: tensor<2x3xi64>, %v: tensor<2x3xf32>) -> tensor<5x3xf32> {

  %0 = "oneflow.dim_scatter_add"(%a, %i, %v) {dim = 0 : si32} : (tensor<5x3xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}
