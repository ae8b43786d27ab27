// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @var(
// CHECK: "oneflow.var"(%{{.*}}) {{.*}}dtype = f32{{.*}} : (tensor<2x?xf32>) -> tensor<2xf32>
func.func @var(%x: tensor<2x?xf32>) -> tensor<*xf32> {
  %0 = "oneflow.var"(%x) {dim = [1], dtype = 2 : i32} : (tensor<2x?xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
