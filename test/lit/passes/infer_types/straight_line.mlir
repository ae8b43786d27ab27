// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @unranked(%arg0: tensor<2x3xf32>) -> tensor<3x2xf32>
func.func @unranked(%x: tensor<2x3xf32>) -> tensor<?x?xf32> {
  // CHECK: "oneflow.relu"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  // CHECK: -> tensor<3x2xf32>
  %1 = "oneflow.transpose"(%0) {perm = array<i32: 1, 0>} : (tensor<*xf32>) -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}

// An unknown dimension stays `?`, while other dimensions are inferred.
// CHECK-LABEL: func.func @dynamic(%arg0: tensor<?x4xf32>, %arg1: tensor<4x5xf32>) -> tensor<?x5xf32>
func.func @dynamic(%x: tensor<?x4xf32>, %w: tensor<4x5xf32>) -> tensor<*xf32> {
  // CHECK: "oneflow.matmul"({{.*}}) -> tensor<?x5xf32>
  %0 = "oneflow.matmul"(%x, %w) : (tensor<?x4xf32>, tensor<4x5xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// Types that the program states beyond the rules are kept.
// CHECK-LABEL: func.func @stated(%arg0: tensor<?xf32>) -> tensor<7xf32>
func.func @stated(%x: tensor<?xf32>) -> tensor<7xf32> {
  // CHECK: -> tensor<7xf32>
  %0 = "oneflow.relu"(%x) : (tensor<?xf32>) -> tensor<7xf32>
  // CHECK: -> tensor<7xf32>
  %1 = "oneflow.tanh"(%0) : (tensor<7xf32>) -> tensor<?xf32>
  %2 = tensor.cast %1 : tensor<?xf32> to tensor<7xf32>
  return %2 : tensor<7xf32>
}

// `?` with a decidable value is decided.
// CHECK-LABEL: func.func @reshape(%arg0: tensor<6x4xf32>) -> tensor<3x8xf32>
func.func @reshape(%x: tensor<6x4xf32>) -> tensor<?x?xf32> {
  %0 = "oneflow.reshape"(%x) {shape = array<i64: -1, 8>} : (tensor<6x4xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// CHECK-LABEL: func.func @scalar_and_empty(%arg0: tensor<f32>, %arg1: tensor<0x3xf32>) -> (tensor<f32>, tensor<0x3xf32>)
func.func @scalar_and_empty(%x: tensor<f32>, %y: tensor<0x3xf32>) -> (tensor<*xf32>, tensor<?x3xf32>) {
  %0 = "oneflow.relu"(%x) : (tensor<f32>) -> tensor<*xf32>
  %1 = "oneflow.relu"(%y) : (tensor<0x3xf32>) -> tensor<?x3xf32>
  return %0, %1 : tensor<*xf32>, tensor<?x3xf32>
}

// An operation of another dialect keeps the stated operand type.
// CHECK-LABEL: func.func @other_dialect(%arg0: tensor<2x3xf32>) -> tensor<?x3xf32>
func.func @other_dialect(%x: tensor<2x3xf32>) -> tensor<?x3xf32> {
  // CHECK: %[[Y:.*]] = "oneflow.relu"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %[[Z:.*]] = tensor.cast %[[Y]] : tensor<2x3xf32> to tensor<?x3xf32>
  // CHECK-NEXT: arith.addf %[[Z]], %[[Z]] : tensor<?x3xf32>
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<?x3xf32>
  %1 = arith.addf %0, %0 : tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}
