// RUN: oneflow-opt %s --convert-oneflow-to-linalg --canonicalize --cse --oneflow-form-kernels --oneflow-share-kernels | FileCheck %s

// Kernels that differ in constants only are one kernel with the constants as arguments.

// CHECK-LABEL: func.func private @main_kernel_0(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>, %[[N:.*]]: f32, %[[OUT:.*]]: tensor<8xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<8xf32>) outs(%[[OUT]] : tensor<8xf32>)
// CHECK: arith.mulf %{{.*}}, %[[N]] : f32
// CHECK: arith.addf %{{.*}}, %cst : f32
// CHECK-NOT: func.func private @main_kernel_1(

// The initial value of a sum stays in its kernel.
// CHECK-LABEL: func.func private @main_kernel_2(
// CHECK: linalg.fill
// CHECK-LABEL: func.func private @main_kernel_3(
// CHECK: linalg.fill

// CHECK-LABEL: func.func @main(
// CHECK: tensor.empty
// CHECK-NEXT: %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK-NEXT: call @main_kernel_0(%{{.*}}, %[[TWO]], %{{.*}})
// CHECK: tensor.empty
// CHECK-NEXT: %[[THREE:.*]] = arith.constant 3.000000e+00 : f32
// CHECK-NEXT: call @main_kernel_0(%{{.*}}, %[[THREE]], %{{.*}})
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>) {
  %0 = "oneflow.scalar_mul"(%x) {float_operand = 2.0 : f64, has_float_operand = true} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "oneflow.scalar_add"(%0) {float_operand = 7.0 : f64, has_float_operand = true} : (tensor<8xf32>) -> tensor<8xf32>
  %2 = "oneflow.scalar_mul"(%y) {float_operand = 3.0 : f64, has_float_operand = true} : (tensor<8xf32>) -> tensor<8xf32>
  %3 = "oneflow.scalar_add"(%2) {float_operand = 7.0 : f64, has_float_operand = true} : (tensor<8xf32>) -> tensor<8xf32>
  %4 = "oneflow.reduce_sum"(%x) {axis = array<i32: 0>} : (tensor<8xf32>) -> tensor<f32>
  %5 = "oneflow.reduce_prod"(%x) {axis = array<i32: 0>} : (tensor<8xf32>) -> tensor<f32>
  return %1, %3, %4, %5 : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>
}
