// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @adaptive(
// CHECK: "oneflow.adaptive_avg_pool2d"{{.*}} : (tensor<?x3x?x7xf32>) -> tensor<?x3x1x2xf32>
func.func @adaptive(%x: tensor<?x3x?x7xf32>) -> tensor<*xf32> {
  %0 = "oneflow.adaptive_avg_pool2d"(%x) {output_size = [1 : si64, 2 : si64], data_format = "channels_first"} : (tensor<?x3x?x7xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
