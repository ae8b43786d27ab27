// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @avg_pool_1d(
// CHECK: "oneflow.avg_pool_1d"({{.*}}) {ceil_mode = true, data_format = "channels_last", kernel_size = array<i32: 2>, padding = array<i32: 0>, stride = array<i32: 2>} : (tensor<2x5x3xf16>) -> tensor<2x3x3xf16>
func.func @avg_pool_1d(%arg0: tensor<2x5x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.avg_pool_1d"(%arg0) {ceil_mode = true, data_format = "channels_last", kernel_size = array<i32: 2>, padding = array<i32: 0>, stride = array<i32: 2>} : (tensor<2x5x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @avg_pool_1d_grad(
// CHECK: "oneflow.avg_pool_1d_grad"({{.*}}) {data_format = "channels_first", kernel_size = array<i32: 2>, padding = array<i32: 1>, stride = array<i32: 2>} : (tensor<1x2x5xf32>, tensor<1x2x3xf32>) -> tensor<1x2x5xf32>
func.func @avg_pool_1d_grad(%arg0: tensor<1x2x5xf32>, %arg1: tensor<1x2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.avg_pool_1d_grad"(%arg0, %arg1) {data_format = "channels_first", kernel_size = array<i32: 2>, padding = array<i32: 1>, stride = array<i32: 2>} : (tensor<1x2x5xf32>, tensor<1x2x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @avg_pool_3d(
// CHECK: "oneflow.avg_pool_3d"({{.*}}) {data_format = "channels_first", kernel_size = array<i32: 2, 2, 1>, padding = array<i32: 0, 0, 0>, stride = array<i32: 1, 1, 1>} : (tensor<1x1x2x3x2xf16>) -> tensor<1x1x1x2x2xf16>
func.func @avg_pool_3d(%arg0: tensor<1x1x2x3x2xf16>) -> tensor<*xf16> {
  %0 = "oneflow.avg_pool_3d"(%arg0) {data_format = "channels_first", kernel_size = array<i32: 2, 2, 1>, padding = array<i32: 0, 0, 0>, stride = array<i32: 1, 1, 1>} : (tensor<1x1x2x3x2xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @avg_pool_3d_grad(
// CHECK: "oneflow.avg_pool_3d_grad"({{.*}}) {data_format = "channels_first", kernel_size = array<i32: 2, 2, 2>, padding = array<i32: 0, 0, 0>, stride = array<i32: 1, 1, 1>} : (tensor<1x3x2x2x2xf32>, tensor<1x3x1x1x1xf32>) -> tensor<1x3x2x2x2xf32>
func.func @avg_pool_3d_grad(%arg0: tensor<1x3x2x2x2xf32>, %arg1: tensor<1x3x1x1x1xf32>) -> tensor<*xf32> {
  %0 = "oneflow.avg_pool_3d_grad"(%arg0, %arg1) {data_format = "channels_first", kernel_size = array<i32: 2, 2, 2>, padding = array<i32: 0, 0, 0>, stride = array<i32: 1, 1, 1>} : (tensor<1x3x2x2x2xf32>, tensor<1x3x1x1x1xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @max_pool_1d(
// CHECK: "oneflow.max_pool_1d"({{.*}}) {data_format = "channels_first", dilation = array<i32: 1>, kernel_size = array<i32: 2>, padding = array<i32: 0>, stride = array<i32: 1>} : (tensor<1x2x5xf32>) -> (tensor<1x2x4xf32>, tensor<1x2x4xi64>)
func.func @max_pool_1d(%arg0: tensor<1x2x5xf32>) -> (tensor<*xf32>, tensor<*xi64>) {
  %0:2 = "oneflow.max_pool_1d"(%arg0) {data_format = "channels_first", dilation = array<i32: 1>, kernel_size = array<i32: 2>, padding = array<i32: 0>, stride = array<i32: 1>} : (tensor<1x2x5xf32>) -> (tensor<*xf32>, tensor<*xi64>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xi64>
}

// CHECK-LABEL: func.func @max_pool_1d_grad(
// CHECK: "oneflow.max_pool_1d_grad"({{.*}}) {data_format = "channels_first", dilation = array<i32: 1>, kernel_size = array<i32: 2>, padding = array<i32: 0>, stride = array<i32: 2>} : (tensor<1x2x8xf16>, tensor<1x2x4xi64>, tensor<1x2x4xf16>) -> tensor<1x2x8xf16>
func.func @max_pool_1d_grad(%arg0: tensor<1x2x8xf16>, %arg1: tensor<1x2x4xi64>, %arg2: tensor<1x2x4xf16>) -> tensor<*xf16> {
  %0 = "oneflow.max_pool_1d_grad"(%arg0, %arg1, %arg2) {data_format = "channels_first", dilation = array<i32: 1>, kernel_size = array<i32: 2>, padding = array<i32: 0>, stride = array<i32: 2>} : (tensor<1x2x8xf16>, tensor<1x2x4xi64>, tensor<1x2x4xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @max_pool_3d(
// CHECK: "oneflow.max_pool_3d"({{.*}}) {data_format = "channels_first", dilation = array<i32: 1, 1, 1>, kernel_size = array<i32: 2, 2, 1>, padding = array<i32: 0, 0, 0>, stride = array<i32: 1, 1, 1>} : (tensor<1x1x2x3x2xui8>) -> (tensor<1x1x1x2x2xui8>, tensor<1x1x1x2x2xi64>)
func.func @max_pool_3d(%arg0: tensor<1x1x2x3x2xui8>) -> (tensor<*xui8>, tensor<*xi64>) {
  %0:2 = "oneflow.max_pool_3d"(%arg0) {data_format = "channels_first", dilation = array<i32: 1, 1, 1>, kernel_size = array<i32: 2, 2, 1>, padding = array<i32: 0, 0, 0>, stride = array<i32: 1, 1, 1>} : (tensor<1x1x2x3x2xui8>) -> (tensor<*xui8>, tensor<*xi64>)
  return %0#0, %0#1 : tensor<*xui8>, tensor<*xi64>
}

// CHECK-LABEL: func.func @max_pool_3d_grad(
// CHECK: "oneflow.max_pool_3d_grad"({{.*}}) {data_format = "channels_first", dilation = array<i32: 1, 1, 1>, kernel_size = array<i32: 2, 1, 2>, padding = array<i32: 0, 0, 0>, stride = array<i32: 1, 1, 1>} : (tensor<1x3x2x2x2xf32>, tensor<1x3x1x2x1xi64>, tensor<1x3x1x2x1xf32>) -> tensor<1x3x2x2x2xf32>
func.func @max_pool_3d_grad(%arg0: tensor<1x3x2x2x2xf32>, %arg1: tensor<1x3x1x2x1xi64>, %arg2: tensor<1x3x1x2x1xf32>) -> tensor<*xf32> {
  %0 = "oneflow.max_pool_3d_grad"(%arg0, %arg1, %arg2) {data_format = "channels_first", dilation = array<i32: 1, 1, 1>, kernel_size = array<i32: 2, 1, 2>, padding = array<i32: 0, 0, 0>, stride = array<i32: 1, 1, 1>} : (tensor<1x3x2x2x2xf32>, tensor<1x3x1x2x1xi64>, tensor<1x3x1x2x1xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @avg_pool_2d_grad(
// CHECK: "oneflow.avg_pool_2d_grad"({{.*}}) {data_format = "channels_last", kernel_size = array<i32: 3, 2>, padding = array<i32: 1, 1>, stride = array<i32: 2, 2>} : (tensor<3x4x5x2xf16>, tensor<3x2x3x2xf16>) -> tensor<3x4x5x2xf16>
func.func @avg_pool_2d_grad(%arg0: tensor<3x4x5x2xf16>, %arg1: tensor<3x2x3x2xf16>) -> tensor<*xf16> {
  %0 = "oneflow.avg_pool_2d_grad"(%arg0, %arg1) {data_format = "channels_last", kernel_size = array<i32: 3, 2>, padding = array<i32: 1, 1>, stride = array<i32: 2, 2>} : (tensor<3x4x5x2xf16>, tensor<3x2x3x2xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @max_pool_2d_grad(
// CHECK: "oneflow.max_pool_2d_grad"({{.*}}) {data_format = "channels_last", dilation = array<i32: 1, 1>, kernel_size = array<i32: 2, 2>, padding = array<i32: 0, 0>, stride = array<i32: 1, 1>} : (tensor<1x3x3x1xf16>, tensor<1x2x2x1xi64>, tensor<1x2x2x1xf16>) -> tensor<1x3x3x1xf16>
func.func @max_pool_2d_grad(%arg0: tensor<1x3x3x1xf16>, %arg1: tensor<1x2x2x1xi64>, %arg2: tensor<1x2x2x1xf16>) -> tensor<*xf16> {
  %0 = "oneflow.max_pool_2d_grad"(%arg0, %arg1, %arg2) {data_format = "channels_last", dilation = array<i32: 1, 1>, kernel_size = array<i32: 2, 2>, padding = array<i32: 0, 0>, stride = array<i32: 1, 1>} : (tensor<1x3x3x1xf16>, tensor<1x2x2x1xi64>, tensor<1x2x2x1xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
