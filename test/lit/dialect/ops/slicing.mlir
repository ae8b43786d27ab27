// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @everything(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: return %[[X]]
func.func @everything(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.slice"(%x) {start = [0, -3], stop = [2, 9], step = [1, 1]} : (tensor<2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.narrow"(%0) {dim = 1 : si64, start = 0 : si64, length = 3 : si64} : (tensor<*xf32>) -> tensor<*xf32>
  %2 = "oneflow.pad"(%1) {padding_before = [0, 0], padding_after = [0, 0]} : (tensor<*xf32>) -> tensor<*xf32>
  return %2 : tensor<*xf32>
}

// CHECK-LABEL: func.func @parts(
// CHECK-SAME: -> (tensor<2x2xf32>, tensor<?x2xf32>, tensor<4x5xf32>, tensor<4x5xf32>)
func.func @parts(%x: tensor<4x5xf32>, %y: tensor<?x5xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.slice"(%x) {start = [1, 0], stop = [4, 3], step = [2, 2]} : (tensor<4x5xf32>) -> tensor<*xf32>
  %1 = "oneflow.narrow"(%y) {dim = -1 : si64, start = -2 : si64, length = 2 : si64} : (tensor<?x5xf32>) -> tensor<*xf32>
  %2 = "oneflow.pad"(%0) {padding_before = [2, 0], padding_after = [0, 3]} : (tensor<*xf32>) -> tensor<*xf32>
  %3 = "oneflow.slice_update"(%x, %0) {start = [1, 0], stop = [4, 3], step = [2, 2]}
    : (tensor<4x5xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0, %1, %2, %3 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @narrow_grad(
// CHECK-SAME: -> tensor<4xf32>
func.func @narrow_grad(%dy: tensor<2xf32>, %like: tensor<4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.narrow_grad"(%dy, %like) {length = 2 : si64} : (tensor<2xf32>, tensor<4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @slice_grad(
// CHECK: "oneflow.slice_grad"{{.*}} : (tensor<2x?xf32>) -> tensor<5x4xf32>
func.func @slice_grad(%dy: tensor<2x?xf32>) -> tensor<*xf32> {
  %0 = "oneflow.slice_grad"(%dy) {like_shape = [5, 4], start = [1, 0], stop = [5, 4], step = [2, 1]}
    : (tensor<2x?xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
