// RUN: oneflow-opt %s --stage gpu-kernels | FileCheck %s

// One read of the batch computes both sums, and no tensor of the size of the batch is f32.
// CHECK: func.func private @main_kernel_0(%arg0: tensor<1024x64x64xbf16>, %arg1: tensor<1024x64xf32>, %arg2: tensor<1024x64xf32>)
// CHECK-SAME: oneflow.kernel = "row"
// CHECK-COUNT-2: linalg.generic
// CHECK: func.func private @main_kernel_1(%arg0: tensor<1024x64xf32>, %arg1: tensor<1024x64xf32>,
// CHECK: func.func private @main_kernel_2(%arg0: tensor<65536x64xbf16>, %arg1: tensor<64xf32>,
// CHECK-SAME: tensor<65536x64xbf16>) -> tensor<65536x64xbf16>
// CHECK-LABEL: func.func @main(
// CHECK-NOT: tensor<65536x64xf32>
func.func @main(%x: tensor<65536x64xbf16>, %g: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<65536x64xbf16> {
  %0, %m, %i = "oneflow.normalization"(%x, %g, %b) {axis = 1 : si32, epsilon = 1.0e-5 : f32, training = true, operandSegmentSizes = array<i32: 1, 0, 0, 1, 1, 0>} : (tensor<65536x64xbf16>, tensor<64xf32>, tensor<64xf32>) -> (tensor<65536x64xbf16>, tensor<64xf32>, tensor<64xf32>)
  %1 = "oneflow.relu"(%0) : (tensor<65536x64xbf16>) -> tensor<65536x64xbf16>
  return %1 : tensor<65536x64xbf16>
}

// The backward part reads both tensors for the sums and once more for the gradient of x.
// CHECK: func.func private @back_kernel_0(%arg0: tensor<1024x64x64xbf16>, %arg1: tensor<1024x64x64xbf16>, {{.*}}) -> (tensor<1024x64xf32>, tensor<1024x64xf32>)
// CHECK: func.func private @back_kernel_2(%arg0: tensor<65536x64xbf16>, {{.*}}) -> tensor<65536x64xbf16>
// CHECK-LABEL: func.func @back(
// CHECK-NOT: tensor<65536x64xf32>
func.func @back(%x: tensor<65536x64xbf16>, %dy: tensor<65536x64xbf16>, %m: tensor<64xf32>, %i: tensor<64xf32>, %g: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<65536x64xbf16>) {
  %0:3 = "oneflow.normalization_grad"(%x, %dy, %m, %i, %g) {axis = 1 : si32} : (tensor<65536x64xbf16>, tensor<65536x64xbf16>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<65536x64xbf16>)
  return %0#0, %0#1, %0#2 : tensor<64xf32>, tensor<64xf32>, tensor<65536x64xbf16>
}

// The gradient of a strided convolution is rounded before the phases are interleaved.
// CHECK-LABEL: func.func @strided
// CHECK-NOT: tensor<2x8x9x9xf32>
func.func @strided(%dy: tensor<2x4x5x5xbf16>, %w: tensor<4x8x3x3xbf16>, %x: tensor<2x8x9x9xbf16>) -> tensor<2x8x9x9xbf16> {
  %0 = "oneflow.conv_data_grad"(%dy, %w, %x) {num_spatial_dims = 2 : si32, padding_before = [1 : si32, 1 : si32], data_format = "channels_first", kernel_size = [3 : si32, 3 : si32], strides = [2 : si32, 2 : si32], dilation_rate = [1 : si32, 1 : si32], groups = 1 : si32, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<2x4x5x5xbf16>, tensor<4x8x3x3xbf16>, tensor<2x8x9x9xbf16>) -> tensor<2x8x9x9xbf16>
  return %0 : tensor<2x8x9x9xbf16>
}
