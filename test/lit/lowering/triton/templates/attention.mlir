// RUN: oneflow-opt %s --oneflow-outline-templates | FileCheck %s
// RUN: oneflow-opt %s --oneflow-to-triton --dump-kernels %t -o %t.mlir
// RUN: FileCheck %s --check-prefix=KERNEL --input-file %t/oneflow_attention_0.py

// Attention of 16-bit floats is one kernel, which keeps no weights in memory. Attention of f32 is decomposed.
// CHECK: func.func private @oneflow_attention_0({{.*}}) -> (tensor<2x4x256x64xbf16>, tensor<2x4x256xf32>) attributes {oneflow.kernel = "template", oneflow.template = {{.*}}attention
// CHECK-LABEL: func.func @main
// CHECK: call @oneflow_attention_0(%arg0, %arg1, %arg2,
// CHECK-LABEL: func.func @single
// CHECK: "oneflow.attention"

// KERNEL: # oneflow.attention
// KERNEL: block_key = tl.make_tensor_descriptor(p1, [2, 2, 256, 64], [32768, 16384, 64, 1], [1, 1, 64, 64])
// KERNEL: for block_start in range(0, tl.minimum(block_index * 64 // 64 * 64, 256), 64):
// KERNEL: weights = tl.exp2(scores - base[:, None])
// KERNEL: acc = tl.dot(weights.to(tl.bfloat16), value, acc * rescale[:, None])
func.func @main(%q: tensor<2x4x256x64xbf16>, %k: tensor<2x2x256x64xbf16>, %v: tensor<2x2x256x64xbf16>) -> tensor<2x4x256x64xbf16> {
  %0, %1 = "oneflow.attention"(%q, %k, %v) {causal = true, scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x4x256x64xbf16>, tensor<2x2x256x64xbf16>, tensor<2x2x256x64xbf16>) -> (tensor<2x4x256x64xbf16>, tensor<2x4x256xf32>)
  return %0 : tensor<2x4x256x64xbf16>
}

func.func @single(%q: tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32> {
  %0, %1 = "oneflow.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x1x8x8xf32>, tensor<1x1x8xf32>)
  return %0 : tensor<1x1x8x8xf32>
}
