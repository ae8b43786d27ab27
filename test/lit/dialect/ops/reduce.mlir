// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @sum(
// CHECK: "oneflow.reduce_sum"(%{{.*}}) {{.*}}axis = array<i32: 1>{{.*}} : (tensor<2x?x4xf32>) -> tensor<2x4xf32>
// CHECK: "oneflow.reduce_max"(%{{.*}}) {{.*}}keepdims = true{{.*}} : (tensor<2x?x4xf32>) -> tensor<2x1x4xf32>
// CHECK: "oneflow.reduce_any"(%{{.*}}) {{.*}} : (tensor<2x?x4xf32>) -> tensor<i1>
func.func @sum(%x: tensor<2x?x4xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xi1>) {
  %0 = "oneflow.reduce_sum"(%x) {axis = [1 : si32]} : (tensor<2x?x4xf32>) -> tensor<*xf32>
  %1 = "oneflow.reduce_max"(%x) {axis = [-2], keepdims = true} : (tensor<2x?x4xf32>) -> tensor<*xf32>
  %2 = "oneflow.reduce_any"(%x) {axis = []} : (tensor<2x?x4xf32>) -> tensor<*xi1>
  return %0, %1, %2 : tensor<*xf32>, tensor<*xf32>, tensor<*xi1>
}

// CHECK-LABEL: func.func @like(
// CHECK: "oneflow.broadcast_like"{{.*}} : (tensor<2x4xf32>, tensor<2x?x4xf32>) -> tensor<2x?x4xf32>
// CHECK: "oneflow.reduce_sum_like"{{.*}} : (tensor<2x?x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
func.func @like(%x: tensor<2x4xf32>, %like: tensor<2x?x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.broadcast_like"(%x, %like) {broadcast_axes = [1]} : (tensor<2x4xf32>, tensor<2x?x4xf32>) -> tensor<*xf32>
  %1 = "oneflow.reduce_sum_like"(%0, %x) {axis = [1]} : (tensor<*xf32>, tensor<2x4xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}

// CHECK-LABEL: func.func @argmax(
// CHECK: "oneflow.argmax"(%{{.*}}) : (tensor<?x10xf32>) -> tensor<?xi64>
func.func @argmax(%x: tensor<?x10xf32>) -> tensor<*xi64> {
  %0 = "oneflow.argmax"(%x) : (tensor<?x10xf32>) -> tensor<*xi64>
  return %0 : tensor<*xi64>
}
