// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @reshape_chain(
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32>) -> tensor<?x2xf32>
// CHECK: %[[R:.*]] = "oneflow.reshape"(%[[X]]) {{.*}}-1, 2{{.*}} : (tensor<?x4xf32>) -> tensor<?x2xf32>
// CHECK-NEXT: return %[[R]]
func.func @reshape_chain(%x: tensor<?x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.reshape"(%x) {shape = [-1, 2, 2]} : (tensor<?x4xf32>) -> tensor<*xf32>
  %1 = "oneflow.reshape"(%0) {shape = [-1, 2]} : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}

// A size that the outer reshape knows stays known.
// CHECK-LABEL: func.func @reshape_stays_static(
// CHECK: "oneflow.reshape"(%{{.*}}) {{.*}}2, 6{{.*}} : (tensor<?x4xf32>) -> tensor<2x6xf32>
func.func @reshape_stays_static(%x: tensor<?x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.reshape"(%x) {shape = [3, 4]} : (tensor<?x4xf32>) -> tensor<*xf32>
  %1 = "oneflow.reshape"(%0) {shape = [-1, 6]} : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}

// CHECK-LABEL: func.func @reshape_identity(
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32>)
// CHECK-NEXT: return %[[X]]
func.func @reshape_identity(%x: tensor<?x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.reshape"(%x) {shape = [-1, 4]} : (tensor<?x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @reshape_like(
// CHECK: "oneflow.reshape"(%{{.*}}) {{.*}}3, 4{{.*}} : (tensor<2x6xf32>) -> tensor<3x4xf32>
func.func @reshape_like(%x: tensor<2x6xf32>, %like: tensor<?x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.reshape_like"(%x, %like) : (tensor<2x6xf32>, tensor<?x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @reshape_like_identity(
// CHECK-NEXT: return %{{.*}} : tensor<2x6xf32>
func.func @reshape_like_identity(%x: tensor<2x6xf32>, %like: tensor<2x6xf32>) -> tensor<*xf32> {
  %0 = "oneflow.reshape_like"(%x, %like) : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @transpose_chain(
// CHECK-NEXT: "oneflow.transpose"(%{{.*}}) {{.*}}perm = array<i32: 1, 2, 0>
// CHECK-NEXT: return %{{.*}} : tensor<3x4x2xf32>
func.func @transpose_chain(%x: tensor<2x3x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.transpose"(%x) {perm = [2, 0, 1]} : (tensor<2x3x4xf32>) -> tensor<*xf32>
  %1 = "oneflow.transpose"(%0) {perm = [-1, 0, 1]} : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}

// CHECK-LABEL: func.func @transpose_back(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: return %[[X]]
func.func @transpose_back(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.transpose"(%x) {perm = [1, 0]} : (tensor<2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.transpose"(%0) {perm = [1, 0]} : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}

// CHECK-LABEL: func.func @expand(
// CHECK-SAME: %[[X:.*]]: tensor<3x1xf32>)
// CHECK-NEXT: %[[Y:.*]] = "oneflow.expand"(%[[X]]) {{.*}} : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @expand(%x: tensor<3x1xf32>) -> tensor<*xf32> {
  %0 = "oneflow.expand"(%x) {expand_shape = [3, -1]} : (tensor<3x1xf32>) -> tensor<*xf32>
  %1 = "oneflow.expand"(%0) {expand_shape = [2, -1, 4]} : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}

// CHECK-LABEL: func.func @squeeze_pairs(
// CHECK-SAME: %[[X:.*]]: tensor<3x1xf32>)
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @squeeze_pairs(%x: tensor<3x1xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.squeeze"(%x) {axes = [1]} : (tensor<3x1xf32>) -> tensor<*xf32>
  %1 = "oneflow.expand_dims"(%0) {axis = -1 : si32} : (tensor<*xf32>) -> tensor<*xf32>
  %2 = "oneflow.expand_dims"(%x) {axis = 0 : si32} : (tensor<3x1xf32>) -> tensor<*xf32>
  %3 = "oneflow.squeeze"(%2) {axes = [-3]} : (tensor<*xf32>) -> tensor<*xf32>
  %4 = "oneflow.squeeze"(%3) {axes = []} : (tensor<*xf32>) -> tensor<*xf32>
  return %1, %4 : tensor<*xf32>, tensor<*xf32>
}
