// RUN: oneflow-opt %s --stage kernels | oneflow-opt --oneflow-emit-kernels | FileCheck %s

// The first phase prefetches a large tensor one page ahead; later phases and small tensors find it in the cache.
// CHECK-LABEL: func.func private @large_kernel_0(
// CHECK-DAG: %[[PAGE:.*]] = arith.constant 1024 : index
// CHECK: %[[AT:.*]] = arith.addi %[[I:.*]], %[[PAGE]] : index
// CHECK: memref.prefetch %[[X:.*]][%{{.*}}, %[[AT]]], read, locality<3>, data : memref<2048x1024xf32>
// CHECK: vector.load %[[X]][%{{.*}}, %[[I]]]
// CHECK: arith.maximumf
// CHECK-NOT: memref.prefetch
func.func @large(%x: tensor<2048x1024xf32>) -> tensor<2048x1024xf32> {
  %0 = "oneflow.softmax"(%x) : (tensor<2048x1024xf32>) -> tensor<2048x1024xf32>
  return %0 : tensor<2048x1024xf32>
}

// CHECK-LABEL: func.func private @small_kernel_0(
// CHECK-NOT: memref.prefetch
// CHECK: vector.load
func.func @small(%x: tensor<64x1024xf32>) -> tensor<64xf32> {
  %0 = "oneflow.reduce_sum"(%x) {axis = [1 : si32], keepdims = false} : (tensor<64x1024xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
