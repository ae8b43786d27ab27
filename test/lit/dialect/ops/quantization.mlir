// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @quantized(
// CHECK-NEXT: "oneflow.min_max_observer"(%{{.*}}) {per_layer_quantization = false} : (tensor<3x4xf32>) -> (tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: "oneflow.quantization"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: "oneflow.fake_quantization"(%{{.*}}, %{{.*}}, %{{.*}}) {quantization_bit = 4 : i32} : (tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3x4xf32>
func.func @quantized(%x: tensor<3x4xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.min_max_observer"(%x) {per_layer_quantization = false} : (tensor<3x4xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %1 = "oneflow.quantization"(%x, %0#0, %0#1) : (tensor<3x4xf32>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %2 = "oneflow.fake_quantization"(%x, %0#0, %0#1) {quantization_bit = 4 : si32} : (tensor<3x4xf32>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %1, %2 : tensor<*xf32>, tensor<*xf32>
}
