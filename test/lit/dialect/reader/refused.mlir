// RUN: not oneflow-opt %s 2>&1 | FileCheck %s

// CHECK: refused.mlir:6:3: error: operator assign of OneFlow is not in this dialect: Tensors are values
// CHECK-NEXT: "oneflow.assign"
func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32>) {
  "oneflow.assign"(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> ()
  return
}
