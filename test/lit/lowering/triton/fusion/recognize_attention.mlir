// RUN: oneflow-opt %s --oneflow-recognize-attention --split-input-file | FileCheck %s

// A mask after the diagonal becomes `causal`, a scaling becomes `scale`; the transposes are removed.
// CHECK-LABEL: func.func @causal
// CHECK-NEXT: "oneflow.attention"(%arg0, %arg1, %arg2) {causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 2.500000e-01 : f64}
// CHECK-NEXT: return
func.func @causal(%q: tensor<2x3x32x16xf16>, %k: tensor<2x3x32x16xf16>, %v: tensor<2x3x32x16xf16>) -> tensor<2x3x32x16xf16> {
  %t = "oneflow.transpose"(%k) {perm = array<i32: 0, 1, 3, 2>} : (tensor<2x3x32x16xf16>) -> tensor<2x3x16x32xf16>
  %s = "oneflow.batch_matmul"(%q, %t) : (tensor<2x3x32x16xf16>, tensor<2x3x16x32xf16>) -> tensor<2x3x32x32xf16>
  %c = "oneflow.scalar_div"(%s) {has_float_operand = true, float_operand = 4.0 : f64} : (tensor<2x3x32x32xf16>) -> tensor<2x3x32x32xf16>
  %one = "oneflow.constant"() {dtype = f32, floating_value = 1.0 : f64, is_floating_value = true, shape = array<i64: 32, 32>} : () -> tensor<32x32xf32>
  %l = "oneflow.triu"(%one) {diagonal = 1 : si64} : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %b = "oneflow.cast"(%l) {dtype = i1} : (tensor<32x32xf32>) -> tensor<32x32xi1>
  %h = "oneflow.masked_fill"(%c, %b) {has_float_operand = true, float_operand = 0xFFF0000000000000 : f64} : (tensor<2x3x32x32xf16>, tensor<32x32xi1>) -> tensor<2x3x32x32xf16>
  %w = "oneflow.softmax"(%h) : (tensor<2x3x32x32xf16>) -> tensor<2x3x32x32xf16>
  %y = "oneflow.batch_matmul"(%w, %v) : (tensor<2x3x32x32xf16>, tensor<2x3x32x16xf16>) -> tensor<2x3x32x16xf16>
  return %y : tensor<2x3x32x16xf16>
}

// -----

// An unknown mask is an operand; a softmax in f32 is recognized as well. Tensors of rank 3 get a fourth axis, also where sizes
// are dynamic.
// CHECK-LABEL: func.func @padded
// CHECK: %[[M:.*]] = "oneflow.where"(%arg3, %{{.*}}, %{{.*}}) : (tensor<6x1x?xi1>, tensor<f16>, tensor<f16>) -> tensor<6x1x?xf16>
// CHECK: %[[R:.*]] = "oneflow.expand_dims"(%[[M]]) {axis = 1 : i32} : (tensor<6x1x?xf16>) -> tensor<6x1x1x?xf16>
// CHECK: "oneflow.attention"(%{{.*}}, %{{.*}}, %{{.*}}, %[[R]])
// CHECK-NOT: oneflow.softmax
func.func @padded(%q: tensor<6x?x16xf16>, %k: tensor<6x?x16xf16>, %v: tensor<6x?x16xf16>, %m: tensor<6x1x?xi1>) -> tensor<6x?x16xf16> {
  %inf = "oneflow.constant"() {dtype = f32, shape = [], floating_value = 0xFFF0000000000000 : f64, is_floating_value = true} : () -> tensor<f32>
  %s = "oneflow.batch_matmul"(%q, %k) {transpose_b = true} : (tensor<6x?x16xf16>, tensor<6x?x16xf16>) -> tensor<6x?x?xf16>
  %f = "oneflow.cast"(%s) {dtype = f32} : (tensor<6x?x?xf16>) -> tensor<6x?x?xf32>
  %h = "oneflow.where"(%m, %f, %inf) : (tensor<6x1x?xi1>, tensor<6x?x?xf32>, tensor<f32>) -> tensor<6x?x?xf32>
  %w = "oneflow.softmax"(%h) : (tensor<6x?x?xf32>) -> tensor<6x?x?xf32>
  %g = "oneflow.cast"(%w) {dtype = f16} : (tensor<6x?x?xf32>) -> tensor<6x?x?xf16>
  %y = "oneflow.batch_matmul"(%g, %v) : (tensor<6x?x?xf16>, tensor<6x?x16xf16>) -> tensor<6x?x16xf16>
  return %y : tensor<6x?x16xf16>
}

// -----

