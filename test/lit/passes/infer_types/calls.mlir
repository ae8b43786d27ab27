// RUN: oneflow-opt %s --oneflow-infer-types="keep-public=false" --split-input-file | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --split-input-file | FileCheck %s --check-prefix=KEEP

// Arguments follow the calls, results follow the body, through two levels and in any order of functions.
// CHECK-LABEL: func.func @main(%arg0: tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK: call @outer(%{{.*}}) : (tensor<2x3xf32>) -> tensor<3x2xf32>
// KEEP-LABEL: func.func @main(%arg0: tensor<2x3xf32>) -> tensor<*xf32>
func.func @main(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  %1 = call @outer(%0) : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}

// CHECK: func.func @outer(%arg0: tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK: call @inner(%arg0) : (tensor<2x3xf32>) -> tensor<3x2xf32>
// KEEP: func.func @outer(%arg0: tensor<*xf32>) -> tensor<*xf32>
func.func @outer(%x: tensor<*xf32>) -> tensor<*xf32> {
  %0 = call @inner(%x) : (tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK: func.func private @inner(%arg0: tensor<2x3xf32>) -> tensor<3x2xf32>
// KEEP: func.func private @inner(%arg0: tensor<*xf32>) -> tensor<*xf32>
func.func private @inner(%x: tensor<*xf32>) -> tensor<*xf32> {
  %0 = "oneflow.transpose"(%x) {perm = array<i32: 1, 0>} : (tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// -----

// Calls with different types refine the callee to the common type; operands are cast to the common type.
// CHECK-LABEL: func.func @differ
// CHECK: %[[A:.*]] = tensor.cast %arg0 : tensor<2x3xf32> to tensor<?x3xf32>
// CHECK: call @g(%[[A]]) : (tensor<?x3xf32>) -> tensor<?x3xf32>
// CHECK: %[[B:.*]] = tensor.cast %arg1 : tensor<4x3xf32> to tensor<?x3xf32>
// CHECK: call @g(%[[B]]) : (tensor<?x3xf32>) -> tensor<?x3xf32>
func.func @differ(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %p = tensor.cast %a : tensor<2x3xf32> to tensor<*xf32>
  %q = tensor.cast %b : tensor<4x3xf32> to tensor<*xf32>
  %0 = call @g(%p) : (tensor<*xf32>) -> tensor<*xf32>
  %1 = call @g(%q) : (tensor<*xf32>) -> tensor<*xf32>
  return %0, %1 : tensor<*xf32>, tensor<*xf32>
}

// CHECK: func.func private @g(%arg0: tensor<?x3xf32>) -> tensor<?x3xf32>
func.func private @g(%x: tensor<*xf32>) -> tensor<*xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// -----

// Recursion is sound: the argument has the common type of all calls, the recursive call included.
// CHECK-LABEL: func.func private @recursive(%arg0: i1, %arg1: tensor<?x?xf32>) -> tensor<?x?xf32>
func.func private @recursive(%c: i1, %x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = "oneflow.transpose"(%x) {perm = array<i32: 1, 0>} : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = scf.if %c -> tensor<?x?xf32> {
    %2 = func.call @recursive(%c, %0) : (i1, tensor<?x?xf32>) -> tensor<?x?xf32>
    scf.yield %2 : tensor<?x?xf32>
  } else {
    scf.yield %0 : tensor<?x?xf32>
  }
  return %1 : tensor<?x?xf32>
}
func.func @start(%c: i1, %x: tensor<2x3xf32>) -> tensor<?x?xf32> {
  // CHECK: tensor.cast %arg1 : tensor<2x3xf32> to tensor<?x?xf32>
  %0 = tensor.cast %x : tensor<2x3xf32> to tensor<?x?xf32>
  %1 = call @recursive(%c, %0) : (i1, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}

// -----

// A declaration is unchanged.
// CHECK-LABEL: func.func private @outside(tensor<?xf32>) -> tensor<?xf32>
func.func private @outside(tensor<?xf32>) -> tensor<?xf32>
func.func @caller(%x: tensor<3xf32>) -> tensor<?xf32> {
  // CHECK: %[[C:.*]] = tensor.cast %{{.*}} : tensor<3xf32> to tensor<?xf32>
  // CHECK: call @outside(%[[C]])
  %0 = "oneflow.relu"(%x) : (tensor<3xf32>) -> tensor<?xf32>
  %1 = call @outside(%0) : (tensor<?xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}
