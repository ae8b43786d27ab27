// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @views(
// CHECK-NEXT: "oneflow.as_strided"(%{{.*}}) {size = array<i64: 2, 3>, storage_offset = 1 : i64, stride = array<i64: 20, 2>} : (tensor<3x4x5xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: "oneflow.diag"(%{{.*}}) {diagonal = 1 : i32} : (tensor<3xf32>) -> tensor<4x4xf32>
// CHECK-NEXT: "oneflow.diagonal"(%{{.*}}) {offset = 1 : i32} : (tensor<3x4x5xf32>) -> tensor<5x3xf32>
// CHECK-NEXT: "oneflow.unfold_tensor"(%{{.*}}) {dimension = 2 : i32, size = 2 : i32, step = 3 : i32} : (tensor<3x4x5xf32>) -> tensor<3x4x2x2xf32>
func.func @views(%x: tensor<3x4x5xf32>, %v: tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.as_strided"(%x) {size = [2, 3], stride = [20, 2], storage_offset = 1 : si64} : (tensor<3x4x5xf32>) -> tensor<*xf32>
  %1 = "oneflow.diag"(%v) {diagonal = 1 : si32} : (tensor<3xf32>) -> tensor<*xf32>
  %2 = "oneflow.diagonal"(%x) {offset = 1 : si32} : (tensor<3x4x5xf32>) -> tensor<*xf32>
  %3 = "oneflow.unfold_tensor"(%x) {dimension = 2 : si32, size = 2 : si32, step = 3 : si32} : (tensor<3x4x5xf32>) -> tensor<*xf32>
  return %0, %1, %2, %3 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @adjoints(
// CHECK-NEXT: "oneflow.as_strided_grad"(%{{.*}}, %{{.*}}) {size = array<i64: 2, 3>, stride = array<i64: 20, 2>} : (tensor<2x3xf32>, tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
// CHECK-NEXT: "oneflow.diag_grad"(%{{.*}}, %{{.*}}) {diagonal = 1 : i32} : (tensor<4x4xf32>, tensor<3xf32>) -> tensor<3xf32>
// CHECK-NEXT: "oneflow.diagonal_grad"(%{{.*}}, %{{.*}}) {offset = 1 : i32} : (tensor<5x3xf32>, tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
// CHECK-NEXT: "oneflow.unfold_tensor_grad"(%{{.*}}, %{{.*}}) {dimension = 2 : i32, size = 2 : i32, step = 3 : i32} : (tensor<3x4x2x2xf32>, tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
func.func @adjoints(%x: tensor<3x4x5xf32>, %v: tensor<3xf32>, %a: tensor<2x3xf32>, %b: tensor<4x4xf32>, %c: tensor<5x3xf32>, %d: tensor<3x4x2x2xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.as_strided_grad"(%a, %x) {size = [2, 3], stride = [20, 2]} : (tensor<2x3xf32>, tensor<3x4x5xf32>) -> tensor<*xf32>
  %1 = "oneflow.diag_grad"(%b, %v) {diagonal = 1 : si32} : (tensor<4x4xf32>, tensor<3xf32>) -> tensor<*xf32>
  %2 = "oneflow.diagonal_grad"(%c, %x) {offset = 1 : si32} : (tensor<5x3xf32>, tensor<3x4x5xf32>) -> tensor<*xf32>
  %3 = "oneflow.unfold_tensor_grad"(%d, %x) {dimension = 2 : si32, size = 2 : si32, step = 3 : si32} : (tensor<3x4x2x2xf32>, tensor<3x4x5xf32>) -> tensor<*xf32>
  return %0, %1, %2, %3 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @columns(
// CHECK-NEXT: "oneflow.unfold"(%{{.*}}) {data_format = "channels_first", dilation_rate = array<i32: 1, 1>, kernel_size = array<i32: 2, 3>, padding = array<i32: 1, 0>, strides = array<i32: 1, 1>} : (tensor<2x3x4x6xf32>) -> tensor<2x18x20xf32>
// CHECK-NEXT: "oneflow.fold"(%{{.*}}) {data_format = "channels_first", dilation_rate = array<i32: 1, 1>, kernel_size = array<i32: 2, 3>, output_size = array<i32: 4, 6>, padding = array<i32: 1, 0>, strides = array<i32: 1, 1>} : (tensor<2x18x20xf32>) -> tensor<2x3x4x6xf32>
func.func @columns(%x: tensor<2x3x4x6xf32>) -> tensor<*xf32> {
  %0 = "oneflow.unfold"(%x) {data_format = "channels_first", kernel_size = [2, 3], padding = [1, 0], strides = [1, 1], dilation_rate = [1, 1]} : (tensor<2x3x4x6xf32>) -> tensor<*xf32>
  %1 = "oneflow.fold"(%0) {data_format = "channels_first", output_size = [4, 6], kernel_size = [2, 3], padding = [1, 0], strides = [1, 1], dilation_rate = [1, 1]} : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}
