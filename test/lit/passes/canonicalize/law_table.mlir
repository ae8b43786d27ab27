// RUN: oneflow-opt %s --oneflow-canonicalize | FileCheck %s

// One function for each law, with the law's name; `test/python/passes/test_laws.py` runs each before and after.

// CHECK-LABEL: func.func @"abs-idempotent"
// CHECK-NEXT: %[[R:.*]] = "oneflow.abs"(%arg0)
// CHECK-NEXT: return %[[R]]
func.func @"abs-idempotent"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.abs"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.abs"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"ceil-idempotent"
// CHECK-NEXT: %[[R:.*]] = "oneflow.ceil"(%arg0)
// CHECK-NEXT: return %[[R]]
func.func @"ceil-idempotent"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.ceil"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.ceil"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"floor-idempotent"
// CHECK-NEXT: %[[R:.*]] = "oneflow.floor"(%arg0)
// CHECK-NEXT: return %[[R]]
func.func @"floor-idempotent"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.floor"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.floor"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"relu-idempotent"
// CHECK-NEXT: %[[R:.*]] = "oneflow.relu"(%arg0)
// CHECK-NEXT: return %[[R]]
func.func @"relu-idempotent"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.relu"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"rint-idempotent"
// CHECK-NEXT: %[[R:.*]] = "oneflow.rint"(%arg0)
// CHECK-NEXT: return %[[R]]
func.func @"rint-idempotent"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.rint"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.rint"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"round-idempotent"
// CHECK-NEXT: %[[R:.*]] = "oneflow.round"(%arg0)
// CHECK-NEXT: return %[[R]]
func.func @"round-idempotent"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.round"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.round"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"sign-idempotent"
// CHECK-NEXT: %[[R:.*]] = "oneflow.sign"(%arg0)
// CHECK-NEXT: return %[[R]]
func.func @"sign-idempotent"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.sign"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.sign"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"trunc-idempotent"
// CHECK-NEXT: %[[R:.*]] = "oneflow.trunc"(%arg0)
// CHECK-NEXT: return %[[R]]
func.func @"trunc-idempotent"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.trunc"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.trunc"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"negative-involution"
// CHECK-NEXT: return %arg0
func.func @"negative-involution"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.negative"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.negative"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"logical_not-involution"
// CHECK-NEXT: return %arg0
func.func @"logical_not-involution"(%x: tensor<4xi1>) -> tensor<4xi1> {
  %0 = "oneflow.logical_not"(%x) : (tensor<4xi1>) -> tensor<4xi1>
  %1 = "oneflow.logical_not"(%0) : (tensor<4xi1>) -> tensor<4xi1>
  return %1 : tensor<4xi1>
}

// CHECK-LABEL: func.func @"bitwise_not-involution"
// CHECK-NEXT: return %arg0
func.func @"bitwise_not-involution"(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = "oneflow.bitwise_not"(%x) : (tensor<4xi32>) -> tensor<4xi32>
  %1 = "oneflow.bitwise_not"(%0) : (tensor<4xi32>) -> tensor<4xi32>
  return %1 : tensor<4xi32>
}

// CHECK-LABEL: func.func @"add-zero"
// CHECK-NEXT: return %arg0
func.func @"add-zero"(%x: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %0 = "oneflow.scalar_add"(%x) {has_int_operand = true, int_operand = 0 : i64} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
}

