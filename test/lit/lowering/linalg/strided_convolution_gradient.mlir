// RUN: oneflow-opt %s --convert-oneflow-to-linalg --canonicalize | FileCheck %s

// The gradient of a strided convolution is one product for each phase of the images, 2 x 2 here, with its part of the
// filters: nowhere are zeros spread between elements of dy.
// CHECK-LABEL: func.func @strided
// CHECK: tensor.insert_slice %arg0 into {{.*}}[0, 0, 0, 0] [1, 28, 28, 8] [1, 1, 1, 1] : {{.*}} into tensor<1x29x29x8xf32>
// CHECK: tensor<1x29x29x8xf32>, tensor<8x2x2x16xf32>) outs
// CHECK: tensor.insert_slice {{.*}}[0, 1, 1, 0] [1, 28, 28, 16] [1, 2, 2, 1]
// CHECK: tensor<1x29x29x8xf32>, tensor<8x2x1x16xf32>) outs
// CHECK: tensor.insert_slice {{.*}}[0, 1, 0, 0] [1, 28, 28, 16] [1, 2, 2, 1]
// CHECK: tensor<1x29x29x8xf32>, tensor<8x1x2x16xf32>) outs
// CHECK: tensor.insert_slice {{.*}}[0, 0, 1, 0] [1, 28, 28, 16] [1, 2, 2, 1]
// CHECK: tensor<1x29x29x8xf32>, tensor<8x1x1x16xf32>) outs
// CHECK: tensor.insert_slice {{.*}}[0, 0, 0, 0] [1, 28, 28, 16] [1, 2, 2, 1]
func.func @strided(%dy: tensor<1x28x28x8xf32>, %w: tensor<8x3x3x16xf32>, %x: tensor<1x56x56x16xf32>) -> tensor<1x56x56x16xf32> {
  %0 = "oneflow.conv_data_grad"(%dy, %w, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, num_spatial_dims = 2 : i32, padding_before = [1 : i32, 1 : i32], data_format = "channels_last", kernel_size = [3 : i32, 3 : i32], strides = [2 : i32, 2 : i32], dilation_rate = [1 : i32, 1 : i32], groups = 1 : i32} : (tensor<1x28x28x8xf32>, tensor<8x3x3x16xf32>, tensor<1x56x56x16xf32>) -> tensor<1x56x56x16xf32>
  return %0 : tensor<1x56x56x16xf32>
}
