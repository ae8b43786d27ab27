// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @adaptive_avg_pool1d(
// CHECK: "oneflow.adaptive_avg_pool1d"({{.*}}) {data_format = "channels_first", output_size = array<i64: 1>} : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
func.func @adaptive_avg_pool1d(%arg0: tensor<1x2x1xf32>) -> tensor<*xf32> {
  %0 = "oneflow.adaptive_avg_pool1d"(%arg0) {data_format = "channels_first", output_size = array<i64: 1>} : (tensor<1x2x1xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @adaptive_avg_pool1d_grad(
// CHECK: "oneflow.adaptive_avg_pool1d_grad"({{.*}}) {data_format = "channels_first", output_size = array<i64: 1>} : (tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
func.func @adaptive_avg_pool1d_grad(%arg0: tensor<1x2x1xf32>, %arg1: tensor<1x2x1xf32>) -> tensor<*xf32> {
  %0 = "oneflow.adaptive_avg_pool1d_grad"(%arg0, %arg1) {data_format = "channels_first", output_size = array<i64: 1>} : (tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @adaptive_avg_pool2d_grad(
// CHECK: "oneflow.adaptive_avg_pool2d_grad"({{.*}}) {data_format = "channels_first", output_size = array<i64: 2, 3>} : (tensor<2x3x4x5xf16>, tensor<2x3x2x3xf16>) -> tensor<2x3x4x5xf16>
func.func @adaptive_avg_pool2d_grad(%arg0: tensor<2x3x4x5xf16>, %arg1: tensor<2x3x2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.adaptive_avg_pool2d_grad"(%arg0, %arg1) {data_format = "channels_first", output_size = array<i64: 2, 3>} : (tensor<2x3x4x5xf16>, tensor<2x3x2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @adaptive_avg_pool3d(
// CHECK: "oneflow.adaptive_avg_pool3d"({{.*}}) {data_format = "channels_first", output_size = array<i64: 2, 1, 2>} : (tensor<1x1x3x2x2xf16>) -> tensor<1x1x2x1x2xf16>
func.func @adaptive_avg_pool3d(%arg0: tensor<1x1x3x2x2xf16>) -> tensor<*xf16> {
  %0 = "oneflow.adaptive_avg_pool3d"(%arg0) {data_format = "channels_first", output_size = array<i64: 2, 1, 2>} : (tensor<1x1x3x2x2xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @adaptive_avg_pool3d_grad(
// CHECK: "oneflow.adaptive_avg_pool3d_grad"({{.*}}) {data_format = "channels_first", output_size = array<i64: 2, 1, 2>} : (tensor<1x2x3x2x2xf16>, tensor<1x2x2x1x2xf16>) -> tensor<1x2x3x2x2xf16>
func.func @adaptive_avg_pool3d_grad(%arg0: tensor<1x2x3x2x2xf16>, %arg1: tensor<1x2x2x1x2xf16>) -> tensor<*xf16> {
  %0 = "oneflow.adaptive_avg_pool3d_grad"(%arg0, %arg1) {data_format = "channels_first", output_size = array<i64: 2, 1, 2>} : (tensor<1x2x3x2x2xf16>, tensor<1x2x2x1x2xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
