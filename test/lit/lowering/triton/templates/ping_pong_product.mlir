// RUN: oneflow-opt %s --oneflow-to-triton --dump-kernels %t -o %t.mlir
// RUN: FileCheck %s --input-file %t/main_kernel_0.py
// RUN: FileCheck %s --check-prefix=PTX --input-file %t/main_kernel_0.ptx

// A producer warp reads blocks; of two groups of consumer warps, one multiplies while the other runs the epilogue.
// CHECK: # oneflow.matmul
// CHECK-NEXT: # oneflow.relu
// CHECK: def producer(
// CHECK: load_block(left_block, [row * 128, k_at], bar, left.index(
// CHECK: load_block(right0_block, [column * 128 + 0, k_at], bar, right0.index(
// CHECK: def consumer(
// CHECK: mbarrier.wait(order.index(
// CHECK: warpgroup_mma(
// CHECK: mbarrier.arrive(order.index(
// CHECK: store_tile(
// CHECK: gl.warp_specialize([
// CHECK-NEXT: (consumer, ({{.*}}, 0)),
// CHECK-NEXT: (consumer, ({{.*}}, 1)),
// CHECK-NEXT: (producer, (

// PTX: wgmma.mma_async
func.func @main(%a: tensor<8192x1024xbf16>, %b: tensor<4096x1024xbf16>) -> tensor<8192x4096xbf16> {
  %0 = "oneflow.matmul"(%a, %b) {transpose_b = true} : (tensor<8192x1024xbf16>, tensor<4096x1024xbf16>) -> tensor<8192x4096xbf16>
  %1 = "oneflow.relu"(%0) : (tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16>
  return %1 : tensor<8192x4096xbf16>
}
