// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @states(
// CHECK-NEXT: "oneflow.fused_self_attention_query_mul_key_and_value"(%{{.*}}) {alpha = 5.000000e-01 : f32, head_size = 2 : i64} : (tensor<2x3x12xf32>) -> (tensor<3x2x2x2xf32>, tensor<3x2x2x2xf32>)
// CHECK-NEXT: "oneflow.fused_self_attention_query_mul_key_and_value_grad"(%{{.*}}, %{{.*}}, %{{.*}}) {alpha = 5.000000e-01 : f32} : (tensor<2x2x2x2xf32>, tensor<2x2x2x1xf32>, tensor<2x2x6xf32>) -> tensor<2x2x6xf32>
// CHECK-NEXT: "oneflow.fused_codegeex_qkv_reshape"(%{{.*}}, %{{.*}}, %{{.*}}) {num_attention_heads = 2 : i32} : (tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> (tensor<3x2x2x2xf32>, tensor<3x2x2x2xf32>, tensor<3x2x2x2xf32>)
func.func @states(%a: tensor<2x3x12xf32>, %b: tensor<2x2x2x2xf32>, %c: tensor<2x2x2x1xf32>, %d: tensor<2x2x6xf32>, %e: tensor<3x2x4xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.fused_self_attention_query_mul_key_and_value"(%a) {alpha = 5.000000e-01 : f32, head_size = 2 : i64} : (tensor<2x3x12xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %1 = "oneflow.fused_self_attention_query_mul_key_and_value_grad"(%b, %c, %d) {alpha = 5.000000e-01 : f32} : (tensor<2x2x2x2xf32>, tensor<2x2x2x1xf32>, tensor<2x2x6xf32>) -> tensor<*xf32>
  %2:3 = "oneflow.fused_codegeex_qkv_reshape"(%e, %e, %e) {num_attention_heads = 2 : i32} : (tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1, %2#0 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @past(
// CHECK-NEXT: "oneflow.fused_attention_concat_past_key_value"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {key_head_size = 2 : i64, key_layout = "BM(HK)", operandSegmentSizes = array<i32: 1, 1, 1, 1>, past_key_layout = "BHMK", past_value_layout = "BHMK", value_layout = "BM(HK)"} : (tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x1x2xf32>, tensor<3x2x1x2xf32>) -> (tensor<3x2x3x2xf32>, tensor<3x2x3x2xf32>)
func.func @past(%a: tensor<3x2x4xf32>, %b: tensor<3x2x1x2xf32>) -> tensor<*xf32> {
  %0:2 = "oneflow.fused_attention_concat_past_key_value"(%a, %a, %b, %b) {key_head_size = 2 : i64, key_layout = "BM(HK)", operandSegmentSizes = array<i32: 1, 1, 1, 1>, past_key_layout = "BHMK", past_value_layout = "BHMK", value_layout = "BM(HK)"} : (tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x1x2xf32>, tensor<3x2x1x2xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0#0 : tensor<*xf32>
}
