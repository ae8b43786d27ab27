// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

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
