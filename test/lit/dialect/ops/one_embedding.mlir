// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @unique_key_value_pair(
// CHECK: "oneflow.unique_key_value_pair"({{.*}}) {embedding_name = "table"} : (tensor<3x2xi64>, tensor<3x2xui8>) -> (tensor<1xi32>, tensor<6xi64>, tensor<6xui8>, tensor<3x2xi32>)
func.func @unique_key_value_pair(%arg0: tensor<3x2xi64>, %arg1: tensor<3x2xui8>) -> (tensor<*xi32>, tensor<*xi64>, tensor<*xui8>, tensor<*xi32>) {
  %0:4 = "oneflow.unique_key_value_pair"(%arg0, %arg1) {embedding_name = "table"} : (tensor<3x2xi64>, tensor<3x2xui8>) -> (tensor<*xi32>, tensor<*xi64>, tensor<*xui8>, tensor<*xi32>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<*xi32>, tensor<*xi64>, tensor<*xui8>, tensor<*xi32>
}

// CHECK-LABEL: func.func @id_shuffle(
// CHECK: "oneflow.id_shuffle"({{.*}}) {embedding_name = "table"} : (tensor<3x2xi64>, tensor<3x2xui8>) -> (tensor<1xui32>, tensor<3x2xui32>, tensor<1xui32>, tensor<6xi64>, tensor<6xui8>, tensor<6xui32>)
func.func @id_shuffle(%arg0: tensor<3x2xi64>, %arg1: tensor<3x2xui8>) -> (tensor<*xui32>, tensor<*xui32>, tensor<*xui32>, tensor<*xi64>, tensor<*xui8>, tensor<*xui32>) {
  %0:6 = "oneflow.id_shuffle"(%arg0, %arg1) {embedding_name = "table"} : (tensor<3x2xi64>, tensor<3x2xui8>) -> (tensor<*xui32>, tensor<*xui32>, tensor<*xui32>, tensor<*xi64>, tensor<*xui8>, tensor<*xui32>)
  return %0#0, %0#1, %0#2, %0#3, %0#4, %0#5 : tensor<*xui32>, tensor<*xui32>, tensor<*xui32>, tensor<*xi64>, tensor<*xui8>, tensor<*xui32>
}

// CHECK-LABEL: func.func @id_shuffle_copy_out(
// CHECK: "oneflow.id_shuffle_copy_out"({{.*}}) {embedding_name = "table"} : (tensor<1xui32>, tensor<3x2xui32>, tensor<1xui32>, tensor<6xi64>, tensor<6xui8>, tensor<6xui32>) -> (tensor<1xui32>, tensor<3x2xui32>, tensor<1xui32>, tensor<6xi64>, tensor<6xui8>, tensor<6xui32>)
func.func @id_shuffle_copy_out(%arg0: tensor<1xui32>, %arg1: tensor<3x2xui32>, %arg2: tensor<1xui32>, %arg3: tensor<6xi64>, %arg4: tensor<6xui8>, %arg5: tensor<6xui32>) -> (tensor<*xui32>, tensor<*xui32>, tensor<*xui32>, tensor<*xi64>, tensor<*xui8>, tensor<*xui32>) {
  %0:6 = "oneflow.id_shuffle_copy_out"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) {embedding_name = "table"} : (tensor<1xui32>, tensor<3x2xui32>, tensor<1xui32>, tensor<6xi64>, tensor<6xui8>, tensor<6xui32>) -> (tensor<*xui32>, tensor<*xui32>, tensor<*xui32>, tensor<*xi64>, tensor<*xui8>, tensor<*xui32>)
  return %0#0, %0#1, %0#2, %0#3, %0#4, %0#5 : tensor<*xui32>, tensor<*xui32>, tensor<*xui32>, tensor<*xi64>, tensor<*xui8>, tensor<*xui32>
}

