// RUN: oneflow-opt %s --oneflow-autodiff="func=f" --split-input-file --verify-diagnostics

func.func private @two(%h: tensor<2xf32>) -> tensor<2xf64> {
  %0 = "oneflow.cast"(%h) {dtype = f64} : (tensor<2xf32>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}
func.func @f(%h: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{oneflow.scan: expected the body to return state 0 as tensor<2xf32>, got tensor<2xf64>}}
  %0:2 = "oneflow.scan"(%h) {body = @two, states = 1 : i32, sequences = 0 : i32, length = 3 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
  return %0#0 : tensor<2xf32>
}

// -----

// A function that is its own body, and two functions that are bodies of each other.
func.func @f(%h: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{oneflow.scan: expected a body that does not run the function around the operator}}
  %0:2 = "oneflow.scan"(%h) {body = @f, states = 1 : i32, sequences = 0 : i32, length = 3 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
  return %0#0 : tensor<2xf32>
}

// -----

func.func private @other(%h: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{oneflow.scan: expected a body that does not run the function around the operator}}
  %0:2 = "oneflow.scan"(%h) {body = @f, states = 1 : i32, sequences = 0 : i32, length = 3 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
  return %0#0 : tensor<2xf32>
}
func.func @f(%h: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{oneflow.scan: expected a body that does not run the function around the operator}}
  %0:2 = "oneflow.scan"(%h) {body = @other, states = 1 : i32, sequences = 0 : i32, length = 3 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
  return %0#0 : tensor<2xf32>
}

// -----

func.func @f(%h: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{oneflow.scan: attribute body: expected a function of the module, got @absent}}
  %0:2 = "oneflow.scan"(%h) {body = @absent, states = 1 : i32, sequences = 0 : i32, length = 3 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
  return %0#0 : tensor<2xf32>
}

// -----

func.func private @same(%h: tensor<2xf32>) -> tensor<2xf32> {
  return %h : tensor<2xf32>
}
func.func @f(%h: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{oneflow.scan: expected sequences of one length, or the attribute length, got neither}}
  %0:2 = "oneflow.scan"(%h) {body = @same, states = 1 : i32, sequences = 0 : i32} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
  return %0#0 : tensor<2xf32>
}

// -----

func.func private @same(%h: tensor<f32>) -> tensor<f32> {
  return %h : tensor<f32>
}
func.func private @holds(%h: tensor<f32>) -> tensor<i1> {
  %0 = "oneflow.broadcast_less"(%h, %h) : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func @f(%h: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{oneflow.while_loop has no gradient: the number of steps is not known before the run}}
  %0 = "oneflow.while_loop"(%h) {condition = @holds, body = @same, states = 1 : i32} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func private @loops(%h: tensor<f32>) -> tensor<f32> {
  %0 = scf.execute_region -> tensor<f32> {
    scf.yield %h : tensor<f32>
  }
  return %0 : tensor<f32>
}
func.func @f(%h: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{@loops: expected operators of oneflow in a function that is a body, got scf.execute_region}}
  %0:2 = "oneflow.scan"(%h) {body = @loops, states = 1 : i32, sequences = 0 : i32, length = 2 : i64} : (tensor<f32>) -> (tensor<f32>, tensor<2xf32>)
  return %0#0 : tensor<f32>
}
