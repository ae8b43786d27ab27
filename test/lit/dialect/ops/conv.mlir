// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @conv2d(
// CHECK: "oneflow.conv2d"{{.*}} : (tensor<?x3x8x?xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<?x4x4x?xf32>
func.func @conv2d(%x: tensor<?x3x8x?xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.conv2d"(%x, %w, %b) {
    data_format = "channels_first", dilation_rate = [1 : si32, 1 : si32], filters = 4 : si32, groups = 1 : si32,
    kernel_size = [3 : si32, 3 : si32], padding_before = [1 : si32, 1 : si32], strides = [2 : si32, 2 : si32],
    operand_segment_sizes = array<i32: 1, 1, 1, 0>
  } : (tensor<?x3x8x?xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// Channels last: the weight is (filters, kernel, channels of a group).
// CHECK-LABEL: func.func @channels_last(
// CHECK: "oneflow.conv1d"{{.*}} : (tensor<2x9x4xf32>, tensor<6x2x2xf32>) -> tensor<2x6x6xf32>
func.func @channels_last(%x: tensor<2x9x4xf32>, %w: tensor<6x2x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.conv1d"(%x, %w) {
    data_format = "channels_last", dilation_rate = [3], groups = 2 : i32, kernel_size = [2], padding_before = [0],
    strides = [1], operand_segment_sizes = array<i32: 1, 1, 0, 0>
  } : (tensor<2x9x4xf32>, tensor<6x2x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
