// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @inference(
// CHECK-NEXT: "oneflow.fused_multi_head_attention_inference"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {key_layout = "BM(HK)", operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, output_layout = "BM(HK)", query_head_size = 2 : i64, query_layout = "BM(HK)", scale = 5.000000e-01 : f64, value_layout = "BM(HK)"} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x6xf32>, tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
func.func @inference(%a: tensor<2x3x4xf32>, %b: tensor<2x3x6xf32>) -> tensor<*xf32> {
  %0 = "oneflow.fused_multi_head_attention_inference"(%a, %a, %b, %a) {key_layout = "BM(HK)", operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, output_layout = "BM(HK)", query_head_size = 2 : i64, query_layout = "BM(HK)", scale = 5.000000e-01 : f64, value_layout = "BM(HK)"} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x6xf32>, tensor<2x3x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @flash(
// CHECK-NEXT: "oneflow.scaled_dot_product_flash_attention"(%{{.*}}, %{{.*}}, %{{.*}}) {softmax_scale = 5.000000e-01 : f32, window_size_left = -1 : i32, window_size_right = -1 : i32} : (tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>) -> (tensor<2x3x2x2xf32>, tensor<2x2x3xf32>, tensor<2xui64>)
// CHECK-NEXT: "oneflow.scaled_dot_product_flash_attention_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {softmax_scale = 5.000000e-01 : f32, window_size_left = -1 : i32, window_size_right = -1 : i32} : (tensor<2x3x2x1xf32>, tensor<2x3x2x1xf32>, tensor<2x3x2x1xf32>, tensor<2x3x2x1xf32>, tensor<2x3x2x1xf32>, tensor<2x2x3xf32>, tensor<2xui64>) -> (tensor<2x3x2x1xf32>, tensor<2x3x2x1xf32>, tensor<2x3x2x1xf32>)
func.func @flash(%a: tensor<2x3x2x2xf32>, %b: tensor<2x3x2x1xf32>, %c: tensor<2x2x3xf32>, %d: tensor<2xui64>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:3 = "oneflow.scaled_dot_product_flash_attention"(%a, %a, %a) {softmax_scale = 5.000000e-01 : f32, window_size_left = -1 : i32, window_size_right = -1 : i32} : (tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xui64>)
  %1:3 = "oneflow.scaled_dot_product_flash_attention_grad"(%b, %b, %b, %b, %b, %c, %d) {softmax_scale = 5.000000e-01 : f32, window_size_left = -1 : i32, window_size_right = -1 : i32} : (tensor<2x3x2x1xf32>, tensor<2x3x2x1xf32>, tensor<2x3x2x1xf32>, tensor<2x3x2x1xf32>, tensor<2x3x2x1xf32>, tensor<2x2x3xf32>, tensor<2xui64>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0 : tensor<*xf32>, tensor<*xf32>
}
