// RUN: oneflow-opt %s --oneflow-check-collectives --split-input-file --verify-diagnostics

module attributes {oneflow.mesh = array<i64: 2>} {
  module attributes {oneflow.rank = 0 : i64} {
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      // expected-error@below {{expected all ranks to issue the same collective 0, got oneflow.ccl_all_reduce along mesh axes array<i32: 0> on rank 0 and oneflow.ccl_all_gather along mesh axes array<i32: 0> on rank 1}}
      %0 = "oneflow.ccl_all_reduce"(%x) {mesh_axes = array<i32: 0>, members = 2 : si32, index = 0 : si32} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  module attributes {oneflow.rank = 1 : i64} {
    func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
      %0 = "oneflow.ccl_all_gather"(%x) {axis = 0 : si32, sizes = array<i64: 2, 2>, mesh_axes = array<i32: 0>, members = 2 : si32, index = 1 : si32} : (tensor<2xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  module attributes {oneflow.rank = 0 : i64} {
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "oneflow.ccl_all_reduce"(%x) {mesh_axes = array<i32: 0>, members = 2 : si32, index = 0 : si32} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  module attributes {oneflow.rank = 1 : i64} {
    func.func @main(%x: tensor<4xf16>) -> tensor<4xf16> {
      // expected-error@below {{collective 0, oneflow.ccl_all_reduce: expected ranks 0 and 1 to have the same element type, got f32 and f16}}
      %0 = "oneflow.ccl_all_reduce"(%x) {mesh_axes = array<i32: 0>, members = 2 : si32, index = 1 : si32} : (tensor<4xf16>) -> tensor<4xf16>
      return %0 : tensor<4xf16>
    }
  }
}

// -----

// expected-error@unknown {{expected a module of each of the 2 ranks of the mesh, got ranks [1]}}
module attributes {oneflow.mesh = array<i64: 2>} {
  module attributes {oneflow.rank = 1 : i64} {
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 1>} {
  // expected-error@below {{expected the rank of each module: the attribute oneflow.rank}}
  module {
  }
}

// -----

// expected-error@unknown {{expected a program of all ranks, or a module of each; got the program of one rank}}
module attributes {oneflow.mesh = array<i64: 2>, oneflow.rank = 0 : i64} {
}

// -----

// Ranks that take part in other collectives meet where both are members.
module attributes {oneflow.mesh = array<i64: 3>} {
  module attributes {oneflow.rank = 0 : i64} {
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "oneflow.ccl_all_reduce"(%x) {mesh_axes = array<i32: 0>, members = 2 : si32, index = 0 : si32, ranks = array<i64: 0, 1>} : (tensor<4xf32>) -> tensor<4xf32>
      // expected-error@below {{expected all ranks to issue the same collective 1, got oneflow.ccl_all_reduce between ranks [0, 2] on rank 0 and oneflow.ccl_all_reduce between ranks [1, 2] on rank 2}}
      %1 = "oneflow.ccl_all_reduce"(%0) {mesh_axes = array<i32: 0>, members = 2 : si32, index = 0 : si32, ranks = array<i64: 0, 2>} : (tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
  }
  module attributes {oneflow.rank = 1 : i64} {
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "oneflow.ccl_all_reduce"(%x) {mesh_axes = array<i32: 0>, members = 2 : si32, index = 1 : si32, ranks = array<i64: 0, 1>} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  module attributes {oneflow.rank = 2 : i64} {
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "oneflow.ccl_all_reduce"(%x) {mesh_axes = array<i32: 0>, members = 2 : si32, index = 1 : si32, ranks = array<i64: 1, 2>} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
}
