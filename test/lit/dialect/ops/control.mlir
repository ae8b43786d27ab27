// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-autodiff="func=scanned cotangents=true" | FileCheck %s --check-prefix=GRAD
// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-autodiff="func=chosen cotangents=true" | FileCheck %s --check-prefix=BRANCH

func.func private @step(%h: tensor<2xf32>, %x: tensor<2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "oneflow.broadcast_mul"(%h, %w) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "oneflow.broadcast_add"(%0, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func private @below(%n: tensor<i64>, %x: tensor<2xf32>) -> tensor<i1> {
  %0 = "oneflow.scalar_logical_less"(%n) {has_int_operand = true, int_operand = 4 : i64} : (tensor<i64>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @next(%n: tensor<i64>, %x: tensor<2xf32>) -> (tensor<i64>, tensor<2xf32>) {
  %0 = "oneflow.scalar_add"(%n) {has_int_operand = true, int_operand = 1 : i64} : (tensor<i64>) -> tensor<i64>
  %1 = "oneflow.broadcast_add"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<i64>, tensor<2xf32>
}
func.func private @sine(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "oneflow.sin"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @same(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// The results are the last state, the further results of all steps, and the states before the steps.
// CHECK-LABEL: func.func @scanned
// CHECK: "oneflow.scan"(%{{.*}}) {body = @step, operandSegmentSizes = array<i32: 1, 1, 1, 0, {{.*}}, sequences = 1 : i32, states = 1 : i32} : (tensor<2xf32>, tensor<5x2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>, tensor<5x2xf32>)
// The gradient runs through the steps in reverse order, and adds the gradients of constants.
// GRAD-LABEL: func.func @scanned_grad
// GRAD: %[[FORWARD:.*]]:3 = "oneflow.scan"
// GRAD: "oneflow.scan"(%arg3, %{{.*}}, %[[FORWARD]]#2, %arg1, %arg4, %arg2) {body = @[[BODY:body_[0-9a-f]+]],{{.*}} reverse = true, sequences = 3 : i32, states = 2 : i32}
// GRAD: func.func private @[[BODY]](
// GRAD: "oneflow.broadcast_mul"
func.func @scanned(%h: tensor<2xf32>, %x: tensor<5x2xf32>, %w: tensor<2xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:3 = "oneflow.scan"(%h, %x, %w) {body = @step, states = 1 : i32, sequences = 1 : i32} : (tensor<2xf32>, tensor<5x2xf32>, tensor<2xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @looped
// CHECK: "oneflow.while_loop"(%{{.*}}) {body = @next, condition = @below, {{.*}} : (tensor<i64>, tensor<2xf32>) -> (tensor<i64>, tensor<2xf32>)
func.func @looped(%n: tensor<i64>, %x: tensor<2xf32>) -> tensor<*xf32> {
  %0:2 = "oneflow.while_loop"(%n, %x) {condition = @below, body = @next, states = 2 : i32} : (tensor<i64>, tensor<2xf32>) -> (tensor<i64>, tensor<*xf32>)
  return %0#1 : tensor<*xf32>
}

// CHECK-LABEL: func.func @chosen
// CHECK: "oneflow.cond"(%{{.*}}) {false_branch = @same, {{.*}}, true_branch = @sine} : (tensor<i1>, tensor<2xf32>) -> tensor<2xf32>
// BRANCH-LABEL: func.func @chosen_grad
// BRANCH: "oneflow.cond"(%arg0, %arg1, %arg2) {false_branch = @[[FALSE:body_[0-9a-f]+]],{{.*}} true_branch = @[[TRUE:body_[0-9a-f]+]]}
// BRANCH: func.func private @[[TRUE]](
// BRANCH: "oneflow.cos"
// BRANCH: func.func private @[[FALSE]](
func.func @chosen(%p: tensor<i1>, %x: tensor<2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.cond"(%p, %x) {true_branch = @sine, false_branch = @same} : (tensor<i1>, tensor<2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// The arguments of a body are refined to the types that all operators pass; results of operators to the body's.
func.func private @grown(%h: tensor<?xf32>, %x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = "oneflow.broadcast_add"(%h, %x) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %0, %0 : tensor<?xf32>, tensor<?xf32>
}
// CHECK: func.func private @grown(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
// CHECK-LABEL: func.func @refined
// CHECK: "oneflow.scan"(%{{.*}}) {body = @grown, {{.*}} : (tensor<3xf32>, tensor<?x3xf32>) -> (tensor<3xf32>, tensor<?x3xf32>, tensor<?x3xf32>)
func.func @refined(%h: tensor<3xf32>, %x: tensor<?x3xf32>) -> tensor<?x?xf32> {
  %0:3 = "oneflow.scan"(%h, %x) {body = @grown, states = 1 : i32, sequences = 1 : i32} : (tensor<3xf32>, tensor<?x3xf32>) -> (tensor<?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
  return %0#1 : tensor<?x?xf32>
}
