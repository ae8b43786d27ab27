// RUN: oneflow-opt %s --stage triton | FileCheck %s

// An element of an image looks at the windows that it can be in, whose positions are adjacent in 32 bits: nothing
// is spread over the image. Windows are looked at one after the other by threads that read vectors.
// CHECK: func.func private @main_kernel_0_1(tensor<2x6x5x4xi64>, tensor<2x6x5x4xbf16>, tensor<2x8x7x4xi32>, tensor<2x8x7x4xbf16>)
// CHECK-NEXT: func.func private @main_kernel_2(tensor<2x8x7x4xi32>, tensor<2x8x7x4xbf16>, tensor<2x12x10x4xbf16>)
// CHECK-SAME: for r_at in tl.range(0, 4, loop_unroll_factor=4):
// CHECK-SAME: tl.load(p0 + i3 + i6 * 224 + ((i5 + 1) // 2 - i9 + 1) * 28 + ((i4 + 1) // 2 - i8 + 1) * 4
// CHECK-SAME: tl.load(p1 + i3 + i6 * 224 + ((i5 + 1) // 2 - i9 + 1) * 28 + ((i4 + 1) // 2 - i8 + 1) * 4
// CHECK-NEXT: func.func @main
func.func @main(%x: tensor<2x12x10x4xbf16>, %i: tensor<2x6x5x4xi64>, %dy: tensor<2x6x5x4xbf16>) -> tensor<2x12x10x4xbf16> {
  %0 = "oneflow.max_pool_2d_grad"(%x, %i, %dy) {padding = [1 : si32, 1 : si32], data_format = "channels_last", kernel_size = [3 : si32, 3 : si32], stride = [2 : si32, 2 : si32], dilation = [1 : si32, 1 : si32]} : (tensor<2x12x10x4xbf16>, tensor<2x6x5x4xi64>, tensor<2x6x5x4xbf16>) -> tensor<2x12x10x4xbf16>
  return %0 : tensor<2x12x10x4xbf16>
}
