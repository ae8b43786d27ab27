// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @running(
// CHECK: "oneflow.cumsum"(%{{.*}}) {{.*}}dim = -1 : i64{{.*}} : (tensor<2x?xf32>) -> tensor<2x?xf32>
// CHECK: "oneflow.cumprod"(%{{.*}}) {{.*}}dim = 0 : i64{{.*}} : (tensor<2x?xf32>) -> tensor<2x?xf32>
func.func @running(%x: tensor<2x?xf32>) -> tensor<*xf32> {
  %0 = "oneflow.cumsum"(%x) {dim = -1 : si64} : (tensor<2x?xf32>) -> tensor<*xf32>
  %1 = "oneflow.cumprod"(%0) {dim = 0 : si64} : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}
