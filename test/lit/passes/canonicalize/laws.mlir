// RUN: oneflow-opt %s --oneflow-canonicalize | FileCheck %s
// RUN: oneflow-opt %s --oneflow-canonicalize="laws=compose-transposes,identity-transpose" | FileCheck %s --check-prefix=ONE

// CHECK-LABEL: func.func @compose
// CHECK-NEXT: return %arg0
// ONE-LABEL: func.func @compose
// ONE-NEXT: return %arg0
func.func @compose(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.transpose"(%x) {perm = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "oneflow.transpose"(%0) {perm = array<i32: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// The removal of the second pair makes the first pair adjacent: laws are applied until none applies.
// CHECK-LABEL: func.func @until_none
// CHECK-NEXT: %[[R:.*]] = "oneflow.relu"(%arg0)
// CHECK-NEXT: return %[[R]]
// ONE-LABEL: func.func @until_none
// ONE: oneflow.relu
// ONE: oneflow.relu
func.func @until_none(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.transpose"(%0) {perm = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = "oneflow.transpose"(%1) {perm = array<i32: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %3 = "oneflow.relu"(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}

// A law looks through casts and keeps the stated type.
// CHECK-LABEL: func.func @types
// CHECK: %[[C:.*]] = tensor.cast %{{.*}} : tensor<2x3xf32> to tensor<?x3xf32>
// CHECK: return %[[C]] : tensor<?x3xf32>
func.func @types(%x: tensor<2x3xf32>) -> tensor<?x3xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = tensor.cast %0 : tensor<2x3xf32> to tensor<?x3xf32>
  %2 = "oneflow.relu"(%1) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  return %2 : tensor<?x3xf32>
}

// No law applies across operations of different placement.
// CHECK-LABEL: func.func @device_tag
// CHECK-COUNT-2: oneflow.relu
func.func @device_tag(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "oneflow.relu"(%x) {device_tag = "cpu"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "oneflow.relu"(%0) {device_tag = "cuda"} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @device_name
// CHECK-COUNT-2: oneflow.relu
func.func @device_name(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "oneflow.relu"(%x) {device_tag = "cpu", device_name = ["@0:0"]} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "oneflow.relu"(%0) {device_tag = "cpu", device_name = ["@0:1"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @same_placement
// CHECK: "oneflow.relu"(%arg0) {device_name = ["@0:0"], device_tag = "cpu"}
// CHECK-NEXT: return
func.func @same_placement(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "oneflow.relu"(%x) {device_tag = "cpu", device_name = ["@0:0"]} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "oneflow.relu"(%0) {device_tag = "cpu", device_name = ["@0:0"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// The replacement of an operation has the placement of the operation.
// CHECK-LABEL: func.func @inherits
// CHECK: "oneflow.transpose"(%arg0) {device_name = ["@0:0"], device_tag = "cpu", perm = array<i32: 2, 0, 1>}
// CHECK-NEXT: return
func.func @inherits(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %0 = "oneflow.transpose"(%x) {perm = array<i32: 1, 2, 0>, device_tag = "cpu", device_name = ["@0:0"]} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = "oneflow.transpose"(%0) {perm = array<i32: 1, 2, 0>, device_tag = "cpu", device_name = ["@0:0"]} : (tensor<3x4x2xf32>) -> tensor<4x2x3xf32>
  return %1 : tensor<4x2x3xf32>
}

// A law reads no operation that has a tensor of unknown rank.
// CHECK-LABEL: func.func @unknown_rank
// CHECK: "oneflow.nll_grad"
// CHECK-NEXT: "oneflow.log_softmax_grad"
func.func @unknown_rank(%prob: tensor<4x8xf32>, %t: tensor<*xi64>, %d: tensor<4xf32>) -> tensor<4x8xf32> {
  %0 = "oneflow.nll_grad"(%d, %prob, %t) {ignore_index = -100 : i64} : (tensor<4xf32>, tensor<4x8xf32>, tensor<*xi64>) -> tensor<4x8xf32>
  %1 = "oneflow.log_softmax_grad"(%prob, %0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
