// RUN: oneflow-opt %s --convert-oneflow-to-linalg --canonicalize --oneflow-form-kernels --oneflow-emit-kernels | FileCheck %s

// Lanes walk the loop before the last; both steps of the last loop are interleaved to full vectors.
// CHECK-LABEL: func.func private @twice_kernel_0(
// CHECK: scf.for
// CHECK: vector.load {{.*}} : memref<192xf32>, vector<32xf32>
// CHECK: vector.load {{.*}} : memref<192xf32>, vector<32xf32>
// CHECK: vector.shuffle {{.*}} [0, 32, 1, 33, 2, 34,
// CHECK: vector.store {{.*}} : memref<384xf32>, vector<32xf32>
// CHECK: vector.shuffle {{.*}} [16, 48, 17, 49,
// CHECK: vector.store {{.*}} : memref<384xf32>, vector<32xf32>
func.func @twice(%x: tensor<3x64x1xf32>, %z: tensor<2xf32>) -> tensor<3x64x2xf32> {
  %0 = "oneflow.broadcast_add"(%x, %z) : (tensor<3x64x1xf32>, tensor<2xf32>) -> tensor<3x64x2xf32>
  return %0 : tensor<3x64x2xf32>
}
