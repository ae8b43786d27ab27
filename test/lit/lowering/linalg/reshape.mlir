// RUN: oneflow-opt %s --convert-oneflow-to-linalg | FileCheck %s

// Groups of equal products are collapsed to the product and expanded from the product.

// CHECK-LABEL: func.func @groups(
// CHECK: %[[C:.*]] = tensor.collapse_shape %arg0 {{\[}}[0], [1, 2]] : tensor<2x3x4xf32> into tensor<2x12xf32>
// CHECK: tensor.expand_shape %[[C]] {{\[}}[0], [1, 2]] output_shape [2, 6, 2] : tensor<2x12xf32> into tensor<2x6x2xf32>
func.func @groups(%a: tensor<2x3x4xf32>) -> tensor<2x6x2xf32> {
  %0 = "oneflow.reshape"(%a) {shape = [2 : si64, 6 : si64, 2 : si64]} : (tensor<2x3x4xf32>) -> tensor<2x6x2xf32>
  return %0 : tensor<2x6x2xf32>
}

// CHECK-LABEL: func.func @merged(
// CHECK-NOT: expand_shape
// CHECK: tensor.collapse_shape %arg0 {{\[}}[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
func.func @merged(%a: tensor<2x3x4xf32>) -> tensor<6x4xf32> {
  %0 = "oneflow.reshape"(%a) {shape = [6 : si64, 4 : si64]} : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @scalar(
// CHECK: tensor.collapse_shape %arg0 [] : tensor<1x1xf32> into tensor<f32>
func.func @scalar(%a: tensor<1x1xf32>) -> tensor<f32> {
  %0 = "oneflow.reshape"(%a) {shape = []} : (tensor<1x1xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// Where sizes are dynamic the element counts are compared in the run.

// CHECK-LABEL: func.func @dynamic(
// CHECK: call @oneflow_rt_check_size
// CHECK: %[[C:.*]] = tensor.collapse_shape %arg0 {{\[}}[0, 1]] : tensor<?x4xf32> into tensor<?xf32>
// CHECK: tensor.expand_shape %[[C]] {{\[}}[0, 1]] output_shape [%{{.*}}, 2] : tensor<?xf32> into tensor<?x2xf32>
func.func @dynamic(%a: tensor<?x4xf32>) -> tensor<?x2xf32> {
  %0 = "oneflow.reshape"(%a) {shape = [-1 : si64, 2 : si64]} : (tensor<?x4xf32>) -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}

// A transpose that only moves axes of size 1 leaves the order of elements unchanged.
// CHECK-LABEL: func.func @moved_ones(
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @moved_ones(%a: tensor<1x3x1x?xf32>) -> tensor<3x1x?x1xf32> {
  %0 = "oneflow.transpose"(%a) {perm = [1, 2, 3, 0]} : (tensor<1x3x1x?xf32>) -> tensor<3x1x?x1xf32>
  return %0 : tensor<3x1x?x1xf32>
}
