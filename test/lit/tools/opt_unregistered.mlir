// RUN: not oneflow-opt %s 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: oneflow-opt %s --allow-unregistered-dialect --oneflow-infer-types | FileCheck %s

// Operations of unknown dialects are kept; the known result types are propagated.

// REFUSED: opt_unregistered.mlir:12:{{[0-9]+}}: error: operation being parsed with an unregistered dialect
// CHECK-LABEL: func.func @f(
// CHECK-SAME: -> tensor<2x3xf32>
// CHECK: %[[X:.*]] = "foreign.op"(%arg0) {mode = "fast"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK: "oneflow.relu"(%[[X]]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @f(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "foreign.op"(%x) {mode = "fast"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.relu"(%0) : (tensor<2x3xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}
