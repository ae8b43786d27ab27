// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @tf_avg_pool_1d(
// CHECK: "oneflow.tf_avg_pool_1d"({{.*}}) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 3>, strides = array<i32: 2>} : (tensor<1x3x4xf32>) -> tensor<1x3x2xf32>
func.func @tf_avg_pool_1d(%arg0: tensor<1x3x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_avg_pool_1d"(%arg0) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 3>, strides = array<i32: 2>} : (tensor<1x3x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_avg_pool_1d_grad(
// CHECK: "oneflow.tf_avg_pool_1d_grad"({{.*}}) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 3>, strides = array<i32: 2>} : (tensor<1x3x4xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32>) -> tensor<1x3x4xf32>
func.func @tf_avg_pool_1d_grad(%arg0: tensor<1x3x4xf32>, %arg1: tensor<1x3x2xf32>, %arg2: tensor<1x3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_avg_pool_1d_grad"(%arg0, %arg1, %arg2) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 3>, strides = array<i32: 2>} : (tensor<1x3x4xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_avg_pool_2d(
// CHECK: "oneflow.tf_avg_pool_2d"({{.*}}) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 2, 3>, strides = array<i32: 1, 2>} : (tensor<3x1x3x4xf32>) -> tensor<3x1x3x2xf32>
func.func @tf_avg_pool_2d(%arg0: tensor<3x1x3x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_avg_pool_2d"(%arg0) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 2, 3>, strides = array<i32: 1, 2>} : (tensor<3x1x3x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_avg_pool_2d_grad(
// CHECK: "oneflow.tf_avg_pool_2d_grad"({{.*}}) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 2, 3>, strides = array<i32: 1, 2>} : (tensor<3x1x3x4xf32>, tensor<3x1x3x2xf32>, tensor<3x1x3x2xf32>) -> tensor<3x1x3x4xf32>
func.func @tf_avg_pool_2d_grad(%arg0: tensor<3x1x3x4xf32>, %arg1: tensor<3x1x3x2xf32>, %arg2: tensor<3x1x3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_avg_pool_2d_grad"(%arg0, %arg1, %arg2) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 2, 3>, strides = array<i32: 1, 2>} : (tensor<3x1x3x4xf32>, tensor<3x1x3x2xf32>, tensor<3x1x3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_avg_pool_3d(
// CHECK: "oneflow.tf_avg_pool_3d"({{.*}}) {ceil_mode = false, data_format = "channels_first", padding = "customized", padding_after = array<i32: 0, 0, 1>, padding_before = array<i32: 1, 0, 0>, pool_size = array<i32: 2, 1, 2>, strides = array<i32: 1, 1, 2>} : (tensor<1x3x2x1x3xf32>) -> tensor<1x3x2x1x2xf32>
func.func @tf_avg_pool_3d(%arg0: tensor<1x3x2x1x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_avg_pool_3d"(%arg0) {ceil_mode = false, data_format = "channels_first", padding = "customized", padding_after = array<i32: 0, 0, 1>, padding_before = array<i32: 1, 0, 0>, pool_size = array<i32: 2, 1, 2>, strides = array<i32: 1, 1, 2>} : (tensor<1x3x2x1x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_avg_pool_3d_grad(
// CHECK: "oneflow.tf_avg_pool_3d_grad"({{.*}}) {ceil_mode = false, data_format = "channels_first", padding = "customized", padding_after = array<i32: 0, 0, 1>, padding_before = array<i32: 1, 0, 0>, pool_size = array<i32: 2, 1, 2>, strides = array<i32: 1, 1, 2>} : (tensor<1x3x2x1x3xf32>, tensor<1x3x2x1x2xf32>, tensor<1x3x2x1x2xf32>) -> tensor<1x3x2x1x3xf32>
func.func @tf_avg_pool_3d_grad(%arg0: tensor<1x3x2x1x3xf32>, %arg1: tensor<1x3x2x1x2xf32>, %arg2: tensor<1x3x2x1x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_avg_pool_3d_grad"(%arg0, %arg1, %arg2) {ceil_mode = false, data_format = "channels_first", padding = "customized", padding_after = array<i32: 0, 0, 1>, padding_before = array<i32: 1, 0, 0>, pool_size = array<i32: 2, 1, 2>, strides = array<i32: 1, 1, 2>} : (tensor<1x3x2x1x3xf32>, tensor<1x3x2x1x2xf32>, tensor<1x3x2x1x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_max_pool_1d(
// CHECK: "oneflow.tf_max_pool_1d"({{.*}}) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 3>, strides = array<i32: 2>} : (tensor<1x3x4xf32>) -> tensor<1x3x2xf32>
func.func @tf_max_pool_1d(%arg0: tensor<1x3x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_max_pool_1d"(%arg0) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 3>, strides = array<i32: 2>} : (tensor<1x3x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_max_pool_1d_grad(
// CHECK: "oneflow.tf_max_pool_1d_grad"({{.*}}) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 3>, strides = array<i32: 2>} : (tensor<1x3x4xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32>) -> tensor<1x3x4xf32>
func.func @tf_max_pool_1d_grad(%arg0: tensor<1x3x4xf32>, %arg1: tensor<1x3x2xf32>, %arg2: tensor<1x3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_max_pool_1d_grad"(%arg0, %arg1, %arg2) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 3>, strides = array<i32: 2>} : (tensor<1x3x4xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_max_pool_2d(
// CHECK: "oneflow.tf_max_pool_2d"({{.*}}) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 2, 3>, strides = array<i32: 1, 2>} : (tensor<3x1x3x4xf32>) -> tensor<3x1x3x2xf32>
func.func @tf_max_pool_2d(%arg0: tensor<3x1x3x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_max_pool_2d"(%arg0) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 2, 3>, strides = array<i32: 1, 2>} : (tensor<3x1x3x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_max_pool_2d_grad(
// CHECK: "oneflow.tf_max_pool_2d_grad"({{.*}}) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 2, 3>, strides = array<i32: 1, 2>} : (tensor<3x1x2x2xf32>, tensor<3x1x2x1xf32>, tensor<3x1x2x1xf32>) -> tensor<3x1x2x2xf32>
func.func @tf_max_pool_2d_grad(%arg0: tensor<3x1x2x2xf32>, %arg1: tensor<3x1x2x1xf32>, %arg2: tensor<3x1x2x1xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_max_pool_2d_grad"(%arg0, %arg1, %arg2) {ceil_mode = false, data_format = "channels_first", padding = "same_upper", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 2, 3>, strides = array<i32: 1, 2>} : (tensor<3x1x2x2xf32>, tensor<3x1x2x1xf32>, tensor<3x1x2x1xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_max_pool_3d(
// CHECK: "oneflow.tf_max_pool_3d"({{.*}}) {ceil_mode = false, data_format = "channels_first", padding = "customized", padding_after = array<i32: 0, 0, 1>, padding_before = array<i32: 1, 0, 0>, pool_size = array<i32: 2, 1, 2>, strides = array<i32: 1, 1, 2>} : (tensor<1x3x2x1x3xf32>) -> tensor<1x3x2x1x2xf32>
func.func @tf_max_pool_3d(%arg0: tensor<1x3x2x1x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_max_pool_3d"(%arg0) {ceil_mode = false, data_format = "channels_first", padding = "customized", padding_after = array<i32: 0, 0, 1>, padding_before = array<i32: 1, 0, 0>, pool_size = array<i32: 2, 1, 2>, strides = array<i32: 1, 1, 2>} : (tensor<1x3x2x1x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_max_pool_3d_grad(
// CHECK: "oneflow.tf_max_pool_3d_grad"({{.*}}) {ceil_mode = false, data_format = "channels_first", padding = "valid", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 1, 1, 2>, strides = array<i32: 1, 1, 2>} : (tensor<1x3x1x1x2xf32>, tensor<1x3x1x1x1xf32>, tensor<1x3x1x1x1xf32>) -> tensor<1x3x1x1x2xf32>
func.func @tf_max_pool_3d_grad(%arg0: tensor<1x3x1x1x2xf32>, %arg1: tensor<1x3x1x1x1xf32>, %arg2: tensor<1x3x1x1x1xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_max_pool_3d_grad"(%arg0, %arg1, %arg2) {ceil_mode = false, data_format = "channels_first", padding = "valid", padding_after = array<i32>, padding_before = array<i32>, pool_size = array<i32: 1, 1, 2>, strides = array<i32: 1, 1, 2>} : (tensor<1x3x1x1x2xf32>, tensor<1x3x1x1x1xf32>, tensor<1x3x1x1x1xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
