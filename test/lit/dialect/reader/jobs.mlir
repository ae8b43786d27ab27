// RUN: oneflow-opt %s --split-input-file | FileCheck %s

// A job is a function; the variables of the job are named arguments after the arguments of the job.

// CHECK-LABEL: func.func @two_layers
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>, %[[W:.*]]: tensor<3x4xf32> {oneflow.name = "net.w"}) -> tensor<2x4xf32>
// CHECK-NEXT: %[[Y:.*]] = "oneflow.matmul"(%[[X]], %[[W]])
// CHECK-NEXT: return %[[Y]] : tensor<2x4xf32>
module  {
  oneflow.job @two_layers(%x: tensor<2x3xf32>) ->tensor<2x4xf32>
  {
    %in, %ctrl = "oneflow.input"(%x) {data_type = 2 : i32, device_name = ["@0:0"], device_tag = "cpu", hierarchy = [1], nd_sbp = ["B"], op_name = "in", output_lbns = ["in/out"], shape = [2 : si64, 3 : si64]} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i1>)
    %w = "oneflow.variable"(%ctrl) {data_type = 2 : i32, device_name = ["@0:0"], device_tag = "cpu", hierarchy = [1], op_name = "net.w", output_lbns = ["net.w/out"], parallel = #sbp.parallel<[] -> [#sbp.B]>, shape = [3 : si64, 4 : si64]} : (tensor<i1>) -> tensor<3x4xf32>
    %0 = "oneflow.matmul"(%in, %w) {device_name = ["@0:0"], device_tag = "cpu", hierarchy = [1], op_name = "m", scope_symbol_id = 4 : i64} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %out = "oneflow.output"(%0) {data_type = 2 : i32, device_name = ["@0:0"], device_tag = "cpu", hierarchy = [1], nd_sbp = ["B"], op_name = "out", output_lbns = ["out/out"]} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    oneflow.return %out :  tensor<2x4xf32>
  }
}

// -----

// The generic form, without results; "oneflow.job" in a comment or in a string stays.

// CHECK-LABEL: func.func @generic
// CHECK-SAME: note = "oneflow.job, oneflow.return"
// CHECK-NEXT: return
"oneflow.job"() ({
  "oneflow.return"() : () -> ()
}) {function_type = () -> (), note = "oneflow.job, oneflow.return", sym_name = "generic"} : () -> ()

// -----

// Layouts of several devices: a flat list in `parallel` is one tensor's.

