// RUN: oneflow-opt %s -oneflow-infer-types -cse -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: oneflow-opt --pass-pipeline="builtin.module(oneflow-infer-types,func.func(cse))" < %s | FileCheck %s
// RUN: oneflow-opt - --oneflow-infer-types --cse --mlir-print-op-generic < %s | FileCheck %s --check-prefix=GENERIC
// RUN: oneflow-opt %s --oneflow-infer-types --cse --mlir-print-ir-after=cse --mlir-timing -o %t.mlir 2>&1 | FileCheck %s --check-prefix=PRINT

// PRINT: // -----// IR Dump After cse //----- //
// PRINT-NOT: IR Dump
// PRINT: Execution time report
// PRINT: oneflow-infer-types
// PRINT: Total

// CHECK: func.func @f(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-COUNT-1: oneflow.relu
// CHECK-NOT: oneflow.relu
// GENERIC: "func.func"()
// GENERIC-SAME: function_type = (tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @f(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  %2 = "oneflow.broadcast_add"(%0, %1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %2 : tensor<*xf32>
}
