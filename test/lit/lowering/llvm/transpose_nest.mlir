// RUN: oneflow-opt %s --convert-oneflow-to-linalg --oneflow-form-kernels --oneflow-emit-kernels | FileCheck %s

// Vectors along the rows are transposed in registers; a tile at an edge is masked.
// CHECK-LABEL: func.func private @transposed_kernel_0(
// CHECK: scf.if
// CHECK-COUNT-16: vector.load {{.*}} : memref<100x50xf32>, vector<16xf32>
// CHECK-COUNT-64: vector.shuffle
// CHECK-COUNT-16: vector.store {{.*}} : memref<50x100xf32>, vector<16xf32>
// CHECK: } else {
// CHECK-COUNT-16: vector.maskedload
// CHECK: vector.shuffle
// CHECK-COUNT-16: vector.maskedstore
func.func @transposed(%x: tensor<100x50xf32>) -> tensor<50x100xf32> {
  %0 = "oneflow.transpose"(%x) {perm = [1, 0]} : (tensor<100x50xf32>) -> tensor<50x100xf32>
  return %0 : tensor<50x100xf32>
}
