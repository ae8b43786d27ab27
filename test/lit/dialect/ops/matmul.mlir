// RUN: oneflow-opt %s --oneflow-infer-types --split-input-file | FileCheck %s
// RUN: oneflow-opt %s --stage linalg --split-input-file | FileCheck %s --check-prefix=ONCE

// CHECK-LABEL: func.func @products(
// CHECK: "oneflow.matmul"{{.*}}transpose_b = true{{.*}} : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
// CHECK: "oneflow.broadcast_matmul"{{.*}} : (tensor<3x1x5x?xf32>, tensor<2x?x4xf32>) -> tensor<3x2x5x4xf32>
// CHECK: "oneflow.batch_matmul"{{.*}} : (tensor<2x5x6xf16>, tensor<2x6x7xf16>) -> tensor<2x5x7xf16>
func.func @products(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>, %a: tensor<3x1x5x?xf32>, %b: tensor<2x?x4xf32>,
                    %p: tensor<2x5x6xf16>, %q: tensor<2x6x7xf16>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf16>) {
  %0 = "oneflow.matmul"(%x, %w) {transpose_b = true} : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<*xf32>
  %1 = "oneflow.broadcast_matmul"(%a, %b) : (tensor<3x1x5x?xf32>, tensor<2x?x4xf32>) -> tensor<*xf32>
  %2 = "oneflow.batch_matmul"(%p, %q) : (tensor<2x5x6xf16>, tensor<2x6x7xf16>) -> tensor<*xf16>
  return %0, %1, %2 : tensor<*xf32>, tensor<*xf32>, tensor<*xf16>
}

// -----

// CHECK-LABEL: func.func @linear(
// CHECK: "oneflow.fused_matmul_bias"{{.*}} : (tensor<2x3x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
func.func @linear(%x: tensor<2x3x8xf32>, %w: tensor<4x8xf32>, %b: tensor<4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.fused_matmul_bias"(%x, %w, %b) {alpha = 1.0 : f64} : (tensor<2x3x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// -----

// The sum, the bias and the addend are added in f32: one rounding.
// ONCE-LABEL: func.func @rounded_once(
// ONCE: arith.addf {{.*}}reassoc
// ONCE-NOT: arith.truncf
// ONCE: arith.addf
// ONCE-NOT: arith.truncf
// ONCE: arith.addf
// ONCE: arith.truncf
// ONCE-NOT: arith.truncf
func.func @rounded_once(%x: tensor<3x8xbf16>, %w: tensor<4x8xbf16>, %b: tensor<4xbf16>, %a: tensor<3x4xbf16>) -> tensor<3x4xbf16> {
  %0 = "oneflow.fused_matmul_bias"(%x, %w, %b, %a) : (tensor<3x8xbf16>, tensor<4x8xbf16>, tensor<4xbf16>, tensor<3x4xbf16>) -> tensor<3x4xbf16>
  return %0 : tensor<3x4xbf16>
}

// -----

// CHECK-LABEL: func.func @rows(
// CHECK: "oneflow.row_products"{{.*}} : (tensor<2x3x?xf16>, tensor<2x4x8xf16>) -> tensor<2x3x4xf32>
func.func @rows(%a: tensor<2x3x?xf16>, %b: tensor<2x4x8xf16>) -> tensor<*xf32> {
  %0 = "oneflow.row_products"(%a, %b) : (tensor<2x3x?xf16>, tensor<2x4x8xf16>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
