// RUN: not oneflow-opt %s --split-input-file 2>&1 | FileCheck %s

// CHECK: jobs_errors.mlir:[[# @LINE + 3]]:3: error: "okm.plan_memref": the dialect okm holds the memory of OneFlow's kernels; expected operators of the dialect oneflow
// CHECK-NEXT: "okm.plan_memref"() : () -> memref<2xf32>
func.func @memory() {
  "okm.plan_memref"() : () -> memref<2xf32>
  return
}

// -----

// CHECK: :[[# @LINE + 1]]:24: error: !okl.launcher_ctx: the dialect okl holds calls of OneFlow's kernels
func.func @calls(%ctx: !okl.launcher_ctx) {
  return
}

// -----

// CHECK: :[[# @LINE + 2]]:8: error: oneflow.mlir_jit: this operator holds code that OneFlow has compiled
oneflow.job @compiled(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = oneflow.mlir_jit @code(%x) : (tensor<2xf32>) -> tensor<2xf32>
  oneflow.return %0 : tensor<2xf32>
}

// -----

// CHECK: :[[# @LINE + 2]]:80: error: expected #sbp.parallel<[..] -> [..]>, in each list #sbp.S<axis>, #sbp.B, #sbp.P, #sbp.Any or lists of these, got #sbp.parallel<[] -> [[["
oneflow.job @layout() {
  %0 = "oneflow.variable"() {device_tag = "cpu", op_name = "v", parallel =     #sbp.parallel<[] -> [[["S(0)"]]]>} : () -> tensor<5x8xf32>
  oneflow.return
}

// -----

// CHECK: :[[# @LINE + 2]]:8: error: oneflow.user: unknown operator oneflow.rely; did you mean oneflow.relu?
oneflow.job @unknown(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "oneflow.user"(%x) {device_tag = "cpu", op_type_name = "rely"} : (tensor<2xf32>) -> tensor<2xf32>
  oneflow.return %0 : tensor<2xf32>
}

// -----

// CHECK: :[[# @LINE + 3]]:8: error: oneflow.variable: expected one hierarchy in a program, [2, 2], got [4]
oneflow.job @meshes(%x: tensor<4xf32>) {
  %0 = "oneflow.input"(%x) {device_tag = "cpu", hierarchy = [2, 2], nd_sbp = ["B", "B"]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "oneflow.variable"() {device_tag = "cpu", hierarchy = [4], op_name = "v", parallel = #sbp.parallel<[] -> [#sbp.B]>} : () -> tensor<4xf32>
  oneflow.return
}

// -----

// CHECK: :[[# @LINE + 2]]:8: error: oneflow.input: expected a result of type tensor<4xf32>, got tensor<5xf32>
oneflow.job @types(%x: tensor<4xf32>) -> tensor<5xf32> {
  %0 = "oneflow.input"(%x) {device_tag = "cpu"} : (tensor<4xf32>) -> tensor<5xf32>
  oneflow.return %0 : tensor<5xf32>
}

// -----

// CHECK: :[[# @LINE + 2]]:12: error: oneflow.input: expected no operator of tensors to use the control edge, its last result
oneflow.job @control(%x: tensor<4xf32>) -> tensor<i1> {
  %0, %1 = "oneflow.input"(%x) {device_tag = "cpu"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<i1>)
  oneflow.return %1 : tensor<i1>
}

// -----

// CHECK: :[[# @LINE + 2]]:8: error: oneflow.variable: expected the string op_name, got None
oneflow.job @nameless() {
  %0 = "oneflow.variable"() {device_tag = "cpu"} : () -> tensor<4xf32>
  oneflow.return
}

// -----

// CHECK: :[[# @LINE + 2]]:8: error: oneflow.system: expected an operator of tensors: this is a step of OneFlow's runtime
oneflow.job @system() {
  %0 = "oneflow.system"() {device_tag = "cpu", op_type_case = 1 : i32} : () -> tensor<4xf32>
  oneflow.return
}

// -----

// CHECK: :[[# @LINE + 2]]:8: error: oneflow.input: expected nd_sbp to be a list, got 1 : i64
oneflow.job @no_list(%x: tensor<4xf32>) {
  %0 = "oneflow.input"(%x) {device_tag = "cpu", hierarchy = [2], nd_sbp = 1} : (tensor<4xf32>) -> tensor<4xf32>
  oneflow.return
}

// -----

// CHECK: :[[# @LINE + 2]]:8: error: oneflow.user: expected input_sizes to be a list of integers, got ["a"]
oneflow.job @no_integers(%x: tensor<4xf32>) {
  %0 = "oneflow.user"(%x) {device_tag = "cpu", input_sizes = ["a"], op_type_name = "layer_norm"} : (tensor<4xf32>) -> tensor<4xf32>
  oneflow.return
}

// -----

// CHECK: :[[# @LINE + 2]]:3: error: oneflow.variable: expected a tensor as its result, got none
oneflow.job @no_result() {
  "oneflow.variable"() {device_tag = "cpu", op_name = "v"} : () -> ()
  oneflow.return
}

// -----

// CHECK: :[[# @LINE + 1]]:1: error: expected oneflow.return at the end of the job
oneflow.job @control(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "oneflow.input"(%x) {device_tag = "cpu"} : (tensor<4xf32>) -> tensor<4xf32>
}
