// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @multi_tensor_adam_update(
// CHECK: "oneflow.multi_tensor_adam_update"({{.*}}) {learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 2, 2, 0, 0, 0, 0, 0, 2, 2>, resultSegmentSizes = array<i32: 2, 2, 2>} : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
func.func @multi_tensor_adam_update(%arg0: tensor<3x4xf32>, %arg1: tensor<2xf32>, %arg2: tensor<3x4xf32>, %arg3: tensor<2xf32>, %arg4: tensor<3x4xf32>, %arg5: tensor<2xf32>, %arg6: tensor<3x4xf32>, %arg7: tensor<2xf32>) -> (tensor<3x4xf32>, tensor<2xf32>, tensor<3x4xf32>, tensor<2xf32>, tensor<3x4xf32>, tensor<2xf32>) {
  %cast = tensor.cast %arg0 : tensor<3x4xf32> to tensor<*xf32>
  %cast_0 = tensor.cast %arg1 : tensor<2xf32> to tensor<*xf32>
  %cast_1 = tensor.cast %arg2 : tensor<3x4xf32> to tensor<*xf32>
  %cast_2 = tensor.cast %arg3 : tensor<2xf32> to tensor<*xf32>
  %cast_3 = tensor.cast %arg4 : tensor<3x4xf32> to tensor<*xf32>
  %cast_4 = tensor.cast %arg5 : tensor<2xf32> to tensor<*xf32>
  %cast_5 = tensor.cast %arg6 : tensor<3x4xf32> to tensor<*xf32>
  %cast_6 = tensor.cast %arg7 : tensor<2xf32> to tensor<*xf32>
  %0:6 = "oneflow.multi_tensor_adam_update"(%cast, %cast_0, %cast_1, %cast_2, %cast_3, %cast_4, %cast_5, %cast_6) {learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 2, 2, 0, 0, 0, 0, 0, 2, 2>, resultSegmentSizes = array<i32: 2, 2, 2>} : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %cast_7 = tensor.cast %0#0 : tensor<*xf32> to tensor<3x4xf32>
  %cast_8 = tensor.cast %0#1 : tensor<*xf32> to tensor<2xf32>
  %cast_9 = tensor.cast %0#2 : tensor<*xf32> to tensor<3x4xf32>
  %cast_10 = tensor.cast %0#3 : tensor<*xf32> to tensor<2xf32>
  %cast_11 = tensor.cast %0#4 : tensor<*xf32> to tensor<3x4xf32>
  %cast_12 = tensor.cast %0#5 : tensor<*xf32> to tensor<2xf32>
  return %cast_7, %cast_8, %cast_9, %cast_10, %cast_11, %cast_12 : tensor<3x4xf32>, tensor<2xf32>, tensor<3x4xf32>, tensor<2xf32>, tensor<3x4xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @multi_tensor_adam_update_with_cast(
// CHECK: "oneflow.multi_tensor_adam_update_with_cast"({{.*}}) {learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 2, 2, 2, 0, 0, 0, 0, 0, 2, 2>, resultSegmentSizes = array<i32: 2, 2, 2, 2>} : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf16>, tensor<*xf16>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf16>, tensor<*xf16>)
func.func @multi_tensor_adam_update_with_cast(%arg0: tensor<3x4xf32>, %arg1: tensor<2xf32>, %arg2: tensor<3x4xf32>, %arg3: tensor<2xf32>, %arg4: tensor<3x4xf16>, %arg5: tensor<2xf16>, %arg6: tensor<3x4xf32>, %arg7: tensor<2xf32>, %arg8: tensor<3x4xf32>, %arg9: tensor<2xf32>) -> (tensor<3x4xf32>, tensor<2xf32>, tensor<3x4xf32>, tensor<2xf32>, tensor<3x4xf32>, tensor<2xf32>, tensor<3x4xf16>, tensor<2xf16>) {
  %cast = tensor.cast %arg0 : tensor<3x4xf32> to tensor<*xf32>
  %cast_0 = tensor.cast %arg1 : tensor<2xf32> to tensor<*xf32>
  %cast_1 = tensor.cast %arg2 : tensor<3x4xf32> to tensor<*xf32>
  %cast_2 = tensor.cast %arg3 : tensor<2xf32> to tensor<*xf32>
  %cast_3 = tensor.cast %arg4 : tensor<3x4xf16> to tensor<*xf16>
  %cast_4 = tensor.cast %arg5 : tensor<2xf16> to tensor<*xf16>
  %cast_5 = tensor.cast %arg6 : tensor<3x4xf32> to tensor<*xf32>
  %cast_6 = tensor.cast %arg7 : tensor<2xf32> to tensor<*xf32>
  %cast_7 = tensor.cast %arg8 : tensor<3x4xf32> to tensor<*xf32>
  %cast_8 = tensor.cast %arg9 : tensor<2xf32> to tensor<*xf32>
  %0:8 = "oneflow.multi_tensor_adam_update_with_cast"(%cast, %cast_0, %cast_1, %cast_2, %cast_3, %cast_4, %cast_5, %cast_6, %cast_7, %cast_8) {learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 2, 2, 2, 0, 0, 0, 0, 0, 2, 2>, resultSegmentSizes = array<i32: 2, 2, 2, 2>} : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf16>, tensor<*xf16>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf16>, tensor<*xf16>)
  %cast_9 = tensor.cast %0#0 : tensor<*xf32> to tensor<3x4xf32>
  %cast_10 = tensor.cast %0#1 : tensor<*xf32> to tensor<2xf32>
  %cast_11 = tensor.cast %0#2 : tensor<*xf32> to tensor<3x4xf32>
  %cast_12 = tensor.cast %0#3 : tensor<*xf32> to tensor<2xf32>
  %cast_13 = tensor.cast %0#4 : tensor<*xf32> to tensor<3x4xf32>
  %cast_14 = tensor.cast %0#5 : tensor<*xf32> to tensor<2xf32>
  %cast_15 = tensor.cast %0#6 : tensor<*xf16> to tensor<3x4xf16>
  %cast_16 = tensor.cast %0#7 : tensor<*xf16> to tensor<2xf16>
  return %cast_9, %cast_10, %cast_11, %cast_12, %cast_13, %cast_14, %cast_15, %cast_16 : tensor<3x4xf32>, tensor<2xf32>, tensor<3x4xf32>, tensor<2xf32>, tensor<3x4xf32>, tensor<2xf32>, tensor<3x4xf16>, tensor<2xf16>
}

// CHECK-LABEL: func.func @multi_tensor_momentum_update_with_cast(
// CHECK: "oneflow.multi_tensor_momentum_update_with_cast"({{.*}}) {learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 1, 1>} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
func.func @multi_tensor_momentum_update_with_cast(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>, %arg3: tensor<4xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0:3 = "oneflow.multi_tensor_momentum_update_with_cast"(%arg0, %arg1, %arg2, %arg3) {learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 1, 1>} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %0#1, %0#2 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @multi_tensor_sgd_update(
// CHECK: "oneflow.multi_tensor_sgd_update"({{.*}}) {learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 2, 2, 0, 0, 0>} : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>) -> (tensor<3x4xf16>, tensor<3x4xf16>)
func.func @multi_tensor_sgd_update(%arg0: tensor<3x4xf16>, %arg1: tensor<3x4xf16>, %arg2: tensor<3x4xf16>, %arg3: tensor<3x4xf16>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0:2 = "oneflow.multi_tensor_sgd_update"(%arg0, %arg1, %arg2, %arg3) {learning_rate_val = 1.000000e-01 : f32, operandSegmentSizes = array<i32: 2, 2, 0, 0, 0>} : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>, tensor<3x4xf16>) -> (tensor<*xf16>, tensor<*xf16>)
  return %0#0, %0#1 : tensor<*xf16>, tensor<*xf16>
}

// CHECK-LABEL: func.func @multi_tensor_yolov5_weight_update(
// CHECK: "oneflow.multi_tensor_yolov5_weight_update"({{.*}}) {d = 7.500000e-01 : f32, operandSegmentSizes = array<i32: 2, 2>} : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>)
func.func @multi_tensor_yolov5_weight_update(%arg0: tensor<3x4xf32>, %arg1: tensor<3xf32>, %arg2: tensor<3x4xf32>, %arg3: tensor<3xf32>) -> (tensor<3x4xf32>, tensor<3xf32>) {
  %cast = tensor.cast %arg0 : tensor<3x4xf32> to tensor<*xf32>
  %cast_0 = tensor.cast %arg1 : tensor<3xf32> to tensor<*xf32>
  %cast_1 = tensor.cast %arg2 : tensor<3x4xf32> to tensor<*xf32>
  %cast_2 = tensor.cast %arg3 : tensor<3xf32> to tensor<*xf32>
  %0:2 = "oneflow.multi_tensor_yolov5_weight_update"(%cast, %cast_0, %cast_1, %cast_2) {d = 7.500000e-01 : f32, operandSegmentSizes = array<i32: 2, 2>} : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %cast_3 = tensor.cast %0#0 : tensor<*xf32> to tensor<3x4xf32>
  %cast_4 = tensor.cast %0#1 : tensor<*xf32> to tensor<3xf32>
  return %cast_3, %cast_4 : tensor<3x4xf32>, tensor<3xf32>
}

// Many parameters at once: their number is the number of the results of each name. A copy in f16 is updated with its
// parameter.
// CHECK-LABEL: func.func @many(
// CHECK: -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
// CHECK: "oneflow.multi_tensor_sgd_update_with_cast"{{.*}} -> (tensor<4xf32>, tensor<4xf16>)
func.func @many(%p: tensor<4xf32>, %c: tensor<4xf16>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf16>) {
  %0:4 = "oneflow.multi_tensor_momentum_update"(%p, %p, %p, %p, %p, %p) {
    operandSegmentSizes = array<i32: 2, 2, 2, 0, 0, 0>, resultSegmentSizes = array<i32: 2, 2>}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %1:2 = "oneflow.multi_tensor_sgd_update_with_cast"(%p, %p, %c) {
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 1>}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf16>) -> (tensor<*xf32>, tensor<*xf16>)
  return %0#0, %0#1, %0#2, %0#3, %1#0, %1#1
    : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf16>
}
