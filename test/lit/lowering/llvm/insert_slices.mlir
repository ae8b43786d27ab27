// RUN: oneflow-opt %s --convert-oneflow-to-linalg --oneflow-form-kernels --oneflow-emit-kernels | FileCheck %s

// The destination is filled in chunks; then the part is inserted row by row.
// CHECK-LABEL: func.func private @padded_kernel_0_0(
// CHECK: vector.broadcast
// CHECK: vector.store
// CHECK-LABEL: func.func private @padded_kernel_0_1(
// CHECK: vector.load {{.*}} : memref<1200000xf32>, vector<64xf32>
// CHECK: vector.store {{.*}} : memref<1208000xf32>, vector<64xf32>
// CHECK: vector.maskedstore
// CHECK-LABEL: func.func private @padded_kernel_0_launch(
// CHECK: call @padded_kernel_0_0_launch
// CHECK: call @padded_kernel_0_1_launch
func.func @padded(%x: tensor<4000x300xf32>) -> tensor<4000x302xf32> {
  %0 = "oneflow.pad"(%x) {padding_before = [0, 1], padding_after = [0, 1]} : (tensor<4000x300xf32>) -> tensor<4000x302xf32>
  return %0 : tensor<4000x302xf32>
}