// CHECK-LABEL: func.func @one_embedding_gather(
// CHECK: "oneflow.one_embedding_gather"({{.*}}) {embedding_name = "table", embedding_size = 2 : i64} : (tensor<6x2xf32>, tensor<3x2xi32>) -> tensor<3x2x2xf32>
func.func @one_embedding_gather(%arg0: tensor<6x2xf32>, %arg1: tensor<3x2xi32>) -> tensor<*xf32> {
  %0 = "oneflow.one_embedding_gather"(%arg0, %arg1) {embedding_name = "table", embedding_size = 2 : i64} : (tensor<6x2xf32>, tensor<3x2xi32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @embedding_shuffle(
// CHECK: "oneflow.embedding_shuffle"({{.*}}) {embedding_name = "table", embedding_size = 2 : i64} : (tensor<6x2xf32>, tensor<1xui32>, tensor<6xui32>, tensor<3x2xui32>) -> tensor<3x2x2xf32>
func.func @embedding_shuffle(%arg0: tensor<6x2xf32>, %arg1: tensor<1xui32>, %arg2: tensor<6xui32>, %arg3: tensor<3x2xui32>) -> tensor<*xf32> {
  %0 = "oneflow.embedding_shuffle"(%arg0, %arg1, %arg2, %arg3) {embedding_name = "table", embedding_size = 2 : i64} : (tensor<6x2xf32>, tensor<1xui32>, tensor<6xui32>, tensor<3x2xui32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @embedding_gradient_shuffle(
// CHECK: "oneflow.embedding_gradient_shuffle"({{.*}}) {embedding_name = "table", embedding_size = 2 : i64} : (tensor<2x2xf32>, tensor<1xui32>, tensor<2xui32>, tensor<2xui32>) -> tensor<2x2xf32>
func.func @embedding_gradient_shuffle(%arg0: tensor<2x2xf32>, %arg1: tensor<1xui32>, %arg2: tensor<2xui32>, %arg3: tensor<2xui32>) -> tensor<*xf32> {
  %0 = "oneflow.embedding_gradient_shuffle"(%arg0, %arg1, %arg2, %arg3) {embedding_name = "table", embedding_size = 2 : i64} : (tensor<2x2xf32>, tensor<1xui32>, tensor<2xui32>, tensor<2xui32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @one_embedding_sgd_update(
// CHECK: "oneflow.one_embedding_sgd_update"({{.*}}) {embedding_name = "table", embedding_size = 2 : i64, l1 = 1.000000e-01 : f32, learning_rate_val = 5.000000e-01 : f32, line_size = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1xui32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
func.func @one_embedding_sgd_update(%arg0: tensor<1xui32>, %arg1: tensor<3x2xf32>, %arg2: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.one_embedding_sgd_update"(%arg0, %arg1, %arg2) {embedding_name = "table", embedding_size = 2 : i64, l1 = 1.000000e-01 : f32, learning_rate_val = 5.000000e-01 : f32, line_size = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1xui32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @one_embedding_momentum_update(
// CHECK: "oneflow.one_embedding_momentum_update"({{.*}}) {embedding_name = "table", embedding_size = 2 : i64, l1 = 1.000000e-01 : f32, learning_rate_val = 5.000000e-01 : f32, line_size = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1xui32>, tensor<3x4xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
func.func @one_embedding_momentum_update(%arg0: tensor<1xui32>, %arg1: tensor<3x4xf32>, %arg2: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.one_embedding_momentum_update"(%arg0, %arg1, %arg2) {embedding_name = "table", embedding_size = 2 : i64, l1 = 1.000000e-01 : f32, learning_rate_val = 5.000000e-01 : f32, line_size = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1xui32>, tensor<3x4xf32>, tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @one_embedding_adam_update(
// CHECK: "oneflow.one_embedding_adam_update"({{.*}}) {embedding_name = "table", embedding_size = 2 : i64, epsilon = 5.000000e-01 : f32, learning_rate_val = 5.000000e-01 : f32, line_size = 6 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<1xui32>, tensor<3x6xf32>, tensor<3x2xf32>) -> tensor<3x6xf32>
func.func @one_embedding_adam_update(%arg0: tensor<1xui32>, %arg1: tensor<3x6xf32>, %arg2: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.one_embedding_adam_update"(%arg0, %arg1, %arg2) {embedding_name = "table", embedding_size = 2 : i64, epsilon = 5.000000e-01 : f32, learning_rate_val = 5.000000e-01 : f32, line_size = 6 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<1xui32>, tensor<3x6xf32>, tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @one_embedding_adagrad_update(
// CHECK: "oneflow.one_embedding_adagrad_update"({{.*}}) {embedding_name = "table", embedding_size = 2 : i64, epsilon = 5.000000e-01 : f32, learning_rate_val = 5.000000e-01 : f32, line_size = 4 : i64, lr_decay = 5.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<1xui32>, tensor<3x4xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
func.func @one_embedding_adagrad_update(%arg0: tensor<1xui32>, %arg1: tensor<3x4xf32>, %arg2: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.one_embedding_adagrad_update"(%arg0, %arg1, %arg2) {embedding_name = "table", embedding_size = 2 : i64, epsilon = 5.000000e-01 : f32, learning_rate_val = 5.000000e-01 : f32, line_size = 4 : i64, lr_decay = 5.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<1xui32>, tensor<3x4xf32>, tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @one_embedding_ftrl_update(
// CHECK: "oneflow.one_embedding_ftrl_update"({{.*}}) {beta = 1.000000e+00 : f32, embedding_name = "table", embedding_size = 2 : i64, learning_rate_val = 5.000000e-01 : f32, line_size = 6 : i64, lr_power = 5.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1xui32>, tensor<3x6xf32>, tensor<3x2xf32>) -> tensor<3x6xf32>
func.func @one_embedding_ftrl_update(%arg0: tensor<1xui32>, %arg1: tensor<3x6xf32>, %arg2: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.one_embedding_ftrl_update"(%arg0, %arg1, %arg2) {beta = 1.000000e+00 : f32, embedding_name = "table", embedding_size = 2 : i64, learning_rate_val = 5.000000e-01 : f32, line_size = 6 : i64, lr_power = 5.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1xui32>, tensor<3x6xf32>, tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
