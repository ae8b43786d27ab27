// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @masked(
// CHECK-NEXT: "oneflow.fused_scale_mask_softmax_dropout"(%{{.*}}, %{{.*}}, %{{.*}}) {dropout_scale_value = 1.500000e+00 : f32, mask_fill_value = -3.000000e+00 : f32, scale_value = 5.000000e-01 : f32} : (tensor<2x3x4xf32>, tensor<2x1x4xi1>, tensor<2x3x4xi1>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>)
// CHECK-NEXT: "oneflow.fused_scale_mask_softmax_dropout_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {dropout_scale_value = 1.500000e+00 : f32, scale_value = 5.000000e-01 : f32} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x1x4xi1>, tensor<2x3x4xi1>) -> tensor<2x3x4xf32>
// CHECK-NEXT: "oneflow.fused_bias_add_scale_mask_softmax_dropout"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {dropout_scale_value = 1.500000e+00 : f32, mask_fill_value = -3.000000e+00 : f32, scale_value = 5.000000e-01 : f32} : (tensor<2x3x4xf32>, tensor<3x1xf32>, tensor<2x1x4xi32>, tensor<2x3x4xi1>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>)
func.func @masked(%a: tensor<2x3x4xf32>, %b: tensor<2x1x4xi1>, %c: tensor<2x3x4xi1>, %d: tensor<3x1xf32>, %e: tensor<2x1x4xi32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.fused_scale_mask_softmax_dropout"(%a, %b, %c) {dropout_scale_value = 1.500000e+00 : f32, mask_fill_value = -3.000000e+00 : f32, scale_value = 5.000000e-01 : f32} : (tensor<2x3x4xf32>, tensor<2x1x4xi1>, tensor<2x3x4xi1>) -> (tensor<*xf32>, tensor<*xf32>)
  %1 = "oneflow.fused_scale_mask_softmax_dropout_grad"(%a, %a, %b, %c) {dropout_scale_value = 1.500000e+00 : f32, scale_value = 5.000000e-01 : f32} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x1x4xi1>, tensor<2x3x4xi1>) -> tensor<*xf32>
  %2:2 = "oneflow.fused_bias_add_scale_mask_softmax_dropout"(%a, %d, %e, %c) {dropout_scale_value = 1.500000e+00 : f32, mask_fill_value = -3.000000e+00 : f32, scale_value = 5.000000e-01 : f32} : (tensor<2x3x4xf32>, tensor<3x1xf32>, tensor<2x1x4xi32>, tensor<2x3x4xi1>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1, %2#0 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @triangles(
// CHECK-NEXT: "oneflow.fused_tril_scale_softmax_mask_scale"(%{{.*}}, %{{.*}}) {diagonal = 1 : i64, mask_scale_value = 1.500000e+00 : f32, tril_fill_value = -2.000000e+00 : f32, tril_scale_value = 5.000000e-01 : f32} : (tensor<2x3x4xf32>, tensor<2x3x4xi1>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>)
// CHECK-NEXT: "oneflow.fused_tril_scale_softmax_mask_scale_grad"(%{{.*}}, %{{.*}}, %{{.*}}) {diagonal = 1 : i64, mask_scale_value = 1.500000e+00 : f32, tril_scale_value = 5.000000e-01 : f32} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xi1>) -> tensor<2x3x4xf32>
func.func @triangles(%a: tensor<2x3x4xf32>, %b: tensor<2x3x4xi1>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.fused_tril_scale_softmax_mask_scale"(%a, %b) {diagonal = 1 : i64, mask_scale_value = 1.500000e+00 : f32, tril_fill_value = -2.000000e+00 : f32, tril_scale_value = 5.000000e-01 : f32} : (tensor<2x3x4xf32>, tensor<2x3x4xi1>) -> (tensor<*xf32>, tensor<*xf32>)
  %1 = "oneflow.fused_tril_scale_softmax_mask_scale_grad"(%a, %a, %b) {diagonal = 1 : i64, mask_scale_value = 1.500000e+00 : f32, tril_scale_value = 5.000000e-01 : f32} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xi1>) -> tensor<*xf32>
  return %0#0, %1 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @softmaxes(
// CHECK-NEXT: "oneflow.fused_scale_mask_softmax"(%{{.*}}, %{{.*}}) {scale_value = 2.000000e+00 : f32} : (tensor<2x3x4xf16>, tensor<2x1x4xi1>) -> tensor<2x3x4xf16>
// CHECK-NEXT: "oneflow.fused_scale_mask_softmax_grad"(%{{.*}}, %{{.*}}, %{{.*}}) {scale_value = 2.000000e+00 : f32} : (tensor<2x3x4xf16>, tensor<2x3x4xf16>, tensor<2x3x4xi1>) -> tensor<2x3x4xf16>
// CHECK-NEXT: "oneflow.fused_scale_mask_bias_softmax"(%{{.*}}, %{{.*}}) : (tensor<2x3x4xf16>, tensor<2x3x4xf16>) -> tensor<2x3x4xf16>
// CHECK-NEXT: "oneflow.fused_scale_mask_bias_softmax_grad"(%{{.*}}, %{{.*}}) : (tensor<2x3x4xf16>, tensor<2x3x4xf16>) -> tensor<2x3x4xf16>
func.func @softmaxes(%x: tensor<2x3x4xf16>, %m: tensor<2x1x4xi1>, %w: tensor<2x3x4xi1>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0 = "oneflow.fused_scale_mask_softmax"(%x, %m) {scale_value = 2.0 : f32} : (tensor<2x3x4xf16>, tensor<2x1x4xi1>) -> tensor<*xf16>
  %1 = "oneflow.fused_scale_mask_softmax_grad"(%0, %x, %w) {scale_value = 2.0 : f32} : (tensor<*xf16>, tensor<2x3x4xf16>, tensor<2x3x4xi1>) -> tensor<*xf16>
  %2 = "oneflow.fused_scale_mask_bias_softmax"(%x, %x) : (tensor<2x3x4xf16>, tensor<2x3x4xf16>) -> tensor<*xf16>
  %3 = "oneflow.fused_scale_mask_bias_softmax_grad"(%2, %1) : (tensor<*xf16>, tensor<*xf16>) -> tensor<*xf16>
  return %1, %3 : tensor<*xf16>, tensor<*xf16>
}