// CHECK-LABEL: func.func @"multiply-by-one"
// CHECK-NEXT: return %arg0
func.func @"multiply-by-one"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.scalar_mul"(%x) {has_float_operand = true, float_operand = 1.0 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"divide-by-one"
// CHECK-NEXT: return %arg0
func.func @"divide-by-one"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.scalar_div"(%x) {has_float_operand = true, float_operand = 1.0 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"first-power"
// CHECK-NEXT: return %arg0
func.func @"first-power"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.scalar_pow"(%x) {has_float_operand = true, float_operand = 1.0 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"add-one"
// CHECK-NEXT: return %arg0
func.func @"add-one"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.add_n"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"drop-identity"
// CHECK-NEXT: return %arg0
func.func @"drop-identity"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.identity"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"drop-amp_white_identity"
// CHECK-NEXT: return %arg0
func.func @"drop-amp_white_identity"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.amp_white_identity"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"drop-amp_black_identity"
// CHECK-NEXT: return %arg0
func.func @"drop-amp_black_identity"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.amp_black_identity"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"drop-copy"
// CHECK-NEXT: return %arg0
func.func @"drop-copy"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.copy"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"drop-copy_d2h"
// CHECK-NEXT: return %arg0
func.func @"drop-copy_d2h"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.copy_d2h"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"drop-copy_h2d"
// CHECK-NEXT: return %arg0
func.func @"drop-copy_h2d"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.copy_h2d"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"drop-pinned_identity"
// CHECK-NEXT: return %arg0
func.func @"drop-pinned_identity"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.pinned_identity"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"drop-to_contiguous"
// CHECK-NEXT: return %arg0
func.func @"drop-to_contiguous"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.to_contiguous"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"drop-cast_to_static_shape"
// CHECK-NEXT: return %arg0
func.func @"drop-cast_to_static_shape"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.cast_to_static_shape"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"drop-identity_buffer"
// CHECK-NEXT: return %arg0
func.func @"drop-identity_buffer"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.identity_buffer"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"cast-to-same"
// CHECK-NEXT: return %arg0
func.func @"cast-to-same"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.cast"(%x) {dtype = f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"cat-of-one"
// CHECK-NEXT: return %arg0
func.func @"cat-of-one"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.cat"(%x) {axis = 0 : i64, max_dim_size = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"identity-flip"
// CHECK-NEXT: return %arg0
func.func @"identity-flip"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.flip"(%x) {dims = array<i32>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"identity-squeeze"
// CHECK-NEXT: return %arg0
func.func @"identity-squeeze"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.squeeze"(%x) {axes = array<i32>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"identity-expand"
// CHECK-NEXT: return %arg0
func.func @"identity-expand"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.expand"(%x) {expand_shape = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"identity-narrow"
// CHECK-NEXT: return %arg0
func.func @"identity-narrow"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.narrow"(%x) {dim = 1 : i64, start = 0 : i64, length = 3 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"identity-pad"
// CHECK-NEXT: return %arg0
func.func @"identity-pad"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.pad"(%x) {padding_before = array<i64: 0, 0>, padding_after = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"identity-reshape"
// CHECK-NEXT: return %arg0
func.func @"identity-reshape"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.reshape"(%x) {shape = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"identity-reshape-like"
// CHECK-NEXT: return %arg0
func.func @"identity-reshape-like"(%x: tensor<2x3xf32>, %y: tensor<2x3xi64>) -> tensor<2x3xf32> {
  %0 = "oneflow.reshape_like"(%x, %y) : (tensor<2x3xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"identity-slice"
// CHECK-NEXT: return %arg0
func.func @"identity-slice"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.slice"(%x) {start = array<i64: 0, 0>, stop = array<i64: 2, 3>, step = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"whole-slice_update"
// CHECK-NEXT: return %arg1
func.func @"whole-slice_update"(%x: tensor<2x3xf32>, %v: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.slice_update"(%x, %v) {start = array<i64: 0, 0>, stop = array<i64: 2, 3>, step = array<i64: 1, 1>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"identity-transpose"
// CHECK-NEXT: return %arg0
func.func @"identity-transpose"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.transpose"(%x) {perm = array<i32: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"cancel-flips"
// CHECK-NEXT: return %arg0
func.func @"cancel-flips"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.flip"(%x) {dims = array<i32: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.flip"(%0) {dims = array<i32: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"cast-there-and-back"
// CHECK-NEXT: return %arg0
func.func @"cast-there-and-back"(%x: tensor<2x3xf16>) -> tensor<2x3xf16> {
  %0 = "oneflow.cast"(%x) {dtype = f32} : (tensor<2x3xf16>) -> tensor<2x3xf32>
  %1 = "oneflow.cast"(%0) {dtype = f16} : (tensor<2x3xf32>) -> tensor<2x3xf16>
  return %1 : tensor<2x3xf16>
}

// CHECK-LABEL: func.func @"compose-reshapes"
// CHECK-NEXT: %[[R:.*]] = "oneflow.reshape"(%arg0) {shape = array<i64: 3, 2>}
// CHECK-NEXT: return %[[R]]
func.func @"compose-reshapes"(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "oneflow.reshape"(%x) {shape = array<i64: 6>} : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = "oneflow.reshape"(%0) {shape = array<i64: 3, 2>} : (tensor<6xf32>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @"compose-transposes"
// CHECK-NEXT: %[[R:.*]] = "oneflow.transpose"(%arg0) {perm = array<i32: 2, 0, 1>}
// CHECK-NEXT: return %[[R]]
func.func @"compose-transposes"(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %0 = "oneflow.transpose"(%x) {perm = array<i32: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = "oneflow.transpose"(%0) {perm = array<i32: 1, 2, 0>} : (tensor<3x4x2xf32>) -> tensor<4x2x3xf32>
  return %1 : tensor<4x2x3xf32>
}

// CHECK-LABEL: func.func @"expand-dims-squeeze"
// CHECK-NEXT: return %arg0
func.func @"expand-dims-squeeze"(%x: tensor<2x1x3xf32>) -> tensor<2x1x3xf32> {
  %0 = "oneflow.squeeze"(%x) {axes = array<i32: 1>} : (tensor<2x1x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.expand_dims"(%0) {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x1x3xf32>
  return %1 : tensor<2x1x3xf32>
}

// CHECK-LABEL: func.func @"squeeze-expand-dims"
// CHECK-NEXT: return %arg0
func.func @"squeeze-expand-dims"(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.expand_dims"(%x) {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x1x3xf32>
  %1 = "oneflow.squeeze"(%0) {axes = array<i32: 1>} : (tensor<2x1x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @"static-reshape-like"
// CHECK-NEXT: %[[R:.*]] = "oneflow.reshape"(%arg0) {shape = array<i64: 6>}
// CHECK-NEXT: return %[[R]]
func.func @"static-reshape-like"(%x: tensor<2x3xf32>, %y: tensor<6xi64>) -> tensor<6xf32> {
  %0 = "oneflow.reshape_like"(%x, %y) : (tensor<2x3xf32>, tensor<6xi64>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// CHECK-LABEL: func.func @"log-softmax-grad-of-one-class"
// CHECK-NOT: log_softmax_grad
// CHECK: %[[HIT:.*]] = "oneflow.nll_grad"
// CHECK: %[[SLOPE:.*]] = "oneflow.where"
// CHECK: %[[TOTAL:.*]] = "oneflow.expand_dims"(%[[SLOPE]])
// CHECK: %[[EXP:.*]] = "oneflow.exp"(%arg0)
// CHECK: %[[MOVED:.*]] = "oneflow.broadcast_mul"(%[[EXP]], %[[TOTAL]])
// CHECK: %[[R:.*]] = "oneflow.broadcast_sub"(%[[HIT]], %[[MOVED]])
// CHECK: return %[[R]]
func.func @"log-softmax-grad-of-one-class"(%p: tensor<5x4xf32>, %dy: tensor<5xf32>, %t: tensor<5xi64>) -> tensor<5x4xf32> {
  %0 = "oneflow.nll_grad"(%dy, %p, %t) {ignore_index = 2 : i64} : (tensor<5xf32>, tensor<5x4xf32>, tensor<5xi64>) -> tensor<5x4xf32>
  %1 = "oneflow.log_softmax_grad"(%p, %0) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  return %1 : tensor<5x4xf32>
}

// CHECK-LABEL: func.func @"constant-folding"
// CHECK-NEXT: %[[R:.*]] = arith.constant dense<[1.000000e+00, 0.000000e+00]> : tensor<2xf32>
// CHECK-NEXT: return %[[R]]
func.func @"constant-folding"() -> tensor<2xf32> {
  %0 = arith.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %1 = "oneflow.relu"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
