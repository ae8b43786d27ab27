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
