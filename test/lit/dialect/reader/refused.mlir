// RUN: not oneflow-opt %s 2>&1 | FileCheck %s

// CHECK: refused.mlir:6:3: error: operator broadcast_inplace_greater of OneFlow is not in this dialect: Tensors are values
// CHECK-NEXT: "oneflow.broadcast_inplace_greater"
func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32>) {
  "oneflow.broadcast_inplace_greater"(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> ()
  return
}
