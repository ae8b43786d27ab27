// RUN: oneflow-opt %s --stage linalg | oneflow-opt --oneflow-split-for-threads | FileCheck %s

// A full reduction is split in partial sums, which are added afterwards.
// CHECK-LABEL: func.func @total
// CHECK: %[[PARTS:.*]] = tensor.expand_shape %arg0 {{\[\[}}0, 1]] output_shape [16, 65536]
// CHECK: %[[PARTIAL:.*]] = linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "reduction"]
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["reduction"]
// CHECK-SAME: ins(%[[PARTIAL]] : tensor<16xf32>)
func.func @total(%x: tensor<1048576xf32>) -> tensor<f32> {
  %0 = "oneflow.reduce_sum"(%x) {axis = [0 : si32], keepdims = false} : (tensor<1048576xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// A sum with enough rows is not split, and neither is a small sum.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: tensor.expand_shape
func.func @rows(%x: tensor<8192x64xf32>, %y: tensor<256xf32>) -> (tensor<8192xf32>, tensor<f32>) {
  %0 = "oneflow.reduce_sum"(%x) {axis = [1 : si32], keepdims = false} : (tensor<8192x64xf32>) -> tensor<8192xf32>
  %1 = "oneflow.reduce_sum"(%y) {axis = [0 : si32], keepdims = false} : (tensor<256xf32>) -> tensor<f32>
  return %0, %1 : tensor<8192xf32>, tensor<f32>
}

// The depth of a filter's gradient is images and pixels; its partial results have the longest dimension last.
// CHECK-LABEL: func.func @filter
// CHECK: tensor.expand_shape %arg1
// CHECK: linalg.generic
// CHECK-SAME: outs({{.*}} : tensor<8x8x3x3x16xf32>)
// CHECK: linalg.generic
// CHECK-SAME: ins({{.*}}tensor<8x8x3x3x16xf32>)
func.func @filter(%x: tensor<32x8x16x16xf32>, %dy: tensor<32x16x14x14xf32>) -> tensor<16x8x3x3xf32> {
  %0 = "oneflow.conv_filter_grad"(%dy, %x) {data_format = "channels_first", dilation_rate = array<i32: 1, 1>, groups = 1 : i32, kernel_size = array<i32: 3, 3>, num_spatial_dims = 2 : i32, padding_before = array<i32: 0, 0>, strides = array<i32: 1, 1>} : (tensor<32x16x14x14xf32>, tensor<32x8x16x16xf32>) -> tensor<16x8x3x3xf32>
  return %0 : tensor<16x8x3x3xf32>
}

// Sixteen rows are enough parallel steps, and a row kernel stays one kernel.
// CHECK-LABEL: func.func @softmax
// CHECK-NOT: tensor.expand_shape
func.func @softmax(%x: tensor<16x65536xf32>) -> tensor<16x65536xf32> {
  %0 = "oneflow.softmax"(%x) : (tensor<16x65536xf32>) -> tensor<16x65536xf32>
  return %0 : tensor<16x65536xf32>
}

// A matrix-vector product with many results is not split; a product of two large operands shares tiles, and is split.
// CHECK-LABEL: func.func @vector
// CHECK-NOT: tensor.expand_shape
// CHECK-LABEL: func.func @tiles
// CHECK: tensor.expand_shape
func.func @vector(%x: tensor<4096x4096xf32>, %y: tensor<4096x1xf32>) -> tensor<4096x1xf32> {
  %0 = "oneflow.matmul"(%x, %y) : (tensor<4096x4096xf32>, tensor<4096x1xf32>) -> tensor<4096x1xf32>
  return %0 : tensor<4096x1xf32>
}
func.func @tiles(%x: tensor<64x4096xf32>, %y: tensor<4096x64xf32>) -> tensor<64x64xf32> {
  %0 = "oneflow.matmul"(%x, %y) : (tensor<64x4096xf32>, tensor<4096x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}

// A product in one part takes the sizes of its partial results from its operands.
// CHECK-LABEL: func.func @unknown_images
// CHECK: %[[N:.*]] = tensor.dim %{{.*}} : tensor<?x8x4x4xf32>
// CHECK: tensor.empty(%[[N]]) : tensor<1x?x4x4x8xf32>
func.func @unknown_images(%x: tensor<?x3x32x32xf32>, %w: tensor<8x3x8x8xf32>) -> tensor<?x8x4x4xf32> {
  %0 = "oneflow.conv2d"(%x, %w) {data_format = "channels_first", dilation_rate = array<i32: 1, 1>, filters = 8 : i32, groups = 1 : i32, kernel_size = array<i32: 8, 8>, padding_before = array<i32: 0, 0>, strides = array<i32: 8, 8>} : (tensor<?x3x32x32xf32>, tensor<8x3x8x8xf32>) -> tensor<?x8x4x4xf32>
  return %0 : tensor<?x8x4x4xf32>
}
