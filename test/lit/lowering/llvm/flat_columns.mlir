// RUN: oneflow-opt %s --stage kernels --target x86-64-v3 | oneflow-opt --oneflow-emit-kernels --target x86-64-v3 --canonicalize | FileCheck %s

// The 100 columns of the result are one loop of blocks; the panel has 16 columns and one vector for idle lanes.
// CHECK-LABEL: func.func private @odd_rows_kernel_0(
// CHECK-DAG: %[[PANEL:.*]] = memref.view {{.*}} : memref<1xi8> to memref<296x24xf32>
// CHECK-DAG: memref.view {{.*}} : memref<1xi8> to memref<32x12x12xf32>
// CHECK-DAG: %[[RESULT:.*]] = memref.view {{.*}} : memref<1xi8> to memref<64x100xf32>

// A block begins at any column of a row of the image, and packs segments of rows: full vectors, then masked ones, each
// for all steps of the depth.
// CHECK: %[[FIRST:.*]] = arith.divui %{{.*}}, %c10
// CHECK: scf.for %[[ROW:.*]] = %[[FIRST]] to
// CHECK: %[[MASK:.*]] = vector.create_mask
// CHECK-NEXT: scf.for
// CHECK-NEXT: scf.for %{{.*}} = %c0 to %c32 step %c1
// CHECK-NEXT: scf.for %{{.*}} = %c0 to %c3 step %c1
// CHECK-NEXT: scf.for %{{.*}} = %c0 to %c3 step %c1
// CHECK: %[[FULL:.*]] = vector.load %{{.*}} : memref<32x12x12xf32>
// CHECK: vector.store %[[FULL]], %[[PANEL]]
// CHECK: vector.maskedload {{.*}}, %[[MASK]],
// CHECK: vector.store %{{.*}}, %[[PANEL]]

// Results are contiguous: only the end of all columns has masks.
// CHECK: vector.load %[[PANEL]]
// CHECK: vector.maskedstore %[[RESULT]]
func.func @odd_rows(%x: tensor<1x32x12x12xf32>, %w: tensor<64x32x3x3xf32>) -> tensor<1x64x10x10xf32> {
  %0 = "oneflow.conv2d"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, data_format = "channels_first",
    dilation_rate = [1 : si32, 1 : si32], filters = 64 : si32, groups = 1 : si32, kernel_size = [3 : si32, 3 : si32],
    padding_before = [0 : si32, 0 : si32], strides = [1 : si32, 1 : si32]}
    : (tensor<1x32x12x12xf32>, tensor<64x32x3x3xf32>) -> tensor<1x64x10x10xf32>
  return %0 : tensor<1x64x10x10xf32>
}

// An image that exceeds the L2 cache is packed row by row. Rows are prefetched, once for each row of the filter.
// CHECK-LABEL: func.func private @large_image_kernel_0(
// CHECK: vector.create_mask
// CHECK-NEXT: scf.for %[[CHANNEL:.*]] = %c0 to %c32 step %c1
// CHECK-NEXT: scf.for %{{.*}} = %c0 to %c3 step %c1
// CHECK: %[[LATER:.*]] = arith.addi %[[CHANNEL]], %c4
// CHECK: memref.prefetch %{{.*}}[%[[LATER]], %{{.*}}, %{{.*}}], read
// CHECK: scf.for %{{.*}} = %c0 to %c3 step %c1
// CHECK-NEXT: scf.for
// CHECK: vector.load %{{.*}} : memref<32x50x53xf32>
// CHECK: scf.for
// CHECK: vector.maskedload
func.func @large_image(%x: tensor<1x32x50x53xf32>, %w: tensor<64x32x3x3xf32>) -> tensor<1x64x48x51xf32> {
  %0 = "oneflow.conv2d"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, data_format = "channels_first",
    dilation_rate = [1 : si32, 1 : si32], filters = 64 : si32, groups = 1 : si32, kernel_size = [3 : si32, 3 : si32],
    padding_before = [0 : si32, 0 : si32], strides = [1 : si32, 1 : si32]}
    : (tensor<1x32x50x53xf32>, tensor<64x32x3x3xf32>) -> tensor<1x64x48x51xf32>
  return %0 : tensor<1x64x48x51xf32>
}
