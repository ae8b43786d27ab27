// RUN: oneflow-opt %s --oneflow-autodiff="func=loss wrt=2,0" | FileCheck %s --check-prefix=WRT
// RUN: oneflow-opt %s --oneflow-autodiff="func=loss wrt=0 value-and-grad" | FileCheck %s --check-prefix=VALUE
// RUN: oneflow-opt %s --oneflow-autodiff="func=loss cotangents" | FileCheck %s --check-prefix=SEED
// RUN: oneflow-opt %s --oneflow-autodiff="func=two value-and-grad=true" | FileCheck %s --check-prefix=TWO

// Results follow the order of wrt; integers are left out by default; names are taken along.
// WRT: func.func @loss_grad(%{{.*}}: tensor<3xf32> {oneflow.name = "x"}, %{{.*}}: tensor<3xi64>, %{{.*}}: tensor<f32> {oneflow.name = "w"})
// WRT-SAME: -> (tensor<f32> {oneflow.name = "w.grad"}, tensor<3xf32> {oneflow.name = "x.grad"})
// VALUE: func.func @loss_grad(
// VALUE-SAME: -> (tensor<f32> {oneflow.name = "y"}, tensor<3xf32> {oneflow.name = "x.grad"})
// SEED: func.func @loss_grad(
// SEED-SAME: %[[DY:[a-z0-9]+]]: tensor<f32> {oneflow.name = "y.cotangent"}) -> (tensor<3xf32> {{.*}}, tensor<f32>
// SEED: "oneflow.broadcast_like"(%[[DY]],
func.func @loss(%x: tensor<3xf32> {oneflow.name = "x"}, %i: tensor<3xi64>, %w: tensor<f32> {oneflow.name = "w"})
    -> (tensor<f32> {oneflow.name = "y"}) {
  %0 = "oneflow.broadcast_mul"(%x, %w) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = "oneflow.reduce_sum"(%0) {axis = array<i32: 0>} : (tensor<3xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// Several float results take a cotangent each, integers none. A private function's gradient is public.
// TWO: func.func @two_grad(%{{.*}}: tensor<3xf32>, %[[A:.*]]: tensor<3xf32>, %[[B:.*]]: tensor<f32>)
// TWO-SAME: -> (tensor<3xf32>, tensor<i64>, tensor<f32>, tensor<3xf32>)
func.func private @two(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<i64>, tensor<f32>) {
  %0 = "oneflow.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "oneflow.argmax"(%x) : (tensor<3xf32>) -> tensor<i64>
  %2 = "oneflow.reduce_sum"(%x) {axis = array<i32: 0>} : (tensor<3xf32>) -> tensor<f32>
  return %0, %1, %2 : tensor<3xf32>, tensor<i64>, tensor<f32>
}
