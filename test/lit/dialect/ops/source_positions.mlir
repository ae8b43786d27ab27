// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --convert-oneflow-to-linalg | FileCheck %s --check-prefix=LINALG

// CHECK-LABEL: func.func @f
// CHECK: "oneflow.positions"(%arg0) {shape = "d0 * d1, d0"} : (tensor<2x?xf32>) -> tensor<?x2xi64>
// LINALG: tensor.dim
// LINALG: arith.muli
// LINALG: tensor.empty({{.*}}) : tensor<?x2xi64>
func.func @f(%x: tensor<2x?xf32>) -> tensor<*xi64> {
  %0 = "oneflow.positions"(%x) {shape = "d0 * d1, d0"} : (tensor<2x?xf32>) -> tensor<*xi64>
  return %0 : tensor<*xi64>
}
