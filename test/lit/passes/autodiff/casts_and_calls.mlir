// RUN: oneflow-opt %s --oneflow-autodiff="func=f" --split-input-file | FileCheck %s

// A cast is looked through; the gradient has the argument's own type again.
// CHECK-LABEL: func.func @f_grad(
// CHECK-SAME: %[[X:.*]]: tensor<?x3xf32>) -> tensor<?x3xf32>
// CHECK: tensor.cast %[[X]] : tensor<?x3xf32> to tensor<2x3xf32>
// CHECK: tensor.cast %{{.*}} : tensor<2x3xf32> to tensor<?x3xf32>
// CHECK-NEXT: return
func.func @f(%x: tensor<?x3xf32>) -> tensor<f32> {
  %0 = tensor.cast %x : tensor<?x3xf32> to tensor<2x3xf32>
  %1 = "oneflow.sin"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "oneflow.reduce_sum"(%1) {axis = array<i32: 0, 1>} : (tensor<2x3xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// Repeated operands of different shapes are cast to the common type; their gradients have static types.
// CHECK-LABEL: func.func @f_grad(
// CHECK-SAME: -> (tensor<2x3xf32>, tensor<1x3xf32>)
// CHECK: "oneflow.narrow"(%{{.*}}) {length = 2 : i64} : (tensor<3x3xf32>) -> tensor<2x3xf32>
// CHECK: "oneflow.narrow"(%{{.*}}) {length = 1 : i64, start = 2 : i64} : (tensor<3x3xf32>) -> tensor<1x3xf32>
// CHECK: return %{{.*}}, %{{.*}} : tensor<2x3xf32>, tensor<1x3xf32>
func.func @f(%x: tensor<2x3xf32>, %y: tensor<1x3xf32>) -> tensor<f32> {
  %0 = tensor.cast %x : tensor<2x3xf32> to tensor<?x3xf32>
  %1 = tensor.cast %y : tensor<1x3xf32> to tensor<?x3xf32>
  %2 = "oneflow.cat"(%0, %1) {axis = 0 : i64, max_dim_size = 3 : i64} : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<3x3xf32>
  %3 = "oneflow.reduce_sum"(%2) {axis = array<i32: 0, 1>} : (tensor<3x3xf32>) -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @f_grad(
// CHECK: %[[S:.*]]:2 = "oneflow.split_like"(%{{.*}}, %{{.*}}, %{{.*}}) : {{.*}} -> (tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK-NEXT: return %[[S]]#0, %[[S]]#1
func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<f32> {
  %0 = "oneflow.cat"(%x, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %1 = "oneflow.reduce_sum"(%0) {axis = array<i32: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Calls are inlined, nested calls included, in the gradient only.
// CHECK-LABEL: func.func @f(
// CHECK-NEXT: call @middle
// CHECK-LABEL: func.func @f_grad(
// CHECK-NOT: call
// CHECK: "oneflow.cos"
// CHECK-NOT: call
// CHECK: return
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @middle(%x) : (tensor<f32>) -> tensor<f32>
  %1 = call @middle(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @middle(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @inner(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @inner(%x: tensor<f32>) -> tensor<f32> {
  %0 = "oneflow.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Other operations are allowed outside of the path.
// CHECK-LABEL: func.func @f_grad(
// CHECK: arith.constant dense<2.0{{.*}}>
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  %c = arith.constant dense<2.0> : tensor<f32>
  %0 = "oneflow.broadcast_mul"(%x, %c) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
