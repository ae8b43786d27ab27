// RUN: oneflow-opt %s --stage linalg | oneflow-opt --oneflow-split-reductions --oneflow-recompute-rows --canonicalize --cse | FileCheck %s
// RUN: oneflow-opt %s --stage gpu-kernels | FileCheck %s --check-prefix=KERNELS

// The result of log_softmax is not stored: the gradient recomputes the result from %x and two numbers of each row,
// and the loss recomputes the single element that the loss reads.
// CHECK-LABEL: func.func @loss
// CHECK: %[[WIDE:.*]] = linalg.generic
// CHECK: arith.extf
// CHECK: %[[MAX:.*]] = linalg.generic {{.*}} ins(%[[WIDE]]
// CHECK: arith.maximumf
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[WIDE]], %[[MAX]]
// CHECK: math.exp
// CHECK: %[[LOG:.*]] = linalg.generic
// CHECK-SAME: ins(%[[SUM]]
// CHECK: tensor.extract %arg0[
// CHECK: tensor.extract %[[MAX]][
// CHECK: tensor.extract %[[LOG]][
// CHECK: %[[GRADIENT:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %arg0, %[[MAX]], %[[LOG]],
// CHECK: return %{{.*}}, %[[GRADIENT]]

// One kernel reads the row twice and computes the gradient; reductions over all rows are separate kernels. The kernel
// of a reduction also computes the values that depend on the reduction alone: the label count and its reciprocal.
// KERNELS: func.func private @loss_kernel_0(%arg0: tensor<512xi64>
// KERNELS: return %{{.*}} : tensor<bf16>, tensor<bf16>
// KERNELS: func.func private @loss_kernel_1(%arg0: tensor<512x20000xbf16>
// KERNELS: arith.maximumf
// KERNELS: math.log
// KERNELS: return %{{.*}} : tensor<512xf32>, tensor<512x1xf32>, tensor<512x20000xbf16>
func.func @loss(%x: tensor<512x20000xbf16>, %t: tensor<512xi64>) -> (tensor<bf16>, tensor<512x20000xbf16>) {
  %0 = "oneflow.log_softmax"(%x) : (tensor<512x20000xbf16>) -> tensor<512x20000xbf16>
  %1:2 = "oneflow.nll"(%0, %t) {ignore_index = -100 : i64} : (tensor<512x20000xbf16>, tensor<512xi64>) -> (tensor<512xbf16>, tensor<512xbf16>)
  %2 = "oneflow.reduce_sum"(%1#0) {axis = [0 : si32], keepdims = false} : (tensor<512xbf16>) -> tensor<bf16>
  %3 = "oneflow.reduce_sum"(%1#1) {axis = [0 : si32], keepdims = false} : (tensor<512xbf16>) -> tensor<bf16>
  %4 = "oneflow.broadcast_div"(%2, %3) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
  %5 = "oneflow.reciprocal"(%3) : (tensor<bf16>) -> tensor<bf16>
  %6 = "oneflow.broadcast_like"(%5, %1#0) {broadcast_axes = [0 : si32]} : (tensor<bf16>, tensor<512xbf16>) -> tensor<512xbf16>
  %7 = "oneflow.nll_grad"(%6, %0, %t) {ignore_index = -100 : i64} : (tensor<512xbf16>, tensor<512x20000xbf16>, tensor<512xi64>) -> tensor<512x20000xbf16>
  %8 = "oneflow.log_softmax_grad"(%0, %7) : (tensor<512x20000xbf16>, tensor<512x20000xbf16>) -> tensor<512x20000xbf16>
  return %4, %8 : tensor<bf16>, tensor<512x20000xbf16>
}

// A product reads its operands from memory: the result of softmax is stored once, for the product and other consumers.
// CHECK-LABEL: func.func @kept
// CHECK: arith.divf
// CHECK-NOT: arith.divf
// CHECK: return
func.func @kept(%x: tensor<64x200xf32>, %w: tensor<200x30xf32>) -> (tensor<64x30xf32>, tensor<64x200xf32>) {
  %0 = "oneflow.softmax"(%x) : (tensor<64x200xf32>) -> tensor<64x200xf32>
  %1 = "oneflow.matmul"(%0, %w) : (tensor<64x200xf32>, tensor<200x30xf32>) -> tensor<64x30xf32>
  %2 = "oneflow.exp"(%0) : (tensor<64x200xf32>) -> tensor<64x200xf32>
  return %1, %2 : tensor<64x30xf32>, tensor<64x200xf32>
}
