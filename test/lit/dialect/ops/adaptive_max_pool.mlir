// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @adaptive_max_pool1d(
// CHECK: "oneflow.adaptive_max_pool1d"({{.*}}) {data_format = "channels_first", output_size = array<i64: 3>} : (tensor<1x3x5xf16>) -> (tensor<1x3x3xf16>, tensor<1x3x3xi64>)
func.func @adaptive_max_pool1d(%arg0: tensor<1x3x5xf16>) -> (tensor<*xf16>, tensor<*xi64>) {
  %0:2 = "oneflow.adaptive_max_pool1d"(%arg0) {data_format = "channels_first", output_size = array<i64: 3>} : (tensor<1x3x5xf16>) -> (tensor<*xf16>, tensor<*xi64>)
  return %0#0, %0#1 : tensor<*xf16>, tensor<*xi64>
}

// CHECK-LABEL: func.func @adaptive_max_pool1d_grad(
// CHECK: "oneflow.adaptive_max_pool1d_grad"({{.*}}) {data_format = "channels_first"} : (tensor<1x3x2xf32>, tensor<1x3x3xf32>, tensor<1x3x2xi64>) -> tensor<1x3x3xf32>
func.func @adaptive_max_pool1d_grad(%arg0: tensor<1x3x2xf32>, %arg1: tensor<1x3x3xf32>, %arg2: tensor<1x3x2xi64>) -> tensor<*xf32> {
  %0 = "oneflow.adaptive_max_pool1d_grad"(%arg0, %arg1, %arg2) {data_format = "channels_first"} : (tensor<1x3x2xf32>, tensor<1x3x3xf32>, tensor<1x3x2xi64>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @adaptive_max_pool2d(
// CHECK: "oneflow.adaptive_max_pool2d"({{.*}}) {data_format = "channels_first", output_size = array<i64: 2, 3>} : (tensor<2x3x4x5xf32>) -> (tensor<2x3x2x3xf32>, tensor<2x3x2x3xi64>)
func.func @adaptive_max_pool2d(%arg0: tensor<2x3x4x5xf32>) -> (tensor<*xf32>, tensor<*xi64>) {
  %0:2 = "oneflow.adaptive_max_pool2d"(%arg0) {data_format = "channels_first", output_size = array<i64: 2, 3>} : (tensor<2x3x4x5xf32>) -> (tensor<*xf32>, tensor<*xi64>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xi64>
}

// CHECK-LABEL: func.func @adaptive_max_pool2d_grad(
// CHECK: "oneflow.adaptive_max_pool2d_grad"({{.*}}) {data_format = "channels_first"} : (tensor<1x3x1x2xf32>, tensor<1x3x1x3xf32>, tensor<1x3x1x2xi64>) -> tensor<1x3x1x3xf32>
func.func @adaptive_max_pool2d_grad(%arg0: tensor<1x3x1x2xf32>, %arg1: tensor<1x3x1x3xf32>, %arg2: tensor<1x3x1x2xi64>) -> tensor<*xf32> {
  %0 = "oneflow.adaptive_max_pool2d_grad"(%arg0, %arg1, %arg2) {data_format = "channels_first"} : (tensor<1x3x1x2xf32>, tensor<1x3x1x3xf32>, tensor<1x3x1x2xi64>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @adaptive_max_pool3d(
// CHECK: "oneflow.adaptive_max_pool3d"({{.*}}) {data_format = "channels_first", output_size = array<i64: 2, 1, 2>} : (tensor<1x3x3x2x4xf32>) -> (tensor<1x3x2x1x2xf32>, tensor<1x3x2x1x2xi64>)
func.func @adaptive_max_pool3d(%arg0: tensor<1x3x3x2x4xf32>) -> (tensor<*xf32>, tensor<*xi64>) {
  %0:2 = "oneflow.adaptive_max_pool3d"(%arg0) {data_format = "channels_first", output_size = array<i64: 2, 1, 2>} : (tensor<1x3x3x2x4xf32>) -> (tensor<*xf32>, tensor<*xi64>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xi64>
}

// CHECK-LABEL: func.func @adaptive_max_pool3d_grad(
// CHECK: "oneflow.adaptive_max_pool3d_grad"({{.*}}) {data_format = "channels_last"} : (tensor<1x3x1x2x1xf32>, tensor<1x2x1x3x1xf32>, tensor<1x3x1x2x1xi64>) -> tensor<1x2x1x3x1xf32>
func.func @adaptive_max_pool3d_grad(%arg0: tensor<1x3x1x2x1xf32>, %arg1: tensor<1x2x1x3x1xf32>, %arg2: tensor<1x3x1x2x1xi64>) -> tensor<*xf32> {
  %0 = "oneflow.adaptive_max_pool3d_grad"(%arg0, %arg1, %arg2) {data_format = "channels_last"} : (tensor<1x3x1x2x1xf32>, tensor<1x2x1x3x1xf32>, tensor<1x3x1x2x1xi64>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
