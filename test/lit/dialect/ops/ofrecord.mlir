// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @ofrecordreader(
// CHECK: "oneflow.ofrecordreader"({{.*}}) {batch_size = 3 : i32, data_dir = "train", data_part_num = 2 : i32, record_bytes = 146 : i64} : () -> tensor<3x146xui8>
func.func @ofrecordreader() -> tensor<*xui8> {
  %0 = "oneflow.ofrecordreader"() {batch_size = 3 : i32, data_dir = "train", data_part_num = 2 : i32, record_bytes = 146 : i64} : () -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @ofrecord_image_classification_reader(
// CHECK: "oneflow.ofrecord_image_classification_reader"({{.*}}) {batch_size = 3 : i32, color_space = "RGB", data_dir = "train", data_part_num = 2 : i32, max_size = array<i64: 3, 4>} : () -> (tensor<3x3x4x3xui8>, tensor<3x1xi32>, tensor<3x2xi32>)
func.func @ofrecord_image_classification_reader() -> (tensor<*xui8>, tensor<*xi32>, tensor<*xi32>) {
  %0:3 = "oneflow.ofrecord_image_classification_reader"() {batch_size = 3 : i32, color_space = "RGB", data_dir = "train", data_part_num = 2 : i32, max_size = array<i64: 3, 4>} : () -> (tensor<*xui8>, tensor<*xi32>, tensor<*xi32>)
  return %0#0, %0#1, %0#2 : tensor<*xui8>, tensor<*xi32>, tensor<*xi32>
}

// CHECK-LABEL: func.func @ofrecord_bytes_decoder(
// CHECK: "oneflow.ofrecord_bytes_decoder"({{.*}}) {name = "encoded"} : (tensor<3x144xui8>) -> (tensor<3x144xui8>, tensor<3xi64>)
func.func @ofrecord_bytes_decoder(%arg0: tensor<3x144xui8>) -> (tensor<*xui8>, tensor<*xi64>) {
  %0:2 = "oneflow.ofrecord_bytes_decoder"(%arg0) {name = "encoded"} : (tensor<3x144xui8>) -> (tensor<*xui8>, tensor<*xi64>)
  return %0#0, %0#1 : tensor<*xui8>, tensor<*xi64>
}

// CHECK-LABEL: func.func @ofrecord_raw_decoder(
// CHECK: "oneflow.ofrecord_raw_decoder"({{.*}}) {data_type = i32, name = "class/label", shape = array<i64>} : (tensor<3x144xui8>) -> tensor<3xi32>
func.func @ofrecord_raw_decoder(%arg0: tensor<3x144xui8>) -> tensor<*xi32> {
  %0 = "oneflow.ofrecord_raw_decoder"(%arg0) {data_type = i32, name = "class/label", shape = array<i64>} : (tensor<3x144xui8>) -> tensor<*xi32>
  return %0 : tensor<*xi32>
}

// CHECK-LABEL: func.func @ofrecord_image_decoder(
// CHECK: "oneflow.ofrecord_image_decoder"({{.*}}) {max_size = array<i64: 3, 4>, name = "encoded"} : (tensor<3x144xui8>) -> (tensor<3x3x4x3xui8>, tensor<3x2xi32>)
func.func @ofrecord_image_decoder(%arg0: tensor<3x144xui8>) -> (tensor<*xui8>, tensor<*xi32>) {
  %0:2 = "oneflow.ofrecord_image_decoder"(%arg0) {max_size = array<i64: 3, 4>, name = "encoded"} : (tensor<3x144xui8>) -> (tensor<*xui8>, tensor<*xi32>)
  return %0#0, %0#1 : tensor<*xui8>, tensor<*xi32>
}

// CHECK-LABEL: func.func @ofrecord_image_decoder_random_crop(
// CHECK: "oneflow.ofrecord_image_decoder_random_crop"({{.*}}) {max_size = array<i64: 3, 4>, name = "encoded", random_area = array<f32: 3.000000e-01, 1.000000e+00>, random_aspect_ratio = array<f32: 5.000000e-01, 2.000000e+00>, seed = 1 : i64} : (tensor<3x144xui8>) -> (tensor<3x3x4x3xui8>, tensor<3x2xi32>)
func.func @ofrecord_image_decoder_random_crop(%arg0: tensor<3x144xui8>) -> (tensor<*xui8>, tensor<*xi32>) {
  %0:2 = "oneflow.ofrecord_image_decoder_random_crop"(%arg0) {max_size = array<i64: 3, 4>, name = "encoded", random_area = array<f32: 3.000000e-01, 1.000000e+00>, random_aspect_ratio = array<f32: 5.000000e-01, 2.000000e+00>, seed = 1 : i64} : (tensor<3x144xui8>) -> (tensor<*xui8>, tensor<*xi32>)
  return %0#0, %0#1 : tensor<*xui8>, tensor<*xi32>
}
