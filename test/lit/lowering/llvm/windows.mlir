// RUN: oneflow-opt %s --convert-oneflow-to-linalg --canonicalize --oneflow-form-kernels --oneflow-emit-kernels | FileCheck %s

// Windows have fewer elements than vectors have lanes: each lane is a window, loaded with stride 2 from two vectors.
// CHECK-LABEL: func.func private @windows_kernel_0(
// CHECK-COUNT-2: vector.load {{.*}} : memref<512x56x64xf32>, vector<16xf32>
// CHECK-NEXT: vector.shuffle {{.*}} [0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31]
// CHECK: arith.maximumf {{.*}} : vector<16xf32>
func.func @windows(%x: tensor<8x64x56x64xf32>) -> tensor<8x64x28x32xf32> {
  %0:2 = "oneflow.max_pool_2d"(%x) {padding = [0 : i32, 0 : i32], data_format = "channels_first", kernel_size = [2 : i32, 2 : i32], stride = [2 : i32, 2 : i32], dilation = [1 : i32, 1 : i32]} : (tensor<8x64x56x64xf32>) -> (tensor<8x64x28x32xf32>, tensor<8x64x28x32xi64>)
  return %0#0 : tensor<8x64x28x32xf32>
}

// Depthwise convolution: the small operand with strided channels is first copied to a transposed layout.
// CHECK-LABEL: func.func private @channels_kernel_0(
// CHECK: %[[TURNED:.*]] = memref.view {{.*}} to memref<3x3x64xf32>
// CHECK: memref.load {{.*}} : memref<64x3x3xf32>
// CHECK: memref.store {{.*}}, %[[TURNED]]
// CHECK: scf.for
// CHECK: vector.load %[[TURNED]]
func.func @channels(%x: tensor<1x30x30x64xf32>, %w: tensor<64x3x3x1xf32>) -> tensor<1x28x28x64xf32> {
  %0 = "oneflow.conv2d"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, padding_before = [0 : i32, 0 : i32], data_format = "channels_last", kernel_size = [3 : i32, 3 : i32], strides = [1 : i32, 1 : i32], dilation_rate = [1 : i32, 1 : i32], groups = 64 : i32} : (tensor<1x30x30x64xf32>, tensor<64x3x3x1xf32>) -> tensor<1x28x28x64xf32>
  return %0 : tensor<1x28x28x64xf32>
}

// Columns of a product with stride 2 are packed by vector loads.
// CHECK-LABEL: func.func private @strided_kernel_0(
// CHECK: vector.load {{.*}} : memref<16x16x64xf32>, vector<16xf32>
// CHECK: vector.load {{.*}} : memref<16x16x64xf32>, vector<16xf32>
// CHECK: vector.shuffle {{.*}} [0, 2, 4, 6, 8, 10, 12, 14, 17, 19,
// CHECK: math.fma
func.func @strided(%x: tensor<1x16x16x64xf32>, %w: tensor<32x16x1x1xf32>) -> tensor<1x32x8x32xf32> {
  %0 = "oneflow.conv2d"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, padding_before = [0 : i32, 0 : i32], data_format = "channels_first", kernel_size = [1 : i32, 1 : i32], strides = [2 : i32, 2 : i32], dilation_rate = [1 : i32, 1 : i32]} : (tensor<1x16x16x64xf32>, tensor<32x16x1x1xf32>) -> tensor<1x32x8x32xf32>
  return %0 : tensor<1x32x8x32xf32>
}
