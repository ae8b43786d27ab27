// RUN: oneflow-opt %s --stage kernels --split-input-file | FileCheck %s

// A few rows of a dequantized table are gathered as integers and converted then.

// CHECK-LABEL: func.func private @gathered_kernel_0(
// CHECK-SAME: tensor<384x96xi8>, %{{.*}}: tensor<384x1xf32>
// CHECK: %[[row:.*]] = arith.index_cast
// CHECK: %[[column:.*]] = linalg.index 1
// CHECK: tensor.extract %{{.*}}[%[[row]], %[[column]]] : tensor<384x96xi8>
// CHECK: arith.sitofp
// CHECK: tensor.extract %{{.*}}[%[[row]], %{{.*}}] : tensor<384x1xf32>
// CHECK: arith.mulf
// CHECK-LABEL: func.func @gathered(
// CHECK-COUNT-1: call @
// CHECK-NOT: call @
func.func @gathered(%i: tensor<9xi64>, %w: tensor<384x96xi8>, %s: tensor<384x1xf32>) -> tensor<9x96xf32> {
  %0 = "oneflow.cast"(%w) {dtype = f32} : (tensor<384x96xi8>) -> tensor<384x96xf32>
  %1 = "oneflow.broadcast_mul"(%0, %s) : (tensor<384x96xf32>, tensor<384x1xf32>) -> tensor<384x96xf32>
  %2 = "oneflow.gather"(%1, %i) : (tensor<384x96xf32>, tensor<9xi64>) -> tensor<9x96xf32>
  return %2 : tensor<9x96xf32>
}

// -----

// More rows than the table has are gathered from the converted table, which converts each element once.

// CHECK-LABEL: func.func private @repeated_kernel_0(
// CHECK-SAME: tensor<8x96xi8>, %{{.*}}: tensor<8x96xf32>)
// CHECK: arith.sitofp
// CHECK-LABEL: func.func private @repeated_kernel_1(
// CHECK: tensor.extract {{.*}} : tensor<8x96xf32>
func.func @repeated(%i: tensor<9xi64>, %w: tensor<8x96xi8>) -> tensor<9x96xf32> {
  %0 = "oneflow.cast"(%w) {dtype = f32} : (tensor<8x96xi8>) -> tensor<8x96xf32>
  %1 = "oneflow.gather"(%0, %i) : (tensor<8x96xf32>, tensor<9xi64>) -> tensor<9x96xf32>
  return %1 : tensor<9x96xf32>
}
