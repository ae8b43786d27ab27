// RUN: %python %S/Inputs/build.py %S/Inputs/halve.cpp %t.so
// RUN: oneflow-opt --load-ops=%t.so --oneflow-autodiff="func=f" --split-input-file --verify-diagnostics %s | FileCheck %s

// The operations that the C++ gradient function defines are built.
// CHECK-LABEL: func.func @f_grad(
// CHECK: oneflow.lit_twice
// CHECK-SAME: (tensor<3xf32>) -> tensor<3xf32>
// CHECK: return {{.*}} : tensor<3xf32>
func.func @f(%x: tensor<3xf32>) -> tensor<f32> {
  %0 = "oneflow.lit_twice"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "oneflow.reduce_sum"(%0) {axis = array<i32: 0>} : (tensor<3xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<f32> {
  // expected-error@+1 {{no REGISTER_USER_OP_GRAD in its library}}
  %0 = "oneflow.lit_halve"(%x) : (tensor<4xf32>) -> tensor<2xf32>
  %1 = "oneflow.reduce_sum"(%0) {axis = array<i32: 0>} : (tensor<2xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
