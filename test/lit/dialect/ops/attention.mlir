// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-decompose | FileCheck %s --check-prefix=PARTS

// Scores and statistics of rows are f32. Heads that share keys are rows of one product.
// CHECK-LABEL: func.func @attention(
// CHECK: "oneflow.attention"({{.*}}) {{.*}} -> (tensor<2x4x8x16xf16>, tensor<2x4x8xf32>)
// PARTS-LABEL: func.func @attention(
// PARTS: %[[Q:.*]] = "oneflow.reshape"(%arg0) {{.*}} -> tensor<2x2x16x16xf16>
// PARTS: "oneflow.row_products"(%[[Q]], %arg1) {{.*}} -> tensor<2x2x16x8xf32>
// PARTS: "oneflow.tril"
// PARTS: "oneflow.reduce_max"
// PARTS: "oneflow.batch_matmul"
func.func @attention(%q: tensor<2x4x8x16xf16>, %k: tensor<2x2x8x16xf16>, %v: tensor<2x2x8x16xf16>) -> (tensor<*xf16>, tensor<*xf32>) {
  %0, %1 = "oneflow.attention"(%q, %k, %v) {causal = true, scale = 0.25 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x4x8x16xf16>, tensor<2x2x8x16xf16>, tensor<2x2x8x16xf16>) -> (tensor<*xf16>, tensor<*xf32>)
  return %0, %1 : tensor<*xf16>, tensor<*xf32>
}

// CHECK-LABEL: func.func @attention_grad(
// CHECK: "oneflow.attention_grad"({{.*}}) {{.*}} -> (tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>)
// PARTS-LABEL: func.func @attention_grad(
// PARTS-NOT: oneflow.attention_grad
// PARTS-COUNT-2: "oneflow.row_products"
// PARTS-COUNT-3: "oneflow.batch_matmul"
func.func @attention_grad(%x: tensor<1x2x8x16xf32>, %r: tensor<1x2x8xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0, %1, %2 = "oneflow.attention_grad"(%x, %x, %x, %x, %r, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 1>} : (tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0, %1, %2 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}