// Weights that are a result have to be in memory.
// CHECK-LABEL: func.func @kept
// CHECK-NOT: oneflow.attention
func.func @kept(%q: tensor<32x16xf16>) -> (tensor<32x16xf16>, tensor<32x32xf16>) {
  %s = "oneflow.matmul"(%q, %q) {transpose_b = true} : (tensor<32x16xf16>, tensor<32x16xf16>) -> tensor<32x32xf16>
  %w = "oneflow.softmax"(%s) : (tensor<32x32xf16>) -> tensor<32x32xf16>
  %y = "oneflow.matmul"(%w, %q) : (tensor<32x32xf16>, tensor<32x16xf16>) -> tensor<32x16xf16>
  return %y, %w : tensor<32x16xf16>, tensor<32x32xf16>
}

// -----

// A finite number hides less than -inf does: a row of nothing else has weights.
// CHECK-LABEL: func.func @finite
// CHECK-NOT: oneflow.attention
func.func @finite(%q: tensor<32x16xf16>, %m: tensor<32x32xi1>) -> tensor<32x16xf16> {
  %s = "oneflow.matmul"(%q, %q) {transpose_b = true} : (tensor<32x16xf16>, tensor<32x16xf16>) -> tensor<32x32xf16>
  %h = "oneflow.masked_fill"(%s, %m) {has_float_operand = true, float_operand = -6.5e4 : f64} : (tensor<32x32xf16>, tensor<32x32xi1>) -> tensor<32x32xf16>
  %w = "oneflow.softmax"(%h) : (tensor<32x32xf16>) -> tensor<32x32xf16>
  %y = "oneflow.matmul"(%w, %q) : (tensor<32x32xf16>, tensor<32x16xf16>) -> tensor<32x16xf16>
  return %y : tensor<32x16xf16>
}

// -----