// CHECK: module attributes {oneflow.mesh = array<i64: 2, 2>}
// CHECK-LABEL: func.func @spread
// CHECK-SAME: oneflow.nd_sbp = [#sbp.split<0 : i64>, #sbp.broadcast]
// CHECK-SAME: {oneflow.name = "a", oneflow.nd_sbp = [#sbp.broadcast, #sbp.split<1 : i64>]}
// CHECK-SAME: {oneflow.name = "b", oneflow.nd_sbp = [#sbp.broadcast, #sbp.partial_sum]}
// CHECK-SAME: {oneflow.name = "open"}
// CHECK-SAME: -> (tensor<4x5xf32> {oneflow.nd_sbp = [#sbp.split<0 : i64>, #sbp.broadcast]})
// CHECK: "oneflow.relu"
// CHECK-SAME: oneflow.in_nd_sbp = {{\[\[}}#sbp.broadcast, #sbp.split<1 : i64>]]
// CHECK-SAME: oneflow.out_nd_sbp = {{\[\[}}#sbp.broadcast, #sbp.split<1 : i64>]]
oneflow.job @spread(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %in = "oneflow.input"(%x) {device_name = ["@0:0-3"], device_tag = "cuda", hierarchy = [2, 2], nd_sbp = ["S(0)", "B"], op_name = "in", output_lbns = [""]} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %a = "oneflow.variable"() {device_tag = "cuda", hierarchy = [2, 2], op_name = "a", parallel = #sbp.parallel<[] -> [#sbp.B, #sbp.S<1>]>} : () -> tensor<4x5xf32>
  %b = "oneflow.variable"() {device_tag = "cuda", hierarchy = [2, 2], op_name = "b", parallel = #sbp.parallel<[] -> [[#sbp.B, #sbp.P]]>} : () -> tensor<4x5xf32>
  %c = "oneflow.variable"() {device_tag = "cuda", hierarchy = [2, 2], op_name = "open", parallel = #sbp.parallel<[] -> [[#sbp.Any, #sbp.B]]>} : () -> tensor<4x5xf32>
  %r = "oneflow.relu"(%a) {device_tag = "cuda", hierarchy = [2, 2], parallel = #sbp.parallel<[[#sbp.B, #sbp.S<1>]] -> [[#sbp.B, #sbp.S<1>]]>} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %0 = "oneflow.add_n"(%in, %r, %b, %c) {device_tag = "cuda", hierarchy = [2, 2]} : (tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %out = "oneflow.output"(%0) {device_tag = "cuda", hierarchy = [2, 2], nd_sbp = ["S(0)", "B"], op_name = "out"} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  oneflow.return %out : tensor<4x5xf32>
}

// -----

// Operations of any type: names, sizes of repeated operands, attributes; control edges go.

// CHECK-LABEL: func.func @opaque
// CHECK: %[[R:.*]] = "oneflow.relu"(%arg0) {device_tag = "cpu", op_name = "r"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK: %[[D:.*]]:3 = "oneflow.layer_norm"(%[[R]], %arg1)
// CHECK-SAME: begin_norm_axis = 1 : i64
// CHECK-SAME: operandSegmentSizes = array<i32: 1, 0, 1>
// CHECK-NOT: op_type_name
// CHECK: return %[[D]]#0
oneflow.job @opaque(%x: tensor<2x3xf32>, %g: tensor<3xf32>) -> tensor<2x3xf32> {
  %0, %ctrl = "oneflow.user"(%x) {device_tag = "cpu", input_sizes = [1 : i32], op_name = "r", op_type_name = "relu", operand_segment_sizes = array<i32: 1, 0>, output_sizes = [1 : i32], result_segment_sizes = array<i32: 1, 1>} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i1>)
  %y:3 = "oneflow.user"(%0, %g, %ctrl) {begin_norm_axis = 1 : si64, begin_params_axis = 1 : si64, center = false, scale = true, epsilon = 1.0e-05 : f64, device_tag = "cpu", input_sizes = [1 : i32, 0 : i32, 1 : i32], op_name = "n", op_type_name = "layer_norm", operand_segment_sizes = array<i32: 2, 1>, output_sizes = [1 : i32, 1 : i32, 1 : i32], result_segment_sizes = array<i32: 3, 0>} : (tensor<2x3xf32>, tensor<3xf32>, tensor<i1>) -> (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>)
  oneflow.return %y#0 : tensor<2x3xf32>
}

// -----

// Bools are integers of 8 bits in jobs; special cases have separate names; a frozen variable is a constant.

// CHECK-LABEL: func.func @special
// CHECK-SAME: (%[[MASK:.*]]: tensor<2x3xi1>, %[[X:.*]]: tensor<2x3xf32>, %[[N:.*]]: tensor<2x3xi8>) -> (tensor<2x3xf32>, tensor<2x3xi1>, tensor<2x3xi8>)
// CHECK: %[[V:.*]] = arith.constant dense<2.000000e+00> : tensor<2x3xf32>
// CHECK: %[[SUM:.*]] = "oneflow.add_n"(%[[X]], %[[V]])
// CHECK: %[[LESS:.*]] = "oneflow.broadcast_less"(%[[SUM]], %[[X]]) {{.*}} -> tensor<2x3xi1>
// CHECK: %[[ALL:.*]] = "oneflow.broadcast_logical_and"(%[[LESS]], %[[MASK]])
// CHECK: return %[[SUM]], %[[ALL]], %[[N]]
oneflow.job @special(%mask: tensor<2x3xsi8>, %x: tensor<2x3xf32>, %n: tensor<2x3xsi8>) -> (tensor<2x3xf32>, tensor<2x3xsi8>, tensor<2x3xsi8>) {
  %0 = "oneflow.input"(%mask) {data_type = 12 : i32, device_tag = "cpu"} : (tensor<2x3xsi8>) -> tensor<2x3xsi8>
  %1 = "oneflow.input"(%n) {data_type = 4 : i32, device_tag = "cpu"} : (tensor<2x3xsi8>) -> tensor<2x3xsi8>
  %v = "oneflow.variable_ir"() {device_tag = "cpu", nd_sbp = ["B"], op_name = "v", value = dense<2.0> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  %sum = "oneflow.add_n2"(%x, %v) {device_tag = "cpu", op_type_name = "add_n"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %less = "oneflow.broadcast_less"(%sum, %x) {device_tag = "cpu"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xsi8>
  %all = "oneflow.broadcast_logical_and"(%less, %0) {device_tag = "cpu"} : (tensor<2x3xsi8>, tensor<2x3xsi8>) -> tensor<2x3xsi8>
  oneflow.return %sum, %all, %1 : tensor<2x3xf32>, tensor<2x3xsi8>, tensor<2x3xsi8>
}

// -----

// Tensors that operators update in place are results of the function, after the results of the job.

// CHECK-LABEL: func.func @training
// CHECK-SAME: -> (tensor<2x3xf32>, tensor<3xf32> {oneflow.name = "mean"}, tensor<3xf32> {oneflow.name = "variance"})
// CHECK: %[[FIRST:.*]]:5 = "oneflow.normalization"(%arg0, %arg2, %arg3, %arg1, %arg1)
// CHECK: %[[NEXT:.*]]:5 = "oneflow.normalization"(%[[FIRST]]#0, %[[FIRST]]#3, %[[FIRST]]#4, %arg1, %arg1)
// CHECK: %[[LAST:.*]] = "oneflow.normalization"(%[[NEXT]]#0, %arg2, %arg3, %arg1, %arg1)
// CHECK-SAME: training = false
// CHECK: return %[[LAST]], %[[NEXT]]#3, %[[NEXT]]#4
oneflow.job @training(%x: tensor<2x3xf32>, %p: tensor<3xf32>) -> tensor<2x3xf32> {
  %m = "oneflow.variable"() {device_tag = "cpu", op_name = "mean"} : () -> tensor<3xf32>
  %v = "oneflow.variable"() {device_tag = "cpu", op_name = "variance"} : () -> tensor<3xf32>
  %0:3 = "oneflow.normalization"(%x, %m, %v, %p, %p) {axis = 1 : si32, device_tag = "cpu", epsilon = 1.0e-05 : f32, momentum = 0.5 : f32, operand_segment_sizes = array<i32: 1, 1, 1, 1, 1, 0>, result_segment_sizes = array<i32: 1, 1, 1>, training = true} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  %1:3 = "oneflow.normalization"(%0#0, %m, %v, %p, %p) {axis = 1 : si32, device_tag = "cpu", epsilon = 1.0e-05 : f32, momentum = 0.5 : f32, operand_segment_sizes = array<i32: 1, 1, 1, 1, 1, 0>, result_segment_sizes = array<i32: 1, 1, 1>, training = true} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  %2 = "oneflow.normalization_infer"(%1#0, %m, %v, %p, %p) {axis = 1 : si32, device_tag = "cpu", epsilon = 1.0e-05 : f32, momentum = 0.5 : f32, operand_segment_sizes = array<i32: 1, 1, 1, 1, 1, 0>, result_segment_sizes = array<i32: 1, 1, 1>, training = true} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  oneflow.return %2 : tensor<2x3xf32>
}
