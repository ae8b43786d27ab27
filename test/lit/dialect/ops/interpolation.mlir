// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @sampled(
// CHECK-NEXT: "oneflow.grid_sample"(%{{.*}}, %{{.*}}) {interpolation_mode = "bilinear", padding_mode = "zeros"} : (tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x6x7xf32>
// CHECK-NEXT: "oneflow.grid_sample_grad"(%{{.*}}, %{{.*}}, %{{.*}}) {interpolation_mode = "bilinear", padding_mode = "zeros"} : (tensor<2x3x6x7xf32>, tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>) -> (tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>)
func.func @sampled(%x: tensor<2x3x4x5xf32>, %g: tensor<2x6x7x2xf32>, %d: tensor<2x3x6x7xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.grid_sample"(%x, %g) {interpolation_mode = "bilinear", padding_mode = "zeros"} : (tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>) -> tensor<*xf32>
  %1:2 = "oneflow.grid_sample_grad"(%d, %x, %g) {interpolation_mode = "bilinear", padding_mode = "zeros"} : (tensor<2x3x6x7xf32>, tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0, %1#0, %1#1 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @grids(
// CHECK-NEXT: "oneflow.affine_grid"(%{{.*}}) {size = array<i64: 2, 3, 4, 5>} : (tensor<2x2x3xf32>) -> tensor<2x4x5x2xf32>
// CHECK-NEXT: "oneflow.affine_grid_grad"(%{{.*}}) {size = array<i64: 2, 3, 4, 5>} : (tensor<2x4x5x2xf32>) -> tensor<2x2x3xf32>
func.func @grids(%t: tensor<2x2x3xf32>, %d: tensor<2x4x5x2xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.affine_grid"(%t) {size = [2, 3, 4, 5]} : (tensor<2x2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.affine_grid_grad"(%d) {size = [2, 3, 4, 5]} : (tensor<2x4x5x2xf32>) -> tensor<*xf32>
  return %0, %1 : tensor<*xf32>, tensor<*xf32>
}
