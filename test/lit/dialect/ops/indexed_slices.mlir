// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @indexed_slices_reduce_sum(
// CHECK: "oneflow.indexed_slices_reduce_sum"({{.*}}) : (tensor<4xi64>, tensor<4x3xf32>) -> (tensor<4xi64>, tensor<4x3xf32>, tensor<1xi64>)
func.func @indexed_slices_reduce_sum(%arg0: tensor<4xi64>, %arg1: tensor<4x3xf32>) -> (tensor<*xi64>, tensor<*xf32>, tensor<*xi64>) {
  %0:3 = "oneflow.indexed_slices_reduce_sum"(%arg0, %arg1) : (tensor<4xi64>, tensor<4x3xf32>) -> (tensor<*xi64>, tensor<*xf32>, tensor<*xi64>)
  return %0#0, %0#1, %0#2 : tensor<*xi64>, tensor<*xf32>, tensor<*xi64>
}

// CHECK-LABEL: func.func @indexed_slices_sgd_update(
// CHECK: "oneflow.indexed_slices_sgd_update"({{.*}}) {weight_decay = 5.000000e-01 : f32} : (tensor<5x3xf32>, tensor<4xi32>, tensor<4x3xf32>, tensor<1xf32>) -> tensor<5x3xf32>
func.func @indexed_slices_sgd_update(%arg0: tensor<5x3xf32>, %arg1: tensor<4xi32>, %arg2: tensor<4x3xf32>, %arg3: tensor<1xf32>) -> tensor<*xf32> {
  %0 = "oneflow.indexed_slices_sgd_update"(%arg0, %arg1, %arg2, %arg3) {weight_decay = 5.000000e-01 : f32} : (tensor<5x3xf32>, tensor<4xi32>, tensor<4x3xf32>, tensor<1xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @indexed_slices_momentum_update(
// CHECK: "oneflow.indexed_slices_momentum_update"({{.*}}) {weight_decay = 5.000000e-01 : f32} : (tensor<5x3xf32>, tensor<4xi32>, tensor<4x3xf32>, tensor<1xf32>, tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<5x3xf32>)
func.func @indexed_slices_momentum_update(%arg0: tensor<5x3xf32>, %arg1: tensor<4xi32>, %arg2: tensor<4x3xf32>, %arg3: tensor<1xf32>, %arg4: tensor<5x3xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.indexed_slices_momentum_update"(%arg0, %arg1, %arg2, %arg3, %arg4) {weight_decay = 5.000000e-01 : f32} : (tensor<5x3xf32>, tensor<4xi32>, tensor<4x3xf32>, tensor<1xf32>, tensor<5x3xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @indexed_slices_adam_update(
// CHECK: "oneflow.indexed_slices_adam_update"({{.*}}) {epsilon = 1.000000e-03 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 1, 0>, weight_decay = 5.000000e-01 : f32} : (tensor<5x3xf32>, tensor<4xi32>, tensor<4x3xf32>, tensor<1xf32>, tensor<5x3xf32>, tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>)
func.func @indexed_slices_adam_update(%arg0: tensor<5x3xf32>, %arg1: tensor<4xi32>, %arg2: tensor<4x3xf32>, %arg3: tensor<1xf32>, %arg4: tensor<5x3xf32>, %arg5: tensor<5x3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0:3 = "oneflow.indexed_slices_adam_update"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) {epsilon = 1.000000e-03 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 1, 0>, weight_decay = 5.000000e-01 : f32} : (tensor<5x3xf32>, tensor<4xi32>, tensor<4x3xf32>, tensor<1xf32>, tensor<5x3xf32>, tensor<5x3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %0#1, %0#2 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}
