// RUN: oneflow-opt %s --stage gpu-kernels | FileCheck %s

// Places of windows are spread over the image in 32 bits.
// CHECK: func.func private @main_kernel_0(%arg0: tensor<2x4x6x5xi64>, %arg1: tensor<2x4x6x5xi32>)
// CHECK: tensor<2x4x6x5xi32>, %arg1: tensor<2x4x16x14xi32>)
// CHECK-NOT: tensor<2x4x16x14xi64>
func.func @main(%x: tensor<2x4x12x10xbf16>, %i: tensor<2x4x6x5xi64>, %dy: tensor<2x4x6x5xbf16>) -> tensor<2x4x12x10xbf16> {
  %0 = "oneflow.max_pool_2d_grad"(%x, %i, %dy) {padding = [1 : si32, 1 : si32], data_format = "channels_first", kernel_size = [3 : si32, 3 : si32], stride = [2 : si32, 2 : si32], dilation = [1 : si32, 1 : si32]} : (tensor<2x4x12x10xbf16>, tensor<2x4x6x5xi64>, tensor<2x4x6x5xbf16>) -> tensor<2x4x12x10xbf16>
  return %0 : tensor<2x4x12x10xbf16>
}
