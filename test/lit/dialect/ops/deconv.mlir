// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @deconv1d(
// CHECK: "oneflow.deconv1d"({{.*}}) {data_format = "channels_first", dilation_rate = array<i32: 1>, kernel_size = array<i32: 2>, output_padding = array<i32: 0>, padding_before = array<i32: 0>, strides = array<i32: 1>} : (tensor<2x3x4xf16>, tensor<3x2x2xf16>) -> tensor<2x2x5xf16>
func.func @deconv1d(%arg0: tensor<2x3x4xf16>, %arg1: tensor<3x2x2xf16>) -> tensor<*xf16> {
  %0 = "oneflow.deconv1d"(%arg0, %arg1) {data_format = "channels_first", dilation_rate = array<i32: 1>, kernel_size = array<i32: 2>, output_padding = array<i32: 0>, padding_before = array<i32: 0>, strides = array<i32: 1>} : (tensor<2x3x4xf16>, tensor<3x2x2xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @deconv3d(
// CHECK: "oneflow.deconv3d"({{.*}}) {data_format = "channels_first", dilation_rate = array<i32: 1, 1, 1>, kernel_size = array<i32: 2, 2, 2>, output_padding = array<i32: 1, 1, 1>, padding_before = array<i32: 1, 1, 1>, strides = array<i32: 2, 2, 2>} : (tensor<1x2x2x1x2xf32>, tensor<2x3x2x2x2xf32>) -> tensor<1x3x3x1x3xf32>
func.func @deconv3d(%arg0: tensor<1x2x2x1x2xf32>, %arg1: tensor<2x3x2x2x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.deconv3d"(%arg0, %arg1) {data_format = "channels_first", dilation_rate = array<i32: 1, 1, 1>, kernel_size = array<i32: 2, 2, 2>, output_padding = array<i32: 1, 1, 1>, padding_before = array<i32: 1, 1, 1>, strides = array<i32: 2, 2, 2>} : (tensor<1x2x2x1x2xf32>, tensor<2x3x2x2x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// Transposed convolutions undo the sizes of convolutions; output_padding is added after the images.
// CHECK-LABEL: func.func @deconv2d(
// CHECK: "oneflow.deconv2d"{{.*}} : (tensor<?x4x4x?xf32>, tensor<4x3x3x3xf32>) -> tensor<?x3x8x?xf32>
func.func @deconv2d(%x: tensor<?x4x4x?xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.deconv2d"(%x, %w) {
    data_format = "channels_first", dilation_rate = [1, 1], filters = 3 : si32, groups = 1 : si32,
    kernel_size = [3, 3], output_padding = [1, 1], padding_before = [1, 1], strides = [2, 2]
  } : (tensor<?x4x4x?xf32>, tensor<4x3x3x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
