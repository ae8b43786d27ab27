// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @crop_mirror_normalize_from_uint8(
// CHECK: "oneflow.crop_mirror_normalize_from_uint8"({{.*}}) {crop_h = 2 : i64, crop_pos_x = 1.000000e+00 : f32, crop_pos_y = 0.000000e+00 : f32, crop_w = 3 : i64, mean = array<f32: 5.000000e-01, 1.000000e+01, 2.000000e+01>, output_dtype = f32, std = array<f32: 2.000000e+00, 4.000000e+00, 5.000000e-01>} : (tensor<3x3x4x3xui8>, tensor<3xi8>) -> tensor<3x3x2x3xf32>
func.func @crop_mirror_normalize_from_uint8(%arg0: tensor<3x3x4x3xui8>, %arg1: tensor<3xi8>) -> tensor<*xf32> {
  %0 = "oneflow.crop_mirror_normalize_from_uint8"(%arg0, %arg1) {crop_h = 2 : i64, crop_pos_x = 1.000000e+00 : f32, crop_pos_y = 0.000000e+00 : f32, crop_w = 3 : i64, mean = array<f32: 5.000000e-01, 1.000000e+01, 2.000000e+01>, output_dtype = f32, std = array<f32: 2.000000e+00, 4.000000e+00, 5.000000e-01>} : (tensor<3x3x4x3xui8>, tensor<3xi8>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
