// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @crop_mirror_normalize_from_uint8(
// CHECK: "oneflow.crop_mirror_normalize_from_uint8"({{.*}}) {crop_h = 2 : i64, crop_pos_x = 1.000000e+00 : f32, crop_pos_y = 0.000000e+00 : f32, crop_w = 3 : i64, mean = array<f32: 5.000000e-01, 1.000000e+01, 2.000000e+01>, output_dtype = f32, std = array<f32: 2.000000e+00, 4.000000e+00, 5.000000e-01>} : (tensor<3x3x4x3xui8>, tensor<3xi8>) -> tensor<3x3x2x3xf32>
func.func @crop_mirror_normalize_from_uint8(%arg0: tensor<3x3x4x3xui8>, %arg1: tensor<3xi8>) -> tensor<*xf32> {
  %0 = "oneflow.crop_mirror_normalize_from_uint8"(%arg0, %arg1) {crop_h = 2 : i64, crop_pos_x = 1.000000e+00 : f32, crop_pos_y = 0.000000e+00 : f32, crop_w = 3 : i64, mean = array<f32: 5.000000e-01, 1.000000e+01, 2.000000e+01>, output_dtype = f32, std = array<f32: 2.000000e+00, 4.000000e+00, 5.000000e-01>} : (tensor<3x3x4x3xui8>, tensor<3xi8>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @crop_mirror_normalize_from_tensorbuffer(
// CHECK: "oneflow.crop_mirror_normalize_from_tensorbuffer"({{.*}}) {crop_h = 2 : i64, crop_pos_x = 1.000000e+00 : f32, crop_pos_y = 0.000000e+00 : f32, crop_w = 3 : i64, mean = array<f32: 5.000000e-01, 1.000000e+01, 2.000000e+01>, output_dtype = f32, std = array<f32: 2.000000e+00, 4.000000e+00, 5.000000e-01>} : (tensor<3x3x4x3xui8>, tensor<3xi8>) -> tensor<3x3x2x3xf32>
func.func @crop_mirror_normalize_from_tensorbuffer(%arg0: tensor<3x3x4x3xui8>, %arg1: tensor<3xi8>) -> tensor<*xf32> {
  %0 = "oneflow.crop_mirror_normalize_from_tensorbuffer"(%arg0, %arg1) {crop_h = 2 : i64, crop_pos_x = 1.000000e+00 : f32, crop_pos_y = 0.000000e+00 : f32, crop_w = 3 : i64, mean = array<f32: 5.000000e-01, 1.000000e+01, 2.000000e+01>, output_dtype = f32, std = array<f32: 2.000000e+00, 4.000000e+00, 5.000000e-01>} : (tensor<3x3x4x3xui8>, tensor<3xi8>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @image_flip(
// CHECK: "oneflow.image_flip"({{.*}}) : (tensor<3x3x3x1xf32>, tensor<3xi8>) -> tensor<3x3x3x1xf32>
func.func @image_flip(%arg0: tensor<3x3x3x1xf32>, %arg1: tensor<3xi8>) -> tensor<*xf32> {
  %0 = "oneflow.image_flip"(%arg0, %arg1) : (tensor<3x3x3x1xf32>, tensor<3xi8>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @image_normalize(
// CHECK: "oneflow.image_normalize"({{.*}}) {mean = array<f32: 5.000000e-01, 1.000000e+00>, std = array<f32: 2.000000e+00, 4.000000e+00>} : (tensor<3x2x2x2xf32>) -> tensor<3x2x2x2xf32>
func.func @image_normalize(%arg0: tensor<3x2x2x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.image_normalize"(%arg0) {mean = array<f32: 5.000000e-01, 1.000000e+00>, std = array<f32: 2.000000e+00, 4.000000e+00>} : (tensor<3x2x2x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @image_batch_align(
// CHECK: "oneflow.image_batch_align"({{.*}}) {alignment = 4 : i32, data_type = f32, shape = array<i64: 4, 4, 1>} : (tensor<3x3x2x1xf32>) -> tensor<3x4x4x1xf32>
func.func @image_batch_align(%arg0: tensor<3x3x2x1xf32>) -> tensor<*xf32> {
  %0 = "oneflow.image_batch_align"(%arg0) {alignment = 4 : i32, data_type = f32, shape = array<i64: 4, 4, 1>} : (tensor<3x3x2x1xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @object_bbox_flip(
// CHECK: "oneflow.object_bbox_flip"({{.*}}) : (tensor<3x3x4xf32>, tensor<3x2xi32>, tensor<3xi8>) -> tensor<3x3x4xf32>
func.func @object_bbox_flip(%arg0: tensor<3x3x4xf32>, %arg1: tensor<3x2xi32>, %arg2: tensor<3xi8>) -> tensor<*xf32> {
  %0 = "oneflow.object_bbox_flip"(%arg0, %arg1, %arg2) : (tensor<3x3x4xf32>, tensor<3x2xi32>, tensor<3xi8>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @object_bbox_scale(
// CHECK: "oneflow.object_bbox_scale"({{.*}}) : (tensor<3x3x4xf32>, tensor<3x2xf32>) -> tensor<3x3x4xf32>
func.func @object_bbox_scale(%arg0: tensor<3x3x4xf32>, %arg1: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.object_bbox_scale"(%arg0, %arg1) : (tensor<3x3x4xf32>, tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @object_segmentation_polygon_flip(
// CHECK: "oneflow.object_segmentation_polygon_flip"({{.*}}) : (tensor<3x3x2xf32>, tensor<3x2xi32>, tensor<3xi8>) -> tensor<3x3x2xf32>
func.func @object_segmentation_polygon_flip(%arg0: tensor<3x3x2xf32>, %arg1: tensor<3x2xi32>, %arg2: tensor<3xi8>) -> tensor<*xf32> {
  %0 = "oneflow.object_segmentation_polygon_flip"(%arg0, %arg1, %arg2) : (tensor<3x3x2xf32>, tensor<3x2xi32>, tensor<3xi8>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @object_segmentation_polygon_scale(
// CHECK: "oneflow.object_segmentation_polygon_scale"({{.*}}) : (tensor<3x3x2xf32>, tensor<3x2xf32>) -> tensor<3x3x2xf32>
func.func @object_segmentation_polygon_scale(%arg0: tensor<3x3x2xf32>, %arg1: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.object_segmentation_polygon_scale"(%arg0, %arg1) : (tensor<3x3x2xf32>, tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
