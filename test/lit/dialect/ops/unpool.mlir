// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @unpooled(
// CHECK-NEXT: "oneflow.max_unpool_1d"(%{{.*}}, %{{.*}}) {kernel_size = array<i64: 2>, output_size = array<i64>, padding = array<i64: 0>, stride = array<i64: 2>} : (tensor<2x3x4xf32>, tensor<2x3x4xi64>) -> tensor<2x3x8xf32>
// CHECK-NEXT: "oneflow.max_unpool_1d_grad"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2x3x4xf32>, tensor<2x3x4xi64>, tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT: "oneflow.max_unpool_2d"(%{{.*}}, %{{.*}}) {kernel_size = array<i64: 2, 2>, output_size = array<i64>, padding = array<i64: 0, 0>, stride = array<i64: 2, 2>} : (tensor<2x3x4x1xf32>, tensor<2x3x4x1xi64>) -> tensor<2x3x8x2xf32>
// CHECK-NEXT: "oneflow.max_unpool_2d_grad"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2x3x4x1xf32>, tensor<2x3x4x1xi64>, tensor<2x3x8x2xf32>) -> tensor<2x3x4x1xf32>
// CHECK-NEXT: "oneflow.max_unpool_3d"(%{{.*}}, %{{.*}}) {kernel_size = array<i64: 2, 2, 2>, output_size = array<i64>, padding = array<i64: 0, 0, 0>, stride = array<i64: 2, 2, 2>} : (tensor<2x3x4x1x1xf32>, tensor<2x3x4x1x1xi64>) -> tensor<2x3x8x2x2xf32>
// CHECK-NEXT: "oneflow.max_unpool_3d_grad"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2x3x4x1x1xf32>, tensor<2x3x4x1x1xi64>, tensor<2x3x8x2x2xf32>) -> tensor<2x3x4x1x1xf32>
func.func @unpooled(%x: tensor<2x3x4xf32>, %i: tensor<2x3x4xi64>, %y: tensor<2x3x4x1xf32>, %j: tensor<2x3x4x1xi64>, %z: tensor<2x3x4x1x1xf32>, %k: tensor<2x3x4x1x1xi64>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.max_unpool_1d"(%x, %i) {kernel_size = [2], stride = [2], padding = [0], output_size = []} : (tensor<2x3x4xf32>, tensor<2x3x4xi64>) -> tensor<*xf32>
  %1 = "oneflow.max_unpool_1d_grad"(%x, %i, %0) : (tensor<2x3x4xf32>, tensor<2x3x4xi64>, tensor<*xf32>) -> tensor<*xf32>
  %2 = "oneflow.max_unpool_2d"(%y, %j) {kernel_size = [2, 2], stride = [2, 2], padding = [0, 0], output_size = []} : (tensor<2x3x4x1xf32>, tensor<2x3x4x1xi64>) -> tensor<*xf32>
  %3 = "oneflow.max_unpool_2d_grad"(%y, %j, %2) : (tensor<2x3x4x1xf32>, tensor<2x3x4x1xi64>, tensor<*xf32>) -> tensor<*xf32>
  %4 = "oneflow.max_unpool_3d"(%z, %k) {kernel_size = [2, 2, 2], stride = [2, 2, 2], padding = [0, 0, 0], output_size = []} : (tensor<2x3x4x1x1xf32>, tensor<2x3x4x1x1xi64>) -> tensor<*xf32>
  %5 = "oneflow.max_unpool_3d_grad"(%z, %k, %4) : (tensor<2x3x4x1x1xf32>, tensor<2x3x4x1x1xi64>, tensor<*xf32>) -> tensor<*xf32>
  return %1, %3, %5 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}
