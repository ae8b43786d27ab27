// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --convert-oneflow-to-linalg | FileCheck %s --check-prefix=LINALG

// CHECK-LABEL: func.func @f
// CHECK: "oneflow.dim_size"(%arg0) {dim = -1 : i64} : (tensor<2x?xf32>) -> tensor<i64>
// LINALG: tensor.dim
// LINALG: linalg.fill
func.func @f(%x: tensor<2x?xf32>) -> tensor<*xi64> {
  %0 = "oneflow.dim_size"(%x) {dim = -1 : i64} : (tensor<2x?xf32>) -> tensor<*xi64>
  return %0 : tensor<*xi64>
}
