// RUN: oneflow-opt %s --split-input-file --stage triton | FileCheck %s

// Few rows: a kernel reads the packed weight, whose bytes have two numbers, and dequantizes it in registers.
// CHECK-LABEL: func private @oneflow_fused_linear_with_groupwise_quantized_weight_0
// CHECK-SAME: numbers = packed.to(tl.uint8, bitcast=True).to(tl.int32)
// CHECK-SAME: scale = tl.load(p2 + columns * 2 + start // 128).to(tl.float32)
// CHECK-SAME: even, odd = tl.split(tl.reshape(x, (16, 64, 2)))
// CHECK-SAME: tl.dot((((numbers >> 4) - 7).to(tl.float32) * scale).to(tl.bfloat16), even.T, sums)
// CHECK-SAME: tl.dot((((numbers & 15) - 7).to(tl.float32) * scale).to(tl.bfloat16), odd.T, sums)
// CHECK: func @few
func.func @few(%x: tensor<4x256xbf16>, %w: tensor<512x128xui8>, %s: tensor<512x2xbf16>) -> tensor<4x512xbf16> {
  %0 = "oneflow.fused_linear_with_groupwise_quantized_weight"(%x, %w, %s) {num_bits = 4 : i32, group_dim = 1 : i64, group_size = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<4x256xbf16>, tensor<512x128xui8>, tensor<512x2xbf16>) -> tensor<4x512xbf16>
  return %0 : tensor<4x512xbf16>
}

// -----

// Many rows: the weight is dequantized once, and the product is any other product.
// CHECK-LABEL: func private @many_kernel_0
// CHECK-SAME: oneflow.kernel = "pointwise"
// CHECK: func private @many_kernel_1
// CHECK-SAME: oneflow.kernel = "contraction"
func.func @many(%x: tensor<512x256xbf16>, %w: tensor<512x128xui8>, %s: tensor<512x2xbf16>) -> tensor<512x512xbf16> {
  %0 = "oneflow.fused_linear_with_groupwise_quantized_weight"(%x, %w, %s) {num_bits = 4 : i32, group_dim = 1 : i64, group_size = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<512x256xbf16>, tensor<512x128xui8>, tensor<512x2xbf16>) -> tensor<512x512xbf16>
  return %0 : tensor<512x512xbf16>
}
