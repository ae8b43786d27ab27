// RUN: oneflow-opt %s --oneflow-emit-kernels | FileCheck %s

// Kernels that no emitter covers: the operations of the kernel are copied into the launch with the tensors of its
// pointers, and become loops on memory. Attributes are copied as they are, also text that looks like the name of a value.

// CHECK-LABEL: func.func private @main_kernel_0_launch(%arg0: memref<1xi8>, %arg1: memref<1xi8>, %arg2: memref<1xi8>) {
// CHECK: %[[POSITIONS:.*]] = memref.view %arg0[%c0][] : memref<1xi8> to memref<4xi64>
// CHECK: %[[ROWS:.*]] = memref.view %arg1[%c0][] : memref<1xi8> to memref<4x2xf32>
// CHECK: %[[RESULT:.*]] = memref.view %arg2[%c0][] : memref<1xi8> to memref<8x2xf32>
// CHECK: memref.store %cst, %[[RESULT]]
// CHECK: scf.for %[[I:.*]] = %c0 to %c4 step %c1 {
// CHECK: %[[LOADED:.*]] = memref.load %[[POSITIONS]][%[[I]]]
// CHECK: %[[AT:.*]] = arith.index_cast %[[LOADED]] : i64 to index
// CHECK: cf.assert %{{.*}}, "expected at most 100%arg0 rows, \22%c8\22"
// CHECK: %[[ROW:.*]] = memref.subview %[[ROWS]][%[[I]], 0]
// CHECK: %[[TARGET:.*]] = memref.subview %[[RESULT]][%[[AT]], 0]
// CHECK: memref.copy %[[ROW]], %[[TARGET]]
// CHECK: return
func.func private @main_kernel_0(%arg0: tensor<4xi64>, %arg1: tensor<4x2xf32>, %arg2: tensor<8x2xf32>) -> tensor<8x2xf32> attributes {oneflow.kernel = "other"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %cst = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%arg2 : tensor<8x2xf32>) -> tensor<8x2xf32>
  %1 = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %0) -> tensor<8x2xf32> {
    %p = tensor.extract %arg0[%i] : tensor<4xi64>
    %q = arith.index_cast %p : i64 to index
    %ok = arith.cmpi ult, %q, %c8 : index
    cf.assert %ok, "expected at most 100%arg0 rows, \"%c8\""
    %row = tensor.extract_slice %arg1[%i, 0] [1, 2] [1, 1] : tensor<4x2xf32> to tensor<1x2xf32>
    %next = tensor.insert_slice %row into %acc[%q, 0] [1, 2] [1, 1] : tensor<1x2xf32> into tensor<8x2xf32>
    scf.yield %next : tensor<8x2xf32>
  }
  return %1 : tensor<8x2xf32>
}
func.func @main(%a: tensor<4xi64>, %b: tensor<4x2xf32>) -> tensor<8x2xf32> {
  %e = tensor.empty() : tensor<8x2xf32>
  %0 = call @main_kernel_0(%a, %b, %e) : (tensor<4xi64>, tensor<4x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
}
