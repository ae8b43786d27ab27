// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @cat_of_one(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: return %[[X]]
func.func @cat_of_one(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.cat"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @join(
// CHECK-SAME: -> (tensor<2x7xf32>, tensor<2x2x3xf32>, tensor<?x7xf32>)
func.func @join(%x: tensor<2x3xf32>, %y: tensor<?x4xf32>, %z: tensor<?x7xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %a = tensor.cast %x : tensor<2x3xf32> to tensor<?x?xf32>
  %b = tensor.cast %y : tensor<?x4xf32> to tensor<?x?xf32>
  %0 = "oneflow.cat"(%a, %b) {axis = -1 : si64} : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<*xf32>
  %1 = "oneflow.stack"(%x, %x) {axis = 1 : si64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<*xf32>
  %c = tensor.cast %0 : tensor<*xf32> to tensor<?x?xf32>
  %d = tensor.cast %z : tensor<?x7xf32> to tensor<?x?xf32>
  %2 = "oneflow.cat"(%c, %d) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<*xf32>
  return %0, %1, %2 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// The part of unknown size has the size that remains after the other parts.
// CHECK-LABEL: func.func @split(
// CHECK-SAME: -> (tensor<2xf32>, tensor<5xf32>)
func.func @split(%x: tensor<7xf32>, %a: tensor<2xf32>, %b: tensor<?xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %c = tensor.cast %a : tensor<2xf32> to tensor<?xf32>
  %0:2 = "oneflow.split_like"(%x, %c, %b)
    : (tensor<7xf32>, tensor<?xf32>, tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>)
  %1 = tensor.cast %0#0 : tensor<?xf32> to tensor<*xf32>
  %2 = tensor.cast %0#1 : tensor<?xf32> to tensor<*xf32>
  return %1, %2 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @stack_grad(
// CHECK: "oneflow.stack_grad"{{.*}} -> (tensor<3xf32>, tensor<3xf32>)
func.func @stack_grad(%x: tensor<2x?xf32>, %a: tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.stack_grad"(%x, %a, %a) {axis = 0 : si64}
    : (tensor<2x?xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xf32>
}
