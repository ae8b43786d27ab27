// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @upsample_nearest_exact_1d(
// CHECK: "oneflow.upsample_nearest_exact_1d"({{.*}}) {data_format = "channels_first", output_size = array<i64: 1>} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
func.func @upsample_nearest_exact_1d(%arg0: tensor<1x2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.upsample_nearest_exact_1d"(%arg0) {data_format = "channels_first", output_size = array<i64: 1>} : (tensor<1x2x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @upsample_nearest_exact_1d_grad(
// CHECK: "oneflow.upsample_nearest_exact_1d_grad"({{.*}}) {data_format = "channels_first", output_size = array<i64: 1>} : (tensor<1x2x1xf32>, tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
func.func @upsample_nearest_exact_1d_grad(%arg0: tensor<1x2x1xf32>, %arg1: tensor<1x2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.upsample_nearest_exact_1d_grad"(%arg0, %arg1) {data_format = "channels_first", output_size = array<i64: 1>} : (tensor<1x2x1xf32>, tensor<1x2x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @upsample_nearest_exact_3d(
// CHECK: "oneflow.upsample_nearest_exact_3d"({{.*}}) {data_format = "channels_first", depth_scale = 2.000000e+00 : f64, height_scale = 1.500000e+00 : f64, output_size = array<i64>, width_scale = 1.000000e+00 : f64} : (tensor<1x2x2x2x3xf32>) -> tensor<1x2x4x3x3xf32>
func.func @upsample_nearest_exact_3d(%arg0: tensor<1x2x2x2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.upsample_nearest_exact_3d"(%arg0) {data_format = "channels_first", depth_scale = 2.000000e+00 : f64, height_scale = 1.500000e+00 : f64, output_size = array<i64>, width_scale = 1.000000e+00 : f64} : (tensor<1x2x2x2x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @upsample_nearest_exact_3d_grad(
// CHECK: "oneflow.upsample_nearest_exact_3d_grad"({{.*}}) {data_format = "channels_first", depth_scale = 2.000000e+00 : f64, height_scale = 1.500000e+00 : f64, output_size = array<i64>, width_scale = 1.000000e+00 : f64} : (tensor<1x2x4x3x3xf32>, tensor<1x2x2x2x3xf32>) -> tensor<1x2x2x2x3xf32>
func.func @upsample_nearest_exact_3d_grad(%arg0: tensor<1x2x4x3x3xf32>, %arg1: tensor<1x2x2x2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.upsample_nearest_exact_3d_grad"(%arg0, %arg1) {data_format = "channels_first", depth_scale = 2.000000e+00 : f64, height_scale = 1.500000e+00 : f64, output_size = array<i64>, width_scale = 1.000000e+00 : f64} : (tensor<1x2x4x3x3xf32>, tensor<1x2x2x2x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
