// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @conv3d(
// CHECK: "oneflow.conv3d"({{.*}}) {data_format = "channels_first", dilation_rate = array<i32: 1, 1, 1>, filters = 2 : i32, kernel_size = array<i32: 2, 2, 2>, operandSegmentSizes = array<i32: 1, 1, 1, 0>, padding_before = array<i32: 1, 1, 1>, strides = array<i32: 2, 2, 2>} : (tensor<1x2x3x2x3xf32>, tensor<2x2x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2x2xf32>
func.func @conv3d(%arg0: tensor<1x2x3x2x3xf32>, %arg1: tensor<2x2x2x2x2xf32>, %arg2: tensor<2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.conv3d"(%arg0, %arg1, %arg2) {data_format = "channels_first", dilation_rate = array<i32: 1, 1, 1>, filters = 2 : i32, kernel_size = array<i32: 2, 2, 2>, operandSegmentSizes = array<i32: 1, 1, 1, 0>, padding_before = array<i32: 1, 1, 1>, strides = array<i32: 2, 2, 2>} : (tensor<1x2x3x2x3xf32>, tensor<2x2x2x2x2xf32>, tensor<2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @conv_bias_grad(
// CHECK: "oneflow.conv_bias_grad"({{.*}}) {data_format = "channels_first", num_spatial_dims = 2 : i32} : (tensor<2x3x2x2xf16>) -> tensor<3xf16>
func.func @conv_bias_grad(%arg0: tensor<2x3x2x2xf16>) -> tensor<*xf16> {
  %0 = "oneflow.conv_bias_grad"(%arg0) {data_format = "channels_first", num_spatial_dims = 2 : i32} : (tensor<2x3x2x2xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @conv_data_grad(
// CHECK: "oneflow.conv_data_grad"({{.*}}) {data_format = "channels_first", dilation_rate = array<i32: 1, 1>, groups = 1 : i32, kernel_size = array<i32: 2, 2>, num_spatial_dims = 2 : i32, padding_before = array<i32: 0, 0>, strides = array<i32: 1, 1>} : (tensor<2x3x3x3xf16>, tensor<3x2x2x2xf16>, tensor<2x2x4x4xf16>) -> tensor<2x2x4x4xf16>
func.func @conv_data_grad(%arg0: tensor<2x3x3x3xf16>, %arg1: tensor<3x2x2x2xf16>, %arg2: tensor<2x2x4x4xf16>) -> tensor<*xf16> {
  %0 = "oneflow.conv_data_grad"(%arg0, %arg1, %arg2) {data_format = "channels_first", dilation_rate = array<i32: 1, 1>, groups = 1 : i32, kernel_size = array<i32: 2, 2>, num_spatial_dims = 2 : i32, padding_before = array<i32: 0, 0>, strides = array<i32: 1, 1>} : (tensor<2x3x3x3xf16>, tensor<3x2x2x2xf16>, tensor<2x2x4x4xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @conv_filter_grad(
// CHECK: "oneflow.conv_filter_grad"({{.*}}) {data_format = "channels_first", dilation_rate = array<i32: 1, 1>, groups = 1 : i32, kernel_size = array<i32: 2, 2>, num_spatial_dims = 2 : i32, padding_before = array<i32: 0, 0>, strides = array<i32: 1, 1>} : (tensor<2x3x3x3xf16>, tensor<2x2x4x4xf16>) -> tensor<3x2x2x2xf16>
func.func @conv_filter_grad(%arg0: tensor<2x3x3x3xf16>, %arg1: tensor<2x2x4x4xf16>) -> tensor<*xf16> {
  %0 = "oneflow.conv_filter_grad"(%arg0, %arg1) {data_format = "channels_first", dilation_rate = array<i32: 1, 1>, groups = 1 : i32, kernel_size = array<i32: 2, 2>, num_spatial_dims = 2 : i32, padding_before = array<i32: 0, 0>, strides = array<i32: 1, 1>} : (tensor<2x3x3x3xf16>, tensor<2x2x4x4xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
