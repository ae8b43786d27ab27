// RUN: oneflow-opt %s --split-input-file --oneflow-form-kernels | FileCheck %s

// A softmax is one kernel: the reductions share the row loop, though only the input is common to the reductions.

// CHECK-LABEL: func.func private @softmax_kernel_0(
// CHECK-SAME: attributes {oneflow.kernel = "row"}
// CHECK: arith.maximumf
// CHECK: arith.subf
// CHECK-NEXT: math.exp
// CHECK: arith.addf
// CHECK: arith.divf
// CHECK-LABEL: func.func @softmax(
// CHECK: %[[E:.*]] = tensor.empty() : tensor<64x100xf32>
// CHECK: %[[R:.*]] = call @softmax_kernel_0(%arg0, %[[E]])
// CHECK-NOT: call
// CHECK: return %[[R]]
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @softmax(%x: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %ninf = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<64xf32>
  %f1 = linalg.fill ins(%ninf : f32) outs(%e1 : tensor<64xf32>) -> tensor<64xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x100xf32>) outs(%f1 : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.maximumf %b, %a : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %e2 = tensor.empty() : tensor<64x100xf32>
  %s = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<64x100xf32>, tensor<64xf32>) outs(%e2 : tensor<64x100xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %r = arith.subf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<64x100xf32>
  %e = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<64x100xf32>) outs(%e2 : tensor<64x100xf32>) {
  ^bb0(%a: f32, %c: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<64x100xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<64xf32>) -> tensor<64xf32>
  %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<64x100xf32>) outs(%f2 : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %b, %a fastmath<reassoc> : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %o = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%e, %t : tensor<64x100xf32>, tensor<64xf32>) outs(%e2 : tensor<64x100xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<64x100xf32>
  return %o : tensor<64x100xf32>
}

// -----

// The epilogue of a contraction is fused; producers are not, since a fused producer is recomputed for every column.

// CHECK-LABEL: func.func private @linear_kernel_0(
// CHECK-SAME: attributes {oneflow.kernel = "pointwise"}
// CHECK: math.tanh
// CHECK-LABEL: func.func private @linear_kernel_1(
// CHECK-SAME: attributes {oneflow.kernel = "contraction"}
// CHECK: arith.mulf
// CHECK: arith.maximumf
// CHECK-LABEL: func.func @linear(
// CHECK: call @linear_kernel_0
// CHECK: call @linear_kernel_1
// CHECK-NOT: call
// CHECK: return
#a = affine_map<(d0, d1, d2) -> (d0, d2)>
#b = affine_map<(d0, d1, d2) -> (d2, d1)>
#c = affine_map<(d0, d1, d2) -> (d0, d1)>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @linear(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<8x16xf32>
  %e1 = tensor.empty() : tensor<8x32xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e0 : tensor<8x16xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = math.tanh %p : f32
    linalg.yield %r : f32
  } -> tensor<8x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %m = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%t, %w : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %y = arith.mulf %p, %q : f32
    %r = arith.addf %s, %y fastmath<reassoc> : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %o = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<8x32xf32>) outs(%e1 : tensor<8x32xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = arith.maximumf %p, %zero : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %o : tensor<8x32xf32>
}

// -----

// Equal kernels share a function; a reshape that moves no element stays in the entry.

// CHECK-LABEL: func.func private @twice_kernel_0(
// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @twice(
// CHECK: %[[A:.*]] = call @twice_kernel_0(%arg0, %{{.*}})
// CHECK: %[[B:.*]] = call @twice_kernel_0(%arg1, %{{.*}})
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[B]]
// CHECK: return %[[A]], %[[C]]
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @twice(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<16xf32>) {
  %e = tensor.empty() : tensor<4x4xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<4x4xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<4x4xf32>
  %c = tensor.collapse_shape %b [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
  return %a, %c : tensor<4x4xf32>, tensor<16xf32>
}

// -----

// A kernel gets a name that no function of the program has.
// CHECK-LABEL: func.func private @negated_kernel_1(
// CHECK-SAME: attributes {oneflow.kernel = "pointwise"}
// CHECK-LABEL: func.func @negated(
// CHECK: call @negated_kernel_1(%arg0
// CHECK-LABEL: func.func @negated_kernel_0(
#id = affine_map<(d0) -> (d0)>
func.func @negated(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @negated_kernel_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// A check of positions has no results; it is a kernel.
// CHECK-LABEL: func.func private @checked_kernel_0(
// CHECK-SAME: oneflow.kernel = "pointwise"
// CHECK: func.call @oneflow_rt_check_index
// CHECK-LABEL: func.func @checked(
// CHECK: call @checked_kernel_0(%arg0) : (tensor<4xi64>) -> ()
func.func private @oneflow_rt_check_index(i64, i64, i32) -> i64
#id = affine_map<(d0) -> (d0)>
func.func @checked(%x: tensor<4xi64>) -> tensor<4xi64> {
  %size = arith.constant 3 : i64
  %number = arith.constant 0 : i32
  linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} ins(%x : tensor<4xi64>) {
  ^bb0(%a: i64):
    %0 = func.call @oneflow_rt_check_index(%a, %size, %number) : (i64, i64, i32) -> i64
    linalg.yield
  }
  return %x : tensor<4xi64>
}
