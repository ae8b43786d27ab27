// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @same_padding(
// CHECK: "oneflow.same_padding"({{.*}}) {data_format = "channels_first", dilation_rate = array<i32: 1>, kernel_size = array<i32: 3>, padding = "same_upper", strides = array<i32: 2>} : (tensor<1x3x4xf32>) -> tensor<1x3x5xf32>
func.func @same_padding(%arg0: tensor<1x3x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.same_padding"(%arg0) {data_format = "channels_first", dilation_rate = array<i32: 1>, kernel_size = array<i32: 3>, padding = "same_upper", strides = array<i32: 2>} : (tensor<1x3x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @same_padding_grad(
// CHECK: "oneflow.same_padding_grad"({{.*}}) {data_format = "channels_first", dilation_rate = array<i32: 1>, kernel_size = array<i32: 3>, padding = "same_upper", strides = array<i32: 2>} : (tensor<1x3x4xf32>, tensor<1x3x5xf32>) -> tensor<1x3x4xf32>
func.func @same_padding_grad(%arg0: tensor<1x3x4xf32>, %arg1: tensor<1x3x5xf32>) -> tensor<*xf32> {
  %0 = "oneflow.same_padding_grad"(%arg0, %arg1) {data_format = "channels_first", dilation_rate = array<i32: 1>, kernel_size = array<i32: 3>, padding = "same_upper", strides = array<i32: 2>} : (tensor<1x3x4xf32>, tensor<1x3x5xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
