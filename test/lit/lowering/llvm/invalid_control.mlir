// RUN: oneflow-opt %s --oneflow-to-llvm --split-input-file --verify-diagnostics

// expected-error@below {{expected bodies that do not run themselves, got again -> again}}
func.func private @again(%h: tensor<2xf32>) -> tensor<2xf32> {
  %0:2 = "oneflow.scan"(%h) {body = @again, states = 1 : i32, sequences = 0 : i32, length = 3 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
  return %0#0 : tensor<2xf32>
}
func.func @main(%h: tensor<2xf32>) -> tensor<2xf32> {
  %0:2 = "oneflow.scan"(%h) {body = @again, states = 1 : i32, sequences = 0 : i32, length = 3 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
  return %0#0 : tensor<2xf32>
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
