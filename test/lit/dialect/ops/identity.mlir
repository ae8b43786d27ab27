// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-canonicalize | FileCheck %s --check-prefix=CANON
// RUN: oneflow-opt %s --oneflow-infer-types --cse | FileCheck %s --check-prefix=CSE
// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-autodiff="func=stopped" | FileCheck %s --check-prefix=GRAD

// Every type is propagated, as far as the type is known.
// CHECK-LABEL: func.func @types(
// CHECK-SAME: -> (tensor<2x?xf16>, tensor<3xi64>, tensor<4xi1>)
func.func @types(%x: tensor<2x?xf16>, %n: tensor<3xi64>, %b: tensor<4xi1>)
    -> (tensor<*xf16>, tensor<*xi64>, tensor<*xi1>) {
  %0 = "oneflow.stop_gradient"(%x) : (tensor<2x?xf16>) -> tensor<*xf16>
  %1 = "oneflow.depend"(%n, %x) : (tensor<3xi64>, tensor<2x?xf16>) -> tensor<*xi64>
  %2 = "oneflow.stop_gradient"(%b) : (tensor<4xi1>) -> tensor<*xi1>
  return %0, %1, %2 : tensor<*xf16>, tensor<*xi64>, tensor<*xi1>
}

// Marks for OneFlow's own passes change nothing and are dropped.
// CHECK-LABEL: func.func @marks(
// CHECK-SAME: -> tensor<2x?xf16>
// CANON-LABEL: func.func @marks(
// CANON-NEXT: return %arg0
func.func @marks(%x: tensor<2x?xf16>) -> tensor<*xf16> {
  %0 = "oneflow.amp_white_identity"(%x) : (tensor<2x?xf16>) -> tensor<*xf16>
  %1 = "oneflow.amp_black_identity"(%0) : (tensor<*xf16>) -> tensor<*xf16>
  %2 = "oneflow.identity_buffer"(%1) {buffer_size = 3 : si64} : (tensor<*xf16>) -> tensor<*xf16>
  return %2 : tensor<*xf16>
}

// Values that are computed from a tensor behind `depend` are recomputed.
// CSE-LABEL: func.func @ordered(
// CSE: %[[FIRST:.*]] = "oneflow.exp"(%arg0)
// CSE: %[[LATER:.*]] = "oneflow.depend"(%arg0, %[[FIRST]])
// CSE: "oneflow.exp"(%[[LATER]])
func.func @ordered(%x: tensor<4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.exp"(%x) : (tensor<4xf32>) -> tensor<*xf32>
  %1 = "oneflow.depend"(%x, %0) : (tensor<4xf32>, tensor<*xf32>) -> tensor<*xf32>
  %2 = "oneflow.exp"(%1) : (tensor<*xf32>) -> tensor<*xf32>
  %3 = "oneflow.broadcast_add"(%0, %2) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %3 : tensor<*xf32>
}

// x * stop_gradient(x): the gradient is x, not 2 x.
// GRAD-LABEL: func.func @stopped_grad(
// GRAD-NOT: broadcast_add
// GRAD-NOT: oneflow.add_n
// GRAD: return
func.func @stopped(%x: tensor<4xf32>) -> tensor<f32> {
  %0 = "oneflow.stop_gradient"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "oneflow.broadcast_mul"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = "oneflow.reduce_sum"(%1) {axis = [0 : si32], keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// CHECK-LABEL: func.func @copy(
// CHECK: "oneflow.copy"({{.*}}) : (tensor<3x2xf32>) -> tensor<3x2xf32>
func.func @copy(%arg0: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.copy"(%arg0) : (tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @copy_h2d(
// CHECK: "oneflow.copy_h2d"({{.*}}) : (tensor<3x2xf32>) -> tensor<3x2xf32>
func.func @copy_h2d(%arg0: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.copy_h2d"(%arg0) : (tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @copy_d2h(
// CHECK: "oneflow.copy_d2h"({{.*}}) : (tensor<3x2xf32>) -> tensor<3x2xf32>
func.func @copy_d2h(%arg0: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.copy_d2h"(%arg0) : (tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @pinned_identity(
// CHECK: "oneflow.pinned_identity"({{.*}}) : (tensor<3x2xf32>) -> tensor<3x2xf32>
func.func @pinned_identity(%arg0: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.pinned_identity"(%arg0) : (tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @to_contiguous(
// CHECK: "oneflow.to_contiguous"({{.*}}) : (tensor<3x2xf32>) -> tensor<3x2xf32>
func.func @to_contiguous(%arg0: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.to_contiguous"(%arg0) : (tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @cast_to_static_shape(
// CHECK: "oneflow.cast_to_static_shape"({{.*}}) : (tensor<3x2xf32>) -> tensor<3x2xf32>
func.func @cast_to_static_shape(%arg0: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.cast_to_static_shape"(%arg0) : (tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
