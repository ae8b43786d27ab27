// RUN: oneflow-opt %s --stage kernels --target x86-64-v4 | oneflow-opt --oneflow-emit-kernels --target x86-64-v4 --canonicalize | FileCheck %s

// Sixteen rows, 1024 elements apart, share one set of the L1 cache: eight steps of all rows are copied, then read for
// every tile of columns.
// CHECK-LABEL: func.func private @sixteen_rows_kernel_0(
// CHECK: %[[SLICE:.*]] = memref.view {{.*}} : memref<1xi8> to memref<16x8xf32>
// CHECK: memref.store %{{.*}}, %[[SLICE]]
// CHECK: memref.load %[[SLICE]]
// CHECK: math.fma
func.func @sixteen_rows(%x: tensor<16x1024xf32>, %w: tensor<1024x4096xf32>) -> tensor<16x4096xf32> {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<16x1024xf32>, tensor<1024x4096xf32>) -> tensor<16x4096xf32>
  return %0 : tensor<16x4096xf32>
}

// Eight rows have a way of the set each, and the sums have rows of an odd number of cache lines.
// CHECK-LABEL: func.func private @eight_rows_kernel_0(
// CHECK-DAG: memref<8x1040xf32>
// CHECK-NOT: memref<8x8xf32>
func.func @eight_rows(%x: tensor<8x1024xf32>, %w: tensor<1024x4096xf32>) -> tensor<8x4096xf32> {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<8x1024xf32>, tensor<1024x4096xf32>) -> tensor<8x4096xf32>
  return %0 : tensor<8x4096xf32>
}
