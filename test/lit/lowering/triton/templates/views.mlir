// RUN: oneflow-opt %s --oneflow-outline-templates | FileCheck %s
// RUN: oneflow-opt %s --oneflow-to-triton | FileCheck %s --check-prefix=PLAN

// Heads are views of one product: kernels read the views, write operands of the next product, and transpose nothing.
// CHECK: func.func private @oneflow_attention_grad_2
// CHECK-SAME: \22views\22: {\22dy\22: {{\[\[}}2, 4, 128, 64], [32768, 64, 256, 1], 0],
// CHECK-SAME: \22dquery\22: {{\[\[}}2, 4, 128, 64], [32768, 64, 256, 1], 0]}
// CHECK: func.func private @oneflow_attention_0
// CHECK-SAME: (%arg0: tensor<2x128x512xbf16>, %arg1: tensor<2x128x512xbf16>, %arg2: tensor<2x128x512xbf16>, %arg3: tensor<2x128x4x64xbf16>, %arg4: tensor<2x4x128xf32>)
// CHECK-SAME: \22views\22: {\22query\22: {{\[\[}}2, 4, 128, 64], [65536, 64, 512, 1], 0],
// CHECK-SAME: \22key\22: {{\[\[}}2, 2, 128, 64], [65536, 64, 512, 1], 256],
// CHECK-SAME: \22value\22: {{\[\[}}2, 2, 128, 64], [65536, 64, 512, 1], 384],
// CHECK-SAME: \22out\22: {{\[\[}}2, 4, 128, 64], [32768, 64, 256, 1], 0]}
// CHECK-LABEL: func.func @main
// CHECK-NOT: "oneflow.narrow"
// CHECK: %[[OUT:.*]]:2 = call @oneflow_attention_0(%arg0, %arg0, %arg0,
// CHECK-NEXT: %[[SEEN:.*]] = "oneflow.transpose"(%[[OUT]]#0)
// CHECK-NEXT: "oneflow.reshape"(%[[OUT]]#0) {shape = array<i64: 2, 128, 256>}
// CHECK: "oneflow.cast"(%[[SEEN]])
// CHECK: call @oneflow_attention_grad_1(%arg1, %arg0, %arg0, %arg0,
// CHECK: call @oneflow_attention_grad_2(%arg1, %arg0, %arg0, %arg0,
// CHECK-NOT: "oneflow.transpose"

