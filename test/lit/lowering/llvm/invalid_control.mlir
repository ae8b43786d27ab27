// RUN: oneflow-opt %s --oneflow-to-llvm --split-input-file --verify-diagnostics

// expected-error@below {{expected bodies that do not run themselves, got again -> again}}
func.func private @again(%h: tensor<2xf32>) -> tensor<2xf32> attributes {oneflow.body} {
  %0 = tensor.empty() : tensor<2xf32>
  %1 = call @oneflow_control_0(%h, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @oneflow_control_0(tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> attributes {oneflow.control = {form = "steps", functions = [@again], length = 3 : i64, outputs = 1 : i64, results = array<i64: 0>, reverse = false, sequences = 0 : i64, states = 1 : i64}}
func.func @main(%h: tensor<2xf32>) -> tensor<2xf32> {
  return %h : tensor<2xf32>
}

// -----

func.func private @same(%h: tensor<?xf32>) -> tensor<?xf32> {
  return %h : tensor<?xf32>
}
func.func @main(%h: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error@below {{oneflow.scan: expected static shapes for structured control flow, got tensor<?xf32>}}
  %0:2 = "oneflow.scan"(%h) {body = @same, states = 1 : i32, sequences = 0 : i32, length = 3 : i64} : (tensor<?xf32>) -> (tensor<?xf32>, tensor<3x?xf32>)
  return %0#0 : tensor<?xf32>
}

// -----

// expected-error@below {{expected oneflow.control to have the fields form, functions, states, sequences, length, outputs, reverse, results, got {length = 3 : i64}}}
func.func private @oneflow_control_0(tensor<2xf32>) -> tensor<2xf32> attributes {oneflow.control = {length = 3 : i64}}
func.func @main(%h: tensor<2xf32>) -> tensor<2xf32> {
  return %h : tensor<2xf32>
}

// -----

func.func private @again(%h: tensor<2xf32>) -> tensor<2xf32> attributes {oneflow.body} {
  %0 = tensor.empty() : tensor<2xf32>
  %1 = call @oneflow_control_0(%h, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
// expected-error@below {{expected functions with the attribute oneflow.body as bodies, got @main}}
func.func private @oneflow_control_0(tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> attributes {oneflow.control = {form = "steps", functions = [@main], length = 3 : i64, outputs = 1 : i64, results = array<i64: 0>, reverse = false, sequences = 0 : i64, states = 1 : i64}}
func.func @main(%h: tensor<2xf32>) -> tensor<2xf32> {
  return %h : tensor<2xf32>
}
