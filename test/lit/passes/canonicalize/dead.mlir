// RUN: oneflow-opt %s --oneflow-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @dead
// CHECK-NEXT: return %arg0
func.func @dead(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.tanh"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = tensor.cast %1 : tensor<2x3xf32> to tensor<?x3xf32>
  return %x : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @identity_cast
// CHECK-NEXT: return %arg0
func.func @identity_cast(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = tensor.cast %x : tensor<2x3xf32> to tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// Operators of one place meet others that state none.
// CHECK-LABEL: func.func @device_name
// CHECK-NEXT: %[[R:.*]] = "oneflow.relu"(%arg0) {device_name = ["@0:0"]}
func.func @device_name(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "oneflow.relu"(%x) {device_name = ["@0:0"]} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "oneflow.relu"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
