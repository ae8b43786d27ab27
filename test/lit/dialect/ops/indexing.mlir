// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @read(
// CHECK-SAME: -> (tensor<4x2x3x6xf32>, tensor<2x3x6xf32>, tensor<2x3xf32>, tensor<2x6xf32>)
func.func @read(%x: tensor<4x5x6xf32>, %y: tensor<2x5x6xf32>, %z: tensor<4x3xf32>,
               %i: tensor<2x3xi64>, %k: tensor<2x2xi32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.gather"(%x, %i) {axis = 1 : si64} : (tensor<4x5x6xf32>, tensor<2x3xi64>) -> tensor<*xf32>
  %1 = "oneflow.batch_gather"(%y, %i) : (tensor<2x5x6xf32>, tensor<2x3xi64>) -> tensor<*xf32>
  %2 = "oneflow.dim_gather"(%z, %i) : (tensor<4x3xf32>, tensor<2x3xi64>) -> tensor<*xf32>
  %3 = "oneflow.gather_nd"(%x, %k) : (tensor<4x5x6xf32>, tensor<2x2xi32>) -> tensor<*xf32>
  return %0, %1, %2, %3 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @add(
// CHECK-SAME: -> (tensor<4x8xf32>, tensor<7x8xf32>, tensor<5x8xf32>, tensor<3x6xf32>)
func.func @add(%x: tensor<2x3x8xf32>, %like: tensor<7x8xf32>, %i: tensor<2x3xi64>,
              %u: tensor<2x6xf32>, %k: tensor<2x1xi32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.unsorted_segment_sum"(%x, %i) {num_segments = 4 : si64}
    : (tensor<2x3x8xf32>, tensor<2x3xi64>) -> tensor<*xf32>
  %1 = "oneflow.unsorted_segment_sum_like"(%x, %i, %like)
    : (tensor<2x3x8xf32>, tensor<2x3xi64>, tensor<7x8xf32>) -> tensor<*xf32>
  %w = "oneflow.narrow"(%like) {start = 1 : si64, length = 5 : si64} : (tensor<7x8xf32>) -> tensor<*xf32>
  %2 = "oneflow.embedding_grad"(%x, %w, %i) : (tensor<2x3x8xf32>, tensor<*xf32>, tensor<2x3xi64>) -> tensor<*xf32>
  %3 = "oneflow.scatter_nd"(%k, %u) {shape = [3, 6]} : (tensor<2x1xi32>, tensor<2x6xf32>) -> tensor<*xf32>
  return %0, %1, %2, %3 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @table(
// CHECK-SAME: -> (tensor<?x3x8xf32>, tensor<?x3x5xi8>)
func.func @table(%w: tensor<7x8xf32>, %i: tensor<?x3xi32>) -> (tensor<*xf32>, tensor<*xi8>) {
  %0 = "oneflow.embedding"(%w, %i) : (tensor<7x8xf32>, tensor<?x3xi32>) -> tensor<*xf32>
  %1 = "oneflow.one_hot"(%i) {dtype = i8, depth = 5 : si64, integer_on_value = 1 : si64}
    : (tensor<?x3xi32>) -> tensor<*xi8>
  return %0, %1 : tensor<*xf32>, tensor<*xi8>
}
