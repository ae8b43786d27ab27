// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @image_decode(
// CHECK: "oneflow.image_decode"({{.*}}) {data_type = ui8, max_size = array<i64: 3, 4>} : (tensor<3x85xui8>) -> (tensor<3x3x4x3xui8>, tensor<3x2xi32>)
func.func @image_decode(%arg0: tensor<3x85xui8>) -> (tensor<*xui8>, tensor<*xi32>) {
  %0:2 = "oneflow.image_decode"(%arg0) {data_type = ui8, max_size = array<i64: 3, 4>} : (tensor<3x85xui8>) -> (tensor<*xui8>, tensor<*xi32>)
  return %0#0, %0#1 : tensor<*xui8>, tensor<*xi32>
}

// CHECK-LABEL: func.func @image_random_crop(
// CHECK: "oneflow.image_random_crop"({{.*}}) {operandSegmentSizes = array<i32: 1, 0, 0>, random_area = array<f32: 2.000000e-01, 0.899999976>, random_aspect_ratio = array<f32: 5.000000e-01, 2.000000e+00>, seed = 3 : i64} : (tensor<3x4x3x3xui8>) -> (tensor<3x4x3x3xui8>, tensor<3x2xi32>)
func.func @image_random_crop(%arg0: tensor<3x4x3x3xui8>) -> (tensor<*xui8>, tensor<*xi32>) {
  %0:2 = "oneflow.image_random_crop"(%arg0) {operandSegmentSizes = array<i32: 1, 0, 0>, random_area = array<f32: 2.000000e-01, 0.899999976>, random_aspect_ratio = array<f32: 5.000000e-01, 2.000000e+00>, seed = 3 : i64} : (tensor<3x4x3x3xui8>) -> (tensor<*xui8>, tensor<*xi32>)
  return %0#0, %0#1 : tensor<*xui8>, tensor<*xi32>
}

// CHECK-LABEL: func.func @image_resize_to_fixed(
// CHECK: "oneflow.image_resize_to_fixed"({{.*}}) {data_type = ui8, interpolation_type = "auto", target_height = 2 : i64, target_width = 5 : i64} : (tensor<3x4x3x3xui8>) -> (tensor<3x2x5x3xui8>, tensor<3x2xf32>)
func.func @image_resize_to_fixed(%arg0: tensor<3x4x3x3xui8>) -> (tensor<*xui8>, tensor<*xf32>) {
  %0:2 = "oneflow.image_resize_to_fixed"(%arg0) {data_type = ui8, interpolation_type = "auto", target_height = 2 : i64, target_width = 5 : i64} : (tensor<3x4x3x3xui8>) -> (tensor<*xui8>, tensor<*xf32>)
  return %0#0, %0#1 : tensor<*xui8>, tensor<*xf32>
}

// CHECK-LABEL: func.func @image_resize_keep_aspect_ratio(
// CHECK: "oneflow.image_resize_keep_aspect_ratio"({{.*}}) {interpolation_type = "nn", target_size = 2 : i32} : (tensor<3x4x3x3xui8>) -> (tensor<3x3x2x3xui8>, tensor<3x2xi32>, tensor<3x2xf32>)
func.func @image_resize_keep_aspect_ratio(%arg0: tensor<3x4x3x3xui8>) -> (tensor<*xui8>, tensor<*xi32>, tensor<*xf32>) {
  %0:3 = "oneflow.image_resize_keep_aspect_ratio"(%arg0) {interpolation_type = "nn", target_size = 2 : i32} : (tensor<3x4x3x3xui8>) -> (tensor<*xui8>, tensor<*xi32>, tensor<*xf32>)
  return %0#0, %0#1, %0#2 : tensor<*xui8>, tensor<*xi32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @image_target_resize(
// CHECK: "oneflow.image_target_resize"({{.*}}) {max_size = 6 : i32, target_size = 5 : i32} : (tensor<3x4x3x3xui8>) -> (tensor<3x6x4x3xui8>, tensor<3x2xi32>, tensor<3x2xf32>)
func.func @image_target_resize(%arg0: tensor<3x4x3x3xui8>) -> (tensor<*xui8>, tensor<*xi32>, tensor<*xf32>) {
  %0:3 = "oneflow.image_target_resize"(%arg0) {max_size = 6 : i32, target_size = 5 : i32} : (tensor<3x4x3x3xui8>) -> (tensor<*xui8>, tensor<*xi32>, tensor<*xf32>)
  return %0#0, %0#1, %0#2 : tensor<*xui8>, tensor<*xi32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @object_segmentation_polygon_to_mask(
// CHECK: "oneflow.object_segmentation_polygon_to_mask"({{.*}}) {shape = array<i64: 2, 4, 6>} : (tensor<3x6x2xf32>, tensor<3x6x3xi32>, tensor<3x2xi32>) -> tensor<3x2x4x6xi8>
func.func @object_segmentation_polygon_to_mask(%arg0: tensor<3x6x2xf32>, %arg1: tensor<3x6x3xi32>, %arg2: tensor<3x2xi32>) -> tensor<*xi8> {
  %0 = "oneflow.object_segmentation_polygon_to_mask"(%arg0, %arg1, %arg2) {shape = array<i64: 2, 4, 6>} : (tensor<3x6x2xf32>, tensor<3x6x3xi32>, tensor<3x2xi32>) -> tensor<*xi8>
  return %0 : tensor<*xi8>
}
