// RUN: oneflow-opt %s --stage gpu-kernels | FileCheck %s

// The epilogue of a product is fused if neighbours of the result are neighbours in the epilogue. A channels-first
// filter has neighbours from all over a tile: a separate kernel updates the filter, and reads the complete result
// of the product.
// CHECK: func.func private @main_kernel_1({{.*}}tensor<64x3x3x64xf32>) -> tensor<64x3x3x64xf32> attributes {oneflow.kernel = "contraction"}
// CHECK: func.func private @main_kernel_2(%arg0: tensor<64x3x3x64xf32>, %arg1: tensor<64x64x3x3xf32>, {{.*}} attributes {oneflow.kernel = "pointwise"}
func.func @main(%dy: tensor<2x8x8x64xf16>, %x: tensor<2x8x8x64xf16>, %w: tensor<64x64x3x3xf32>) -> tensor<64x64x3x3xf32> {
  %0 = "oneflow.conv_filter_grad"(%dy, %x) {num_spatial_dims = 2 : si32, padding_before = [1 : si32, 1 : si32], data_format = "channels_last", kernel_size = [3 : si32, 3 : si32], strides = [1 : si32, 1 : si32], dilation_rate = [1 : si32, 1 : si32], groups = 1 : si32} : (tensor<2x8x8x64xf16>, tensor<2x8x8x64xf16>) -> tensor<64x3x3x64xf16>
  %1 = "oneflow.transpose"(%0) {perm = [0 : si32, 3 : si32, 1 : si32, 2 : si32]} : (tensor<64x3x3x64xf16>) -> tensor<64x64x3x3xf16>
  %2 = "oneflow.cast"(%1) {dtype = f32} : (tensor<64x64x3x3xf16>) -> tensor<64x64x3x3xf32>
  %3 = "oneflow.add_n"(%2, %w) : (tensor<64x64x3x3xf32>, tensor<64x64x3x3xf32>) -> tensor<64x64x3x3xf32>
  return %3 : tensor<64x64x3x3xf32>
}
