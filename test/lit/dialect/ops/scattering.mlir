// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// num_segments replaces the axes of segment_ids.
// CHECK-LABEL: func.func @segments(
// CHECK-SAME: -> (tensor<6x3x8xf32>, tensor<2x6x8xf32>, tensor<5x8xf32>)
func.func @segments(%x: tensor<2x3x8xf32>, %i: tensor<2xi32>, %j: tensor<3xi64>, %k: tensor<2x3xi32>,
                    %like: tensor<5x8xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.unsorted_segment_sum"(%x, %i) {num_segments = 6 : si64}
    : (tensor<2x3x8xf32>, tensor<2xi32>) -> tensor<*xf32>
  %1 = "oneflow.unsorted_segment_sum"(%x, %j) {axis = 1 : si64, num_segments = 6 : si64}
    : (tensor<2x3x8xf32>, tensor<3xi64>) -> tensor<*xf32>
  %2 = "oneflow.unsorted_segment_sum_like"(%x, %k, %like)
    : (tensor<2x3x8xf32>, tensor<2x3xi32>, tensor<5x8xf32>) -> tensor<*xf32>
  return %0, %1, %2 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// Only the last axis of segment_ids is replaced.
// CHECK-LABEL: func.func @batches(
// CHECK-SAME: -> tensor<2x9x8xf32>
func.func @batches(%x: tensor<2x3x8xf32>, %i: tensor<2x3xi64>) -> tensor<*xf32> {
  %0 = "oneflow.unsorted_batch_segment_sum"(%x, %i) {num_segments = 9 : si64}
    : (tensor<2x3x8xf32>, tensor<2x3xi64>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// The result has the type of the tensor that is added to.
// CHECK-LABEL: func.func @along_dim(
// CHECK-SAME: -> (tensor<4x5xf16>, tensor<4x5xf16>)
func.func @along_dim(%x: tensor<4x5xf16>, %i: tensor<2x3xi32>, %u: tensor<2x3xf16>)
    -> (tensor<*xf16>, tensor<*xf16>) {
  %0 = "oneflow.dim_scatter_add"(%x, %i, %u) {dim = 1 : si32}
    : (tensor<4x5xf16>, tensor<2x3xi32>, tensor<2x3xf16>) -> tensor<*xf16>
  %1 = "oneflow.dim_scatter_add_like"(%x, %i, %u) {dim = -1 : si32}
    : (tensor<4x5xf16>, tensor<2x3xi32>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0, %1 : tensor<*xf16>, tensor<*xf16>
}

// Indices of 2 axes leave the third to the updates.
// CHECK-LABEL: func.func @nd(
// CHECK-SAME: -> (tensor<4x5x6xf64>, tensor<4x5x6xf64>)
func.func @nd(%i: tensor<7x2xi64>, %u: tensor<7x6xf64>, %like: tensor<4x5x6xf64>)
    -> (tensor<*xf64>, tensor<*xf64>) {
  %0 = "oneflow.scatter_nd"(%i, %u) {shape = [4, 5, 6]} : (tensor<7x2xi64>, tensor<7x6xf64>) -> tensor<*xf64>
  %1 = "oneflow.scatter_nd_like"(%like, %i, %u)
    : (tensor<4x5x6xf64>, tensor<7x2xi64>, tensor<7x6xf64>) -> tensor<*xf64>
  return %0, %1 : tensor<*xf64>, tensor<*xf64>
}
