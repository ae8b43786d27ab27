// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @reduce_max_device_stage(
// CHECK: "oneflow.reduce_max_device_stage"({{.*}}) {axis = array<i32: 1>} : (tensor<3x4xf32>) -> (tensor<3x1xf32>, tensor<3x4xi1>, tensor<3x1xi32>)
func.func @reduce_max_device_stage(%arg0: tensor<3x4xf32>) -> (tensor<*xf32>, tensor<*xi1>, tensor<*xi32>) {
  %0:3 = "oneflow.reduce_max_device_stage"(%arg0) {axis = array<i32: 1>} : (tensor<3x4xf32>) -> (tensor<*xf32>, tensor<*xi1>, tensor<*xi32>)
  return %0#0, %0#1, %0#2 : tensor<*xf32>, tensor<*xi1>, tensor<*xi32>
}

// CHECK-LABEL: func.func @reduce_max_device_stage_grad(
// CHECK: "oneflow.reduce_max_device_stage_grad"({{.*}}) {axis = array<i32: 1>} : (tensor<3x1xf32>, tensor<3x4xi1>, tensor<3x1xi32>) -> tensor<3x4xf32>
func.func @reduce_max_device_stage_grad(%arg0: tensor<3x1xf32>, %arg1: tensor<3x4xi1>, %arg2: tensor<3x1xi32>) -> tensor<*xf32> {
  %0 = "oneflow.reduce_max_device_stage_grad"(%arg0, %arg1, %arg2) {axis = array<i32: 1>} : (tensor<3x1xf32>, tensor<3x4xi1>, tensor<3x1xi32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @reduce_max_global_stage(
// CHECK: "oneflow.reduce_max_global_stage"({{.*}}) {axis = array<i32: 1>} : (tensor<3x4xf32>, tensor<3x4xi32>) -> (tensor<3xf32>, tensor<3x4xi1>)
func.func @reduce_max_global_stage(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xi32>) -> (tensor<*xf32>, tensor<*xi1>) {
  %0:2 = "oneflow.reduce_max_global_stage"(%arg0, %arg1) {axis = array<i32: 1>} : (tensor<3x4xf32>, tensor<3x4xi32>) -> (tensor<*xf32>, tensor<*xi1>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xi1>
}

// CHECK-LABEL: func.func @reduce_max_global_stage_grad(
// CHECK: "oneflow.reduce_max_global_stage_grad"({{.*}}) {axis = array<i32: 1>} : (tensor<3xf32>, tensor<3x4xi1>, tensor<3x4xi32>) -> tensor<3x4xf32>
func.func @reduce_max_global_stage_grad(%arg0: tensor<3xf32>, %arg1: tensor<3x4xi1>, %arg2: tensor<3x4xi32>) -> tensor<*xf32> {
  %0 = "oneflow.reduce_max_global_stage_grad"(%arg0, %arg1, %arg2) {axis = array<i32: 1>} : (tensor<3xf32>, tensor<3x4xi1>, tensor<3x4xi32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @reduce_min_device_stage(
// CHECK: "oneflow.reduce_min_device_stage"({{.*}}) {axis = array<i32: 1>} : (tensor<3x4xf32>) -> (tensor<3x1xf32>, tensor<3x4xi1>, tensor<3x1xi32>)
func.func @reduce_min_device_stage(%arg0: tensor<3x4xf32>) -> (tensor<*xf32>, tensor<*xi1>, tensor<*xi32>) {
  %0:3 = "oneflow.reduce_min_device_stage"(%arg0) {axis = array<i32: 1>} : (tensor<3x4xf32>) -> (tensor<*xf32>, tensor<*xi1>, tensor<*xi32>)
  return %0#0, %0#1, %0#2 : tensor<*xf32>, tensor<*xi1>, tensor<*xi32>
}

// CHECK-LABEL: func.func @reduce_min_device_stage_grad(
// CHECK: "oneflow.reduce_min_device_stage_grad"({{.*}}) {axis = array<i32: 1>} : (tensor<3x1xf32>, tensor<3x4xi1>, tensor<3x1xi32>) -> tensor<3x4xf32>
func.func @reduce_min_device_stage_grad(%arg0: tensor<3x1xf32>, %arg1: tensor<3x4xi1>, %arg2: tensor<3x1xi32>) -> tensor<*xf32> {
  %0 = "oneflow.reduce_min_device_stage_grad"(%arg0, %arg1, %arg2) {axis = array<i32: 1>} : (tensor<3x1xf32>, tensor<3x4xi1>, tensor<3x1xi32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @reduce_min_global_stage(
// CHECK: "oneflow.reduce_min_global_stage"({{.*}}) {axis = array<i32: 1>} : (tensor<3x4xf32>, tensor<3x4xi32>) -> (tensor<3xf32>, tensor<3x4xi1>)
func.func @reduce_min_global_stage(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xi32>) -> (tensor<*xf32>, tensor<*xi1>) {
  %0:2 = "oneflow.reduce_min_global_stage"(%arg0, %arg1) {axis = array<i32: 1>} : (tensor<3x4xf32>, tensor<3x4xi32>) -> (tensor<*xf32>, tensor<*xi1>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xi1>
}

// CHECK-LABEL: func.func @reduce_min_global_stage_grad(
// CHECK: "oneflow.reduce_min_global_stage_grad"({{.*}}) {axis = array<i32: 1>} : (tensor<3xf32>, tensor<3x4xi1>, tensor<3x4xi32>) -> tensor<3x4xf32>
func.func @reduce_min_global_stage_grad(%arg0: tensor<3xf32>, %arg1: tensor<3x4xi1>, %arg2: tensor<3x4xi32>) -> tensor<*xf32> {
  %0 = "oneflow.reduce_min_global_stage_grad"(%arg0, %arg1, %arg2) {axis = array<i32: 1>} : (tensor<3xf32>, tensor<3x4xi1>, tensor<3x4xi32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
