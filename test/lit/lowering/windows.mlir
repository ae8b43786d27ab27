// RUN: oneflow-opt %s --convert-oneflow-to-linalg --canonicalize --oneflow-form-kernels --oneflow-emit-kernels | FileCheck %s

// Windows have fewer elements than vectors have lanes: lanes are windows, picked out of two vectors.
// CHECK-LABEL: func.func private @windows_kernel_0(
// CHECK-COUNT-2: vector.load {{.*}} : memref<512x56x64xf32>, vector<16xf32>
// CHECK-NEXT: vector.shuffle {{.*}} [0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31]
// CHECK: arith.maximumf {{.*}} : vector<16xf32>
func.func @windows(%x: tensor<8x64x56x64xf32>) -> tensor<8x64x28x32xf32> {
  %0:2 = "oneflow.max_pool_2d"(%x) {padding = [0 : i32, 0 : i32], data_format = "channels_first", kernel_size = [2 : i32, 2 : i32], stride = [2 : i32, 2 : i32], dilation = [1 : i32, 1 : i32]} : (tensor<8x64x56x64xf32>) -> (tensor<8x64x28x32xf32>, tensor<8x64x28x32xi64>)
  return %0#0 : tensor<8x64x28x32xf32>
}
