// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @matrices(
// CHECK-NEXT: "oneflow.inv"(%{{.*}}) : (tensor<?x3x3xf32>) -> tensor<?x3x3xf32>
// CHECK-NEXT: "oneflow.det"(%{{.*}}) : (tensor<?x3x3xf32>) -> tensor<?xf32>
// CHECK-NEXT: "oneflow.slogdet"(%{{.*}}) : (tensor<?x3x3xf32>) -> (tensor<?xf32>, tensor<?xf32>)
// CHECK-NEXT: "oneflow.lu_decomposition"(%{{.*}}) : (tensor<?x3x3xf32>) -> (tensor<?x3x3xf32>, tensor<?x3xi32>)
// CHECK-NEXT: "oneflow.linalg_cross"(%{{.*}}, %{{.*}}) {dim = 1 : i64} : (tensor<?x3x3xf32>, tensor<?x3x3xf32>) -> tensor<?x3x3xf32>
func.func @matrices(%x: tensor<?x3x3xf32>, %y: tensor<?x3x3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.inv"(%x) : (tensor<?x3x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.det"(%0) : (tensor<*xf32>) -> tensor<*xf32>
  %4:2 = "oneflow.slogdet"(%0) : (tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %2:2 = "oneflow.lu_decomposition"(%x) : (tensor<?x3x3xf32>) -> (tensor<*xf32>, tensor<*xi32>)
  %3 = "oneflow.linalg_cross"(%x, %y) {dim = 1 : si64} : (tensor<?x3x3xf32>, tensor<?x3x3xf32>) -> tensor<*xf32>
  return %1, %2#0, %3 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @pairs(
// CHECK-NEXT: "oneflow.slogdet_of_pairs"(%{{.*}}) : (tensor<?x3x3x2xf32>) -> (tensor<?x2xf32>, tensor<?xf32>)
func.func @pairs(%x: tensor<?x3x3x2xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.slogdet_of_pairs"(%x) : (tensor<?x3x3x2xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xf32>
}
