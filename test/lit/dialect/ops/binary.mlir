// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-canonicalize | FileCheck %s --check-prefix=LAW

// Operands broadcast from the last dimension on; a known size determines an unknown size.

// CHECK-LABEL: func.func @broadcasting
func.func @broadcasting(%a: tensor<2x1x3xf32>, %b: tensor<4x1xf32>, %c: tensor<?x3xf32>, %d: tensor<f32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  // CHECK: "oneflow.broadcast_add"({{.*}}) : (tensor<2x1x3xf32>, tensor<4x1xf32>) -> tensor<2x4x3xf32>
  %0 = "oneflow.broadcast_add"(%a, %b) : (tensor<2x1x3xf32>, tensor<4x1xf32>) -> tensor<*xf32>
  // CHECK: "oneflow.broadcast_pow"({{.*}}) : (tensor<4x1xf32>, tensor<?x3xf32>) -> tensor<4x3xf32>
  %1 = "oneflow.broadcast_pow"(%b, %c) : (tensor<4x1xf32>, tensor<?x3xf32>) -> tensor<*xf32>
  // CHECK: "oneflow.broadcast_maximum"({{.*}}) : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %2 = "oneflow.broadcast_maximum"(%c, %d) : (tensor<?x3xf32>, tensor<f32>) -> tensor<*xf32>
  return %0, %1, %2 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @comparisons
func.func @comparisons(%a: tensor<2xui8>, %b: tensor<3x1xui8>) -> (tensor<*xi1>, tensor<*xi1>, tensor<*xui8>) {
  // CHECK: "oneflow.broadcast_less"({{.*}}) : (tensor<2xui8>, tensor<3x1xui8>) -> tensor<3x2xi1>
  %0 = "oneflow.broadcast_less"(%a, %b) : (tensor<2xui8>, tensor<3x1xui8>) -> tensor<*xi1>
  // CHECK: "oneflow.broadcast_logical_and"({{.*}}) : (tensor<2xui8>, tensor<3x1xui8>) -> tensor<3x2xi1>
  %1 = "oneflow.broadcast_logical_and"(%a, %b) : (tensor<2xui8>, tensor<3x1xui8>) -> tensor<*xi1>
  // CHECK: "oneflow.broadcast_bitwise_xor"({{.*}}) : (tensor<2xui8>, tensor<3x1xui8>) -> tensor<3x2xui8>
  %2 = "oneflow.broadcast_bitwise_xor"(%a, %b) : (tensor<2xui8>, tensor<3x1xui8>) -> tensor<*xui8>
  return %0, %1, %2 : tensor<*xi1>, tensor<*xi1>, tensor<*xui8>
}

// CHECK-LABEL: func.func @sums
// LAW-LABEL: func.func @sums
// LAW-SAME: (%[[X:.*]]: tensor<2x3xf32>,
func.func @sums(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  // CHECK: "oneflow.add_n"({{.*}}) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // LAW: %[[SUM:.*]] = "oneflow.add_n"
  %0 = "oneflow.add_n"(%x, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<*xf32>
  // CHECK: "oneflow.add_n"({{.*}}) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // LAW-NOT: "oneflow.add_n"
  // LAW: return
  %1 = "oneflow.add_n"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  return %0, %1 : tensor<*xf32>, tensor<*xf32>
}