// PLAN-NOT: # oneflow.transpose
// PLAN: oneflow.plan = "def main(run, in0, in1)
// PLAN-SAME: run.launch(\22oneflow_attention_0\22, in0, in0, in0,
// PLAN-SAME: run.launch(\22main_kernel_0\22, in1,
// PLAN-SAME: run.launch(\22oneflow_attention_grad_1\22, in1, in0, in0, in0,
// PLAN-SAME: run.launch(\22oneflow_attention_grad_2\22, in1, in0, in0, in0,
func.func @main(%x: tensor<2x128x512xbf16>, %dout: tensor<2x128x256xbf16>) -> (tensor<2x128x256xbf16>, tensor<2x128x256xbf16>, tensor<2x128x128xbf16>, tensor<2x128x128xbf16>) {
  %0 = "oneflow.narrow"(%x) {dim = 2 : i64, length = 256 : i64} : (tensor<2x128x512xbf16>) -> tensor<2x128x256xbf16>
  %1 = "oneflow.narrow"(%x) {dim = 2 : i64, start = 256 : i64, length = 128 : i64} : (tensor<2x128x512xbf16>) -> tensor<2x128x128xbf16>
  %2 = "oneflow.narrow"(%x) {dim = 2 : i64, start = 384 : i64, length = 128 : i64} : (tensor<2x128x512xbf16>) -> tensor<2x128x128xbf16>
  %3 = "oneflow.reshape"(%0) {shape = [2, 128, 4, 64]} : (tensor<2x128x256xbf16>) -> tensor<2x128x4x64xbf16>
  %4 = "oneflow.reshape"(%1) {shape = [2, 128, 2, 64]} : (tensor<2x128x128xbf16>) -> tensor<2x128x2x64xbf16>
  %5 = "oneflow.reshape"(%2) {shape = [2, 128, 2, 64]} : (tensor<2x128x128xbf16>) -> tensor<2x128x2x64xbf16>
  %6 = "oneflow.transpose"(%3) {perm = [0, 2, 1, 3]} : (tensor<2x128x4x64xbf16>) -> tensor<2x4x128x64xbf16>
  %7 = "oneflow.transpose"(%4) {perm = [0, 2, 1, 3]} : (tensor<2x128x2x64xbf16>) -> tensor<2x2x128x64xbf16>
  %8 = "oneflow.transpose"(%5) {perm = [0, 2, 1, 3]} : (tensor<2x128x2x64xbf16>) -> tensor<2x2x128x64xbf16>
  %9, %10 = "oneflow.attention"(%6, %7, %8) {scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x4x128x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>)
  %11 = "oneflow.transpose"(%9) {perm = [0, 2, 1, 3]} : (tensor<2x4x128x64xbf16>) -> tensor<2x128x4x64xbf16>
  %12 = "oneflow.reshape"(%11) {shape = [2, 128, 256]} : (tensor<2x128x4x64xbf16>) -> tensor<2x128x256xbf16>
  %13 = "oneflow.reshape"(%dout) {shape = [2, 128, 4, 64]} : (tensor<2x128x256xbf16>) -> tensor<2x128x4x64xbf16>
  %14 = "oneflow.transpose"(%13) {perm = [0, 2, 1, 3]} : (tensor<2x128x4x64xbf16>) -> tensor<2x4x128x64xbf16>
  %15 = "oneflow.cast"(%14) {dtype = f32} : (tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xf32>
  %16 = "oneflow.cast"(%9) {dtype = f32} : (tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xf32>
  %17 = "oneflow.broadcast_mul"(%15, %16) : (tensor<2x4x128x64xf32>, tensor<2x4x128x64xf32>) -> tensor<2x4x128x64xf32>
  %18 = "oneflow.reduce_sum"(%17) {axis = [3]} : (tensor<2x4x128x64xf32>) -> tensor<2x4x128xf32>
  %19, %20, %21 = "oneflow.attention_grad"(%14, %6, %7, %8, %10, %18) {scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 1>} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x4x128xf32>, tensor<2x4x128xf32>) -> (tensor<2x4x128x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>)
  %22 = "oneflow.transpose"(%19) {perm = [0, 2, 1, 3]} : (tensor<2x4x128x64xbf16>) -> tensor<2x128x4x64xbf16>
  %23 = "oneflow.transpose"(%20) {perm = [0, 2, 1, 3]} : (tensor<2x2x128x64xbf16>) -> tensor<2x128x2x64xbf16>
  %24 = "oneflow.transpose"(%21) {perm = [0, 2, 1, 3]} : (tensor<2x2x128x64xbf16>) -> tensor<2x128x2x64xbf16>
  %25 = "oneflow.reshape"(%22) {shape = [2, 128, 256]} : (tensor<2x128x4x64xbf16>) -> tensor<2x128x256xbf16>
  %26 = "oneflow.reshape"(%23) {shape = [2, 128, 128]} : (tensor<2x128x2x64xbf16>) -> tensor<2x128x128xbf16>
  %27 = "oneflow.reshape"(%24) {shape = [2, 128, 128]} : (tensor<2x128x2x64xbf16>) -> tensor<2x128x128xbf16>
  return %12, %25, %26, %27 : tensor<2x128x256xbf16>, tensor<2x128x256xbf16>, tensor<2x128x128xbf16>, tensor<2x128x128xbf16>
}

// The gradient of a bias is a sum of kernel results: the rows of the bias are not read again.
// CHECK-LABEL: func.func @biased
// CHECK: %[[MADE:.*]]:3 = call @oneflow_attention_grad_{{.*}} -> (tensor<2x128x4x64xbf16>, tensor<2x128x4x64xbf16>, tensor<4x256xf32>)
// CHECK: %[[SUM:.*]] = "oneflow.reduce_sum"(%[[MADE]]#2) {axis = array<i32: 0>} : (tensor<4x256xf32>) -> tensor<256xf32>
// CHECK: "oneflow.cast"(%[[SUM]]) {dtype = bf16} : (tensor<256xf32>) -> tensor<256xbf16>
func.func @biased(%q: tensor<2x4x128x64xbf16>, %s: tensor<2x4x128xf32>) -> (tensor<2x128x256xbf16>, tensor<256xbf16>, tensor<2x128x4x64xbf16>) {
  %0, %1, %2 = "oneflow.attention_grad"(%q, %q, %q, %q, %s, %s) {scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 1>} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>, tensor<2x4x128xf32>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>)
  %3 = "oneflow.transpose"(%1) {perm = [0, 2, 1, 3]} : (tensor<2x4x128x64xbf16>) -> tensor<2x128x4x64xbf16>
  %4 = "oneflow.reshape"(%3) {shape = [2, 128, 256]} : (tensor<2x128x4x64xbf16>) -> tensor<2x128x256xbf16>
  %5 = "oneflow.reduce_sum"(%4) {axis = [0, 1]} : (tensor<2x128x256xbf16>) -> tensor<256xbf16>
  %6 = "oneflow.transpose"(%2) {perm = [0, 2, 1, 3]} : (tensor<2x4x128x64xbf16>) -> tensor<2x128x4x64xbf16>
  return %4, %5, %6 : tensor<2x128x256xbf16>, tensor<256xbf16>, tensor<2x128x4x64xbf16>
}

// A tensor received from other ranks is not a view of a local tensor, and a sum over ranks is not a view of a shard.
// CHECK-LABEL: func.func @gathered
// CHECK: %[[GATHERED:.*]] = "oneflow.ccl_all_gather"(%arg0)
// CHECK: %[[SUM:.*]] = "oneflow.ccl_all_reduce"(%arg1)
// CHECK: call @oneflow_attention_{{[0-9]+}}(%[[GATHERED]], %[[SUM]], %[[SUM]],
func.func @gathered(%x: tensor<1x4x128x64xbf16>, %k: tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16> {
  %0 = "oneflow.ccl_all_gather"(%x) {axis = 0 : si64, sizes = [1, 1], mesh_axes = [0 : si32], members = 2 : si64} : (tensor<1x4x128x64xbf16>) -> tensor<2x4x128x64xbf16>
  %1 = "oneflow.ccl_all_reduce"(%k) {mesh_axes = [0 : si32], members = 2 : si64} : (tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16>
  %2, %3 = "oneflow.attention"(%0, %1, %1) {scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>)
  return %2 : tensor<2x4x128x64xbf16>
}
