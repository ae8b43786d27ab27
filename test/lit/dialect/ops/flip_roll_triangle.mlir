// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @flips(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: return %[[X]]
func.func @flips(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.flip"(%x) {dims = [0, 1]} : (tensor<2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.flip"(%0) {dims = [-1, 0]} : (tensor<*xf32>) -> tensor<*xf32>
  %2 = "oneflow.flip"(%1) {dims = []} : (tensor<*xf32>) -> tensor<*xf32>
  return %2 : tensor<*xf32>
}

// CHECK-LABEL: func.func @other_flips(
// CHECK-COUNT-2: "oneflow.flip"
func.func @other_flips(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.flip"(%x) {dims = [0]} : (tensor<2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.flip"(%0) {dims = [1]} : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}

// CHECK-LABEL: func.func @same_types(
// CHECK-NEXT: "oneflow.roll"(%{{.*}}) {{.*}} : (tensor<?x3xf32>) -> tensor<?x3xf32>
// CHECK-NEXT: "oneflow.tril"(%{{.*}}) {{.*}} : (tensor<?x3xf32>) -> tensor<?x3xf32>
// CHECK-NEXT: "oneflow.triu"(%{{.*}}) : (tensor<?x3xf32>) -> tensor<?x3xf32>
func.func @same_types(%x: tensor<?x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.roll"(%x) {shifts = [1], dims = [0]} : (tensor<?x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.tril"(%0) {diagonal = 1 : si64} : (tensor<*xf32>) -> tensor<*xf32>
  %2 = "oneflow.triu"(%1) : (tensor<*xf32>) -> tensor<*xf32>
  return %2 : tensor<*xf32>
}
