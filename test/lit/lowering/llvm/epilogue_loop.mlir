// RUN: oneflow-opt %s --stage kernels --split-input-file | oneflow-opt --oneflow-emit-kernels --split-input-file | FileCheck %s

// A long epilogue is code for the vectors of one row: a loop over the rows of a tile reads the sums from a buffer.

// CHECK-LABEL: func.func private @long_kernel_0(
// CHECK: %[[SUMS:.*]] = memref.view {{.*}} to memref<6x64xf32>
// CHECK: scf.yield
// CHECK-COUNT-24: vector.store {{.*}} %[[SUMS]]
// CHECK-NEXT: scf.for %[[ROW:.*]] = {{.*}} to %[[ROWS:.*]] step
// CHECK: vector.load %[[SUMS]][%[[ROW]],
// CHECK-COUNT-4: math.erf
// CHECK-NOT: math.erf
// CHECK: return
func.func @long(%x: tensor<48x64xf32>, %w: tensor<64x128xf32>) -> tensor<48x128xf32> {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<48x64xf32>, tensor<64x128xf32>) -> tensor<48x128xf32>
  %1 = "oneflow.gelu"(%0) : (tensor<48x128xf32>) -> tensor<48x128xf32>
  return %1 : tensor<48x128xf32>
}

// -----

// A short epilogue takes the sums from registers.

// CHECK-LABEL: func.func private @short_kernel_0(
// CHECK-NOT: memref<6x64xf32>
// CHECK-COUNT-24: vector.store {{.*}} : memref<48x128xf32>
// CHECK: return
func.func @short(%x: tensor<48x64xf32>, %w: tensor<64x128xf32>, %b: tensor<128xf32>) -> tensor<48x128xf32> {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<48x64xf32>, tensor<64x128xf32>) -> tensor<48x128xf32>
  %1 = "oneflow.bias_add"(%0, %b) {axis = 1 : si32} : (tensor<48x128xf32>, tensor<128xf32>) -> tensor<48x128xf32>
  %2 = "oneflow.relu"(%1) : (tensor<48x128xf32>) -> tensor<48x128xf32>
  return %2 : tensor<48x128xf32>
}
