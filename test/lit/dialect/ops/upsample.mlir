// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @lines(
// CHECK: "oneflow.upsample_nearest_1d"{{.*}} : (tensor<?x3x5xf32>) -> tensor<?x3x7xf32>
// CHECK: "oneflow.upsample_nearest_1d_grad"{{.*}} : (tensor<?x3x7xf32>, tensor<?x3x5xf32>) -> tensor<?x3x5xf32>
// CHECK: "oneflow.upsample_linear_1d"{{.*}} : (tensor<?x3x5xf32>) -> tensor<?x3x9xf32>
// CHECK: "oneflow.upsample_linear_1d_grad"{{.*}} : (tensor<?x3x9xf32>, tensor<?x3x5xf32>) -> tensor<?x3x5xf32>
func.func @lines(%x: tensor<?x3x5xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.upsample_nearest_1d"(%x) {scale_factor = 1.5 : f64, output_size = [], data_format = "channels_first"} : (tensor<?x3x5xf32>) -> tensor<*xf32>
  %1 = "oneflow.upsample_nearest_1d_grad"(%0, %x) {data_format = "channels_first", output_size = [], scale_factor = 1.5 : f64} : (tensor<*xf32>, tensor<?x3x5xf32>) -> tensor<*xf32>
  %2 = "oneflow.upsample_linear_1d"(%x) {data_format = "channels_first", output_size = [9 : si64], align_corners = true} : (tensor<?x3x5xf32>) -> tensor<*xf32>
  %3 = "oneflow.upsample_linear_1d_grad"(%2, %x) {data_format = "channels_first", output_size = [9 : si64], align_corners = true} : (tensor<*xf32>, tensor<?x3x5xf32>) -> tensor<*xf32>
  return %1, %3 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @planes(
// CHECK: "oneflow.upsample_nearest_2d"{{.*}} : (tensor<2x3x?x4xf16>) -> tensor<2x3x?x6xf16>
// CHECK: "oneflow.upsample_nearest_2d_grad"{{.*}} -> tensor<2x3x?x4xf16>
// CHECK: "oneflow.upsample_bilinear_2d"{{.*}} : (tensor<2x3x?x4xf16>) -> tensor<2x3x8x6xf16>
// CHECK: "oneflow.upsample_bilinear_2d_grad"{{.*}} -> tensor<2x3x?x4xf16>
func.func @planes(%x: tensor<2x3x?x4xf16>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0 = "oneflow.upsample_nearest_2d"(%x) {data_format = "channels_first", output_size = [], height_scale = 2.0 : f64, width_scale = 1.5 : f64} : (tensor<2x3x?x4xf16>) -> tensor<*xf16>
  %1 = "oneflow.upsample_nearest_2d_grad"(%0, %x) {data_format = "channels_first", output_size = [], height_scale = 2.0 : f64, width_scale = 1.5 : f64} : (tensor<*xf16>, tensor<2x3x?x4xf16>) -> tensor<*xf16>
  %2 = "oneflow.upsample_bilinear_2d"(%x) {data_format = "channels_first", output_size = [8 : si64, 6 : si64]} : (tensor<2x3x?x4xf16>) -> tensor<*xf16>
  %3 = "oneflow.upsample_bilinear_2d_grad"(%2, %x) {data_format = "channels_first", output_size = [8 : si64, 6 : si64]} : (tensor<*xf16>, tensor<2x3x?x4xf16>) -> tensor<*xf16>
  return %1, %3 : tensor<*xf16>, tensor<*xf16>
}

// CHECK-LABEL: func.func @volumes(
// CHECK: "oneflow.upsample_nearest_3d"{{.*}} -> tensor<2x3x4x3x4xf32>
// CHECK: "oneflow.upsample_nearest_3d_grad"{{.*}} -> tensor<2x3x2x3x4xf32>
// CHECK: "oneflow.upsample_trilinear_3d"{{.*}} -> tensor<2x3x4x5x6xf32>
// CHECK: "oneflow.upsample_trilinear_3d_grad"{{.*}} -> tensor<2x3x2x3x4xf32>
func.func @volumes(%x: tensor<2x3x2x3x4xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.upsample_nearest_3d"(%x) {data_format = "channels_first", output_size = [], depth_scale = 2.0 : f64, height_scale = 1.0 : f64, width_scale = 1.0 : f64} : (tensor<2x3x2x3x4xf32>) -> tensor<*xf32>
  %1 = "oneflow.upsample_nearest_3d_grad"(%0, %x) {data_format = "channels_first", output_size = [], depth_scale = 2.0 : f64, height_scale = 1.0 : f64, width_scale = 1.0 : f64} : (tensor<*xf32>, tensor<2x3x2x3x4xf32>) -> tensor<*xf32>
  %2 = "oneflow.upsample_trilinear_3d"(%x) {data_format = "channels_first", output_size = [4 : si64, 5 : si64, 6 : si64]} : (tensor<2x3x2x3x4xf32>) -> tensor<*xf32>
  %3 = "oneflow.upsample_trilinear_3d_grad"(%2, %x) {data_format = "channels_first", output_size = [4 : si64, 5 : si64, 6 : si64]} : (tensor<*xf32>, tensor<2x3x2x3x4xf32>) -> tensor<*xf32>
  return %1, %3 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @cubics_and_centres(
// CHECK: "oneflow.upsample_bicubic_2d"{{.*}} : (tensor<2x3x?x4xf16>) -> tensor<2x3x8x6xf16>
// CHECK: "oneflow.upsample_bicubic_2d_grad"{{.*}} -> tensor<2x3x?x4xf16>
// CHECK: "oneflow.upsample_nearest_exact_2d"{{.*}} : (tensor<2x3x?x4xf16>) -> tensor<2x3x?x6xf16>
// CHECK: "oneflow.upsample_nearest_exact_2d_grad"{{.*}} -> tensor<2x3x?x4xf16>
func.func @cubics_and_centres(%x: tensor<2x3x?x4xf16>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0 = "oneflow.upsample_bicubic_2d"(%x) {output_size = [8 : si64, 6 : si64], align_corners = true, data_format = "channels_first"} : (tensor<2x3x?x4xf16>) -> tensor<*xf16>
  %1 = "oneflow.upsample_bicubic_2d_grad"(%0, %x) {output_size = [8 : si64, 6 : si64], align_corners = true, data_format = "channels_first"} : (tensor<*xf16>, tensor<2x3x?x4xf16>) -> tensor<*xf16>
  %2 = "oneflow.upsample_nearest_exact_2d"(%x) {height_scale = 2.0 : f64, width_scale = 1.5 : f64, output_size = [], data_format = "channels_first"} : (tensor<2x3x?x4xf16>) -> tensor<*xf16>
  %3 = "oneflow.upsample_nearest_exact_2d_grad"(%2, %x) {height_scale = 2.0 : f64, width_scale = 1.5 : f64, output_size = [], data_format = "channels_first"} : (tensor<*xf16>, tensor<2x3x?x4xf16>) -> tensor<*xf16>
  return %1, %3 : tensor<*xf16>, tensor<*xf16>
}
