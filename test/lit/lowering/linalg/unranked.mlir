// RUN: not oneflow-opt %s --convert-oneflow-to-linalg 2>&1 | FileCheck %s

// CHECK: unranked.mlir:5:{{.*}} error: oneflow.tanh: operand of unknown rank; run oneflow-infer-types first
func.func @unranked(%a: tensor<*xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tanh"(%a) : (tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
