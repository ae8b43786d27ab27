// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-autodiff="func=rows" | FileCheck %s --check-prefix=GRAD

// The axes of indices, then the row; indices of 32 and 64 bits.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: -> tensor<?x3x8xf32>
// CHECK: "oneflow.embedding"(%arg0, %arg1) {padding_idx = 0 : i64} : (tensor<7x8xf32>, tensor<?x3xi32>) -> tensor<?x3x8xf32>
// GRAD-LABEL: func.func @rows_grad(
// GRAD-SAME: -> tensor<7x8xf32>
// GRAD: "oneflow.embedding_grad"
// GRAD-SAME: padding_idx = 0
func.func @rows(%w: tensor<7x8xf32>, %i: tensor<?x3xi32>) -> tensor<*xf32> {
  %0 = "oneflow.embedding"(%w, %i) {padding_idx = 0 : si64} : (tensor<7x8xf32>, tensor<?x3xi32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// Only the shape of the weight is read: the weight may have another type than the gradient.
// CHECK-LABEL: func.func @table(
// CHECK-SAME: -> (tensor<7x8xf16>, tensor<?x8xf64>)
// CHECK: "oneflow.embedding_grad"({{.*}}) {scale_grad_by_freq = true}
func.func @table(%dy: tensor<2x3x8xf16>, %w: tensor<7x8xf32>, %i: tensor<2x3xi64>, %d: tensor<3x?xf64>,
                 %v: tensor<?x8xf64>, %j: tensor<3xi32>) -> (tensor<*xf16>, tensor<*xf64>) {
  %0 = "oneflow.embedding_grad"(%dy, %w, %i) {scale_grad_by_freq = true}
    : (tensor<2x3x8xf16>, tensor<7x8xf32>, tensor<2x3xi64>) -> tensor<*xf16>
  %1 = "oneflow.embedding_grad"(%d, %v, %j) : (tensor<3x?xf64>, tensor<?x8xf64>, tensor<3xi32>) -> tensor<*xf64>
  return %0, %1 : tensor<*xf16>, tensor<*xf64>
}
