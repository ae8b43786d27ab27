// RUN: oneflow-opt %s --oneflow-autodiff="func=f" --split-input-file --verify-diagnostics

func.func @f(%x: tensor<2xf32>) -> tensor<f32> {
  %0 = "oneflow.square"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error@below {{oneflow.bernoulli has no gradient: jumps between 0 and 1; the gradient is required along input 0 -> oneflow.square -> oneflow.bernoulli -> oneflow.exp -> oneflow.reduce_sum -> result}}
  %1 = "oneflow.bernoulli"(%0) {dtype = f32} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "oneflow.exp"(%1) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = "oneflow.reduce_sum"(%2) {axis = array<i32: 0>} : (tensor<2xf32>) -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

func.func @f(%c: i1, %x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{scf.if has no gradient: the entry is no operator of the dialect; the gradient is required along input 0 -> scf.if -> oneflow.sin -> result}}
  %0 = scf.if %c -> tensor<f32> {
    %1 = "oneflow.cos"(%x) : (tensor<f32>) -> tensor<f32>
    scf.yield %1 : tensor<f32>
  } else {
    scf.yield %x : tensor<f32>
  }
  %2 = "oneflow.sin"(%0) : (tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// expected-error@below {{oneflow-autodiff: expected a result that is a tensor of floats}}
func.func @f(%x: tensor<2xf32>) -> tensor<i64> {
  %0 = "oneflow.argmax"(%x) : (tensor<2xf32>) -> tensor<i64>
  return %0 : tensor<i64>
}

// -----

func.func @f(%x: tensor<*xf32>) -> tensor<*xf32> {
  // expected-error@below {{expected tensors of known rank, got tensor<*xf32>; run oneflow-infer-types first}}
  %0 = "oneflow.sin"(%x) : (tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// -----

func.func @f(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{cannot inline @f: it calls itself, by f -> f}}
  %0 = call @f(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error@below {{expected a function of one block, but @g has no body}}
func.func private @g(%x: tensor<f32>) -> tensor<f32>
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @g(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @f(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
// expected-error@below {{oneflow-autodiff: expected no function @f_grad, got one; rename that function}}
func.func @f_grad(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

// expected-error@below {{expected a function of one block, but @f has branches between blocks}}
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  cf.br ^next(%x : tensor<f32>)
^next(%y: tensor<f32>):
  return %y : tensor<f32>
}

// -----

// The only way from the argument leads through integers.
func.func @f(%x: tensor<3xf32>) -> tensor<f32> {
  %0 = "oneflow.sin"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  // expected-error@below {{oneflow.cast gives i32, which has no gradient, and every path from input 0 leads through integers: input 0 -> oneflow.sin -> oneflow.cast -> oneflow.cast -> oneflow.reduce_sum -> result; leave the input out, or stop its gradient before}}
  %1 = "oneflow.cast"(%0) {dtype = i32} : (tensor<3xf32>) -> tensor<3xi32>
  %2 = "oneflow.cast"(%1) {dtype = f32} : (tensor<3xi32>) -> tensor<3xf32>
  %3 = "oneflow.reduce_sum"(%2) {axis = array<i32: 0>} : (tensor<3xf32>) -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

// One of two paths suffices: the error concerns the argument without a path.
func.func @f(%x: tensor<3xf32>, %n: tensor<3xf32>) -> tensor<f32> {
  // expected-error@below {{oneflow.broadcast_greater gives i1, which has no gradient, and every path from input 1 leads}}
  %0 = "oneflow.broadcast_greater"(%x, %n) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  %1 = "oneflow.cast"(%0) {dtype = f32} : (tensor<3xi1>) -> tensor<3xf32>
  %2 = "oneflow.broadcast_mul"(%1, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = "oneflow.reduce_sum"(%2) {axis = array<i32: 0>} : (tensor<3xf32>) -> tensor<f32>
  return %3 : tensor<f32>
}
