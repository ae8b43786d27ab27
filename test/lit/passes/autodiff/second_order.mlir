// RUN: oneflow-opt %s --oneflow-autodiff="func=cube" --oneflow-autodiff="func=cube_grad" | FileCheck %s
// RUN: oneflow-opt %s --pass-pipeline="builtin.module(oneflow-autodiff{func=cube},oneflow-autodiff{func=cube_grad},oneflow-autodiff{func=cube_grad_grad})" | FileCheck %s --check-prefix=THIRD

// CHECK: func.func @cube(
// CHECK: func.func @cube_grad(
// CHECK: func.func @cube_grad_grad(%{{.*}}: tensor<f32>) -> tensor<f32>
// THIRD: func.func @cube_grad_grad_grad(%{{.*}}: tensor<f32>) -> tensor<f32>
func.func @cube(%x: tensor<f32>) -> tensor<f32> {
  %0 = "oneflow.square"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "oneflow.broadcast_mul"(%0, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