// No kernels take f32.
// CHECK-LABEL: func.func @single
// CHECK-NOT: oneflow.attention
func.func @single(%q: tensor<32x16xf32>) -> tensor<32x16xf32> {
  %s = "oneflow.matmul"(%q, %q) {transpose_b = true} : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x32xf32>
  %w = "oneflow.softmax"(%s) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %y = "oneflow.matmul"(%w, %q) : (tensor<32x32xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  return %y : tensor<32x16xf32>
}

// -----

// The backward part: every gradient, from one operator.
// CHECK-LABEL: func.func @gradients
// CHECK: %[[A:.*]]:2 = "oneflow.attention"(%arg0, %arg1, %arg2) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 5.000000e-01 : f64}
// CHECK: %[[D:.*]] = "oneflow.reduce_sum"
// CHECK: %[[G:.*]]:3 = "oneflow.attention_grad"(%arg3, %arg0, %arg1, %arg2, %[[A]]#1, %[[D]]) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 1>, scale = 5.000000e-01 : f64}
// CHECK-NOT: oneflow.softmax_grad
// CHECK: return %[[A]]#0, %[[G]]#0, %[[G]]#1, %[[G]]#2
func.func @gradients(%q: tensor<1x2x32x16xbf16>, %k: tensor<1x2x32x16xbf16>, %v: tensor<1x2x32x16xbf16>, %dy: tensor<1x2x32x16xbf16>) -> (tensor<1x2x32x16xbf16>, tensor<1x2x32x16xbf16>, tensor<1x2x32x16xbf16>, tensor<1x2x32x16xbf16>) {
  %s = "oneflow.batch_matmul"(%q, %k) {transpose_b = true, alpha = 0.5 : f64} : (tensor<1x2x32x16xbf16>, tensor<1x2x32x16xbf16>) -> tensor<1x2x32x32xbf16>
  %w = "oneflow.softmax"(%s) : (tensor<1x2x32x32xbf16>) -> tensor<1x2x32x32xbf16>
  %y = "oneflow.batch_matmul"(%w, %v) : (tensor<1x2x32x32xbf16>, tensor<1x2x32x16xbf16>) -> tensor<1x2x32x16xbf16>
  %dw = "oneflow.batch_matmul"(%dy, %v) {transpose_b = true} : (tensor<1x2x32x16xbf16>, tensor<1x2x32x16xbf16>) -> tensor<1x2x32x32xbf16>
  %dv = "oneflow.batch_matmul"(%w, %dy) {transpose_a = true} : (tensor<1x2x32x32xbf16>, tensor<1x2x32x16xbf16>) -> tensor<1x2x32x16xbf16>
  %ds = "oneflow.softmax_grad"(%w, %dw) : (tensor<1x2x32x32xbf16>, tensor<1x2x32x32xbf16>) -> tensor<1x2x32x32xbf16>
  %dq = "oneflow.batch_matmul"(%ds, %k) {alpha = 0.5 : f64} : (tensor<1x2x32x32xbf16>, tensor<1x2x32x16xbf16>) -> tensor<1x2x32x16xbf16>
  %dt = "oneflow.batch_matmul"(%q, %ds) {transpose_a = true, alpha = 0.5 : f64} : (tensor<1x2x32x16xbf16>, tensor<1x2x32x32xbf16>) -> tensor<1x2x16x32xbf16>
  %dk = "oneflow.transpose"(%dt) {perm = array<i32: 0, 1, 3, 2>} : (tensor<1x2x16x32xbf16>) -> tensor<1x2x32x16xbf16>
  return %y, %dq, %dk, %dv : tensor<1x2x32x16xbf16>, tensor<1x2x32x16xbf16>, tensor<1x2x32x16xbf16>, tensor<1x2x32x16xbf16>
}

// -----

// A mask whose gradient is wanted needs the gradient by the scores.
// CHECK-LABEL: func.func @bias
// CHECK-NOT: oneflow.attention
func.func @bias(%q: tensor<32x16xf16>, %m: tensor<32x32xf16>, %dy: tensor<32x16xf16>) -> (tensor<32x16xf16>, tensor<32x32xf16>) {
  %s = "oneflow.matmul"(%q, %q) {transpose_b = true} : (tensor<32x16xf16>, tensor<32x16xf16>) -> tensor<32x32xf16>
  %h = "oneflow.broadcast_add"(%s, %m) : (tensor<32x32xf16>, tensor<32x32xf16>) -> tensor<32x32xf16>
  %w = "oneflow.softmax"(%h) : (tensor<32x32xf16>) -> tensor<32x32xf16>
  %y = "oneflow.matmul"(%w, %q) : (tensor<32x32xf16>, tensor<32x16xf16>) -> tensor<32x16xf16>
  %dw = "oneflow.matmul"(%dy, %q) {transpose_b = true} : (tensor<32x16xf16>, tensor<32x16xf16>) -> tensor<32x32xf16>
  %ds = "oneflow.softmax_grad"(%w, %dw) : (tensor<32x32xf16>, tensor<32x32xf16>) -> tensor<32x32xf16>
  return %y, %ds : tensor<32x16xf16>, tensor<32x32xf16>
}

// -----

// The dropout of either operator becomes the dropout of the weights, with the same random numbers.
// CHECK-LABEL: func.func @dropout
// CHECK: "oneflow.attention"(%arg0, %arg0, %arg0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, rate = 2.500000e-01 : f32, seed = 7 : i64}
// CHECK-LABEL: func.func @mask
// CHECK: "oneflow.attention"(%arg0, %arg0, %arg0, %arg1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>, rate = 5.000000e-01 : f32}
// CHECK-LABEL: func.func @other
// CHECK-NOT: oneflow.attention
func.func @dropout(%q: tensor<1x1x32x16xf16>) -> tensor<1x1x32x16xf16> {
  %s = "oneflow.batch_matmul"(%q, %q) {transpose_b = true} : (tensor<1x1x32x16xf16>, tensor<1x1x32x16xf16>) -> tensor<1x1x32x32xf16>
  %w = "oneflow.softmax"(%s) : (tensor<1x1x32x32xf16>) -> tensor<1x1x32x32xf16>
  %d, %m = "oneflow.dropout"(%w) {rate = 0.25 : f32, seed = 7 : si64} : (tensor<1x1x32x32xf16>) -> (tensor<1x1x32x32xf16>, tensor<1x1x32x32xi1>)
  %y = "oneflow.batch_matmul"(%d, %q) : (tensor<1x1x32x32xf16>, tensor<1x1x32x16xf16>) -> tensor<1x1x32x16xf16>
  return %y : tensor<1x1x32x16xf16>
}
func.func @mask(%q: tensor<1x1x32x16xf16>, %seed: tensor<i64>) -> tensor<1x1x32x16xf16> {
  %s = "oneflow.batch_matmul"(%q, %q) {transpose_b = true} : (tensor<1x1x32x16xf16>, tensor<1x1x32x16xf16>) -> tensor<1x1x32x32xf16>
  %w = "oneflow.softmax"(%s) : (tensor<1x1x32x32xf16>) -> tensor<1x1x32x32xf16>
  %m = "oneflow.random_mask_like"(%w, %seed) {rate = 0.5 : f32} : (tensor<1x1x32x32xf16>, tensor<i64>) -> tensor<1x1x32x32xi1>
  %d = "oneflow.dropout_grad"(%w, %m) {scale = 2.0 : f32} : (tensor<1x1x32x32xf16>, tensor<1x1x32x32xi1>) -> tensor<1x1x32x32xf16>
  %y = "oneflow.batch_matmul"(%d, %q) : (tensor<1x1x32x32xf16>, tensor<1x1x32x16xf16>) -> tensor<1x1x32x16xf16>
  return %y : tensor<1x1x32x16xf16>
}
func.func @other(%q: tensor<1x1x32x16xf16>) -> tensor<1x1x32x16xf16> {
  %s = "oneflow.batch_matmul"(%q, %q) {transpose_b = true} : (tensor<1x1x32x16xf16>, tensor<1x1x32x16xf16>) -> tensor<1x1x32x32xf16>
  %w = "oneflow.softmax"(%s) : (tensor<1x1x32x32xf16>) -> tensor<1x1x32x32xf16>
  %m = "oneflow.random_mask_like"(%w) {rate = 0.5 : f32} : (tensor<1x1x32x32xf16>) -> tensor<1x1x32x32xi1>
  %d = "oneflow.dropout_grad"(%w, %m) {scale = 1.0 : f32} : (tensor<1x1x32x32xf16>, tensor<1x1x32x32xi1>) -> tensor<1x1x32x32xf16>
  %y = "oneflow.batch_matmul"(%d, %q) : (tensor<1x1x32x32xf16>, tensor<1x1x32x16xf16>) -> tensor<1x1x32x16xf16>
  return %y : tensor<1x1x32x16xf16>
}

// -----

// Grouped-query attention reads keys and values before the repetition.
// CHECK-LABEL: func.func @shared
// CHECK-NEXT: "oneflow.attention"(%arg0, %arg1, %arg2)
// CHECK-NEXT: return
func.func @shared(%q: tensor<2x6x32x16xf16>, %k: tensor<2x2x32x16xf16>, %v: tensor<2x2x32x16xf16>) -> tensor<2x6x32x16xf16> {
  %k1 = "oneflow.expand_dims"(%k) {axis = 2 : si32} : (tensor<2x2x32x16xf16>) -> tensor<2x2x1x32x16xf16>
  %k2 = "oneflow.expand"(%k1) {expand_shape = array<i64: 2, 2, 3, 32, 16>} : (tensor<2x2x1x32x16xf16>) -> tensor<2x2x3x32x16xf16>
  %k3 = "oneflow.reshape"(%k2) {shape = array<i64: 2, 6, 32, 16>} : (tensor<2x2x3x32x16xf16>) -> tensor<2x6x32x16xf16>
  %v1 = "oneflow.expand_dims"(%v) {axis = 2 : si32} : (tensor<2x2x32x16xf16>) -> tensor<2x2x1x32x16xf16>
  %v2 = "oneflow.expand"(%v1) {expand_shape = array<i64: 2, 2, 3, 32, 16>} : (tensor<2x2x1x32x16xf16>) -> tensor<2x2x3x32x16xf16>
  %v3 = "oneflow.reshape"(%v2) {shape = array<i64: 2, 6, 32, 16>} : (tensor<2x2x3x32x16xf16>) -> tensor<2x6x32x16xf16>
  %s = "oneflow.batch_matmul"(%q, %k3) {transpose_b = true} : (tensor<2x6x32x16xf16>, tensor<2x6x32x16xf16>) -> tensor<2x6x32x32xf16>
  %w = "oneflow.softmax"(%s) : (tensor<2x6x32x32xf16>) -> tensor<2x6x32x32xf16>
  %y = "oneflow.batch_matmul"(%w, %v3) : (tensor<2x6x32x32xf16>, tensor<2x6x32x16xf16>) -> tensor<2x6x32x16xf16>
  return %y : tensor<2x6x32x16xf16>
}

// -----

// After the diagonal a large negative number masks like -inf, since the first key of every row is visible.
// CHECK-LABEL: func.func @finite_causal
// CHECK: "oneflow.attention"({{.*}}) {causal = true
// CHECK-NOT: oneflow.softmax
func.func @finite_causal(%q: tensor<32x16xbf16>) -> tensor<32x16xbf16> {
  %s = "oneflow.matmul"(%q, %q) {transpose_b = true} : (tensor<32x16xbf16>, tensor<32x16xbf16>) -> tensor<32x32xbf16>
  %h = "oneflow.tril"(%s) {floating_fill_value = -1.0e9 : f64, is_floating_fill_value = true} : (tensor<32x32xbf16>) -> tensor<32x32xbf16>
  %w = "oneflow.softmax"(%h) : (tensor<32x32xbf16>) -> tensor<32x32xbf16>
  %y = "oneflow.matmul"(%w, %q) : (tensor<32x32xbf16>, tensor<32x16xbf16>) -> tensor<32x16xbf16>
  return %y : tensor<32x16xbf16>
}
