// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @if(
// CHECK-SAME: -> tensor<2x3xf32>
// CHECK: scf.if %arg0 -> (tensor<2x3xf32>)
func.func @if(%c: i1, %x: tensor<2x3xf32>) -> tensor<?x?xf32> {
  %r = scf.if %c -> tensor<?x?xf32> {
    %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<?x?xf32>
    scf.yield %0 : tensor<?x?xf32>
  } else {
    %0 = "oneflow.tanh"(%x) : (tensor<2x3xf32>) -> tensor<?x?xf32>
    scf.yield %0 : tensor<?x?xf32>
  }
  return %r : tensor<?x?xf32>
}

// Branches with different types give the common part of the types.
// CHECK-LABEL: func.func @if_differs
// CHECK: scf.if %arg0 -> (tensor<?x3xf32>)
// CHECK: tensor.cast %{{.*}} : tensor<2x3xf32> to tensor<?x3xf32>
// CHECK: tensor.cast %{{.*}} : tensor<4x3xf32> to tensor<?x3xf32>
func.func @if_differs(%c: i1, %x: tensor<2x3xf32>, %y: tensor<4x3xf32>) -> tensor<?x?xf32> {
  %r = scf.if %c -> tensor<?x?xf32> {
    %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<?x?xf32>
    scf.yield %0 : tensor<?x?xf32>
  } else {
    %0 = "oneflow.tanh"(%y) : (tensor<4x3xf32>) -> tensor<?x?xf32>
    scf.yield %0 : tensor<?x?xf32>
  }
  return %r : tensor<?x?xf32>
}

// CHECK-LABEL: func.func @for
// CHECK: iter_args({{.*}}) -> (tensor<2x3xf32>)
func.func @for(%n: index, %x: tensor<2x3xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<?x?xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %0) -> (tensor<?x?xf32>) {
    %1 = "oneflow.broadcast_add"(%s, %x) : (tensor<?x?xf32>, tensor<2x3xf32>) -> tensor<?x?xf32>
    scf.yield %1 : tensor<?x?xf32>
  }
  return %r : tensor<?x?xf32>
}

// CHECK-LABEL: func.func @blocks
// CHECK-SAME: -> tensor<2x3xf32>
// CHECK: ^bb3(%{{.*}}: tensor<2x3xf32>)
func.func @blocks(%c: i1, %x: tensor<2x3xf32>) -> tensor<*xf32> {
  cf.cond_br %c, ^one(%x: tensor<2x3xf32>), ^two
^one(%a: tensor<2x3xf32>):
  %0 = "oneflow.relu"(%a) : (tensor<2x3xf32>) -> tensor<*xf32>
  cf.br ^last(%0 : tensor<*xf32>)
^two:
  %1 = "oneflow.tanh"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  cf.br ^last(%1 : tensor<*xf32>)
^last(%b: tensor<*xf32>):
  %2 = "oneflow.tanh"(%b) : (tensor<*xf32>) -> tensor<*xf32>
  return %2 : tensor<*xf32>
}

// Operations that are not joins keep the declared types.
// CHECK-LABEL: func.func @while
// CHECK: %[[B:.*]] = tensor.cast %{{.*}} : tensor<2xf32> to tensor<?xf32>
// CHECK: scf.while (%{{.*}} = %[[B]]) : (tensor<?xf32>) -> tensor<?xf32>
func.func @while(%c: i1, %x: tensor<2xf32>) -> tensor<?xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2xf32>) -> tensor<?xf32>
  %r = scf.while (%s = %0) : (tensor<?xf32>) -> tensor<?xf32> {
    scf.condition(%c) %s : tensor<?xf32>
  } do {
  ^bb0(%t: tensor<?xf32>):
    scf.yield %t : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}
