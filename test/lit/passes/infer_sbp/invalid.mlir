// RUN: oneflow-opt %s --oneflow-infer-sbp --split-input-file --verify-diagnostics
// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto" --split-input-file --verify-diagnostics

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @signature(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) -> tensor<8x6xf32> {
    // expected-error@below {{oneflow.matmul: the signature S(0), S(1) -> ? is not allowed for (tensor<8x4xf32>, tensor<4x6xf32>) -> (tensor<8x6xf32>); allowed are: S(0), B -> S(0); S(1), S(0) -> P; B, S(1) -> S(1); P, B -> P; B, P -> P; B, B -> B}}
    %0 = "oneflow.matmul"(%x, %w) {oneflow.in_nd_sbp = [[#sbp.split<0>], [#sbp.split<1>]]}
      : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @nonlinear(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error@below {{oneflow.relu: the signature P -> P is not allowed for (tensor<8xf32>) -> (tensor<8xf32>); allowed are: S(0) -> S(0); B -> B}}
    %0 = "oneflow.relu"(%x) {oneflow.in_nd_sbp = [[#sbp.partial_sum]], oneflow.out_nd_sbp = [[#sbp.partial_sum]]}
      : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  // expected-error@below {{argument 0: expected split axes below 2, the rank of the tensor, got S(2) for tensor<8x4xf32>}}
  func.func @axis(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.split<2>]}) {
    return
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2, 2>} {
  // expected-error@below {{argument 0: expected one SBP for each of the 2 mesh axes, got S(0) for tensor<8x4xf32>}}
  func.func @axes(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) {
    return
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @bool(%x: tensor<8xi1>) -> (tensor<8xi1> {oneflow.nd_sbp = [#sbp.partial_sum]}) {
    // expected-error@below {{result 0: expected no partial sums of i1, got P for tensor<8xi1>}}
    return %x : tensor<8xi1>
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @cast(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error@below {{oneflow.hierarchical_parallel_cast: expected one SBP for each of the 1 mesh axes, got [S(0), B] for tensor<8xf32>}}
    %0 = "oneflow.hierarchical_parallel_cast"(%x) {nd_sbp = [#sbp.split<0>, #sbp.broadcast]} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  // expected-error@below {{func.func: expected #sbp.split<axis>, #sbp.broadcast or #sbp.partial_sum, got 7 : i64}}
  func.func @kind(%x: tensor<8xf32> {oneflow.nd_sbp = 7}) {
    return
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  // expected-error@below {{expected static shapes where tensors are split over devices, got tensor<?xf32>; state the shapes: programs of many devices are compiled for each of them}}
  func.func @dynamic(%x: tensor<?xf32>) {
    return
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  // expected-error@below {{expected static shapes where tensors are split over devices, got tensor<?xf32>; state the shapes: programs of many devices are compiled for each of them}}
  func.func @dynamic_result(%x: tensor<4xf32>) -> tensor<?xf32> {
    %0 = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @unranked(%x: tensor<4xf32>) {
    // expected-error@below {{expected static shapes where tensors are split over devices, got tensor<*xf32>; state the shapes: programs of many devices are compiled for each of them}}
    %0 = "oneflow.relu"(%x) : (tensor<4xf32>) -> tensor<*xf32>
    return
  }
}

// -----

// expected-error@unknown {{expected a mesh: the module attribute oneflow.mesh = array<i64: 2, 2>, or the option mesh=2,2}}
module {
  func.func @no_mesh(%x: tensor<8xf32>) {
    return
  }
}

// -----

// expected-error@unknown {{expected a mesh of positive sizes such as array<i64: 2, 2>, got array<i64: 2, 0>}}
module attributes {oneflow.mesh = array<i64: 2, 0>} {
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @recursive(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error@below {{func.call: expected @recursive not to call itself}}
    %0 = call @recursive(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// expected-error@unknown {{expected a mesh of at most 65536 devices and 4 axes, got array<i64: 1000, 1000>}}
module attributes {oneflow.mesh = array<i64: 1000, 1000>} {
}

// -----

module attributes {oneflow.mesh = array<i64: 3>,
                   oneflow.placements = {a = dense<[0, 1]> : tensor<2xi64>, b = dense<2> : tensor<1xi64>}} {
  func.func @apart(%x: tensor<4xf32> {oneflow.placement = "a"}, %y: tensor<4xf32> {oneflow.placement = "b"}) -> tensor<4xf32> {
    // expected-error@below {{oneflow.broadcast_add: expected operands on one placement, got a (ranks [0, 1]) and b (ranks [2]); move one with x.to_global(placement, sbp), a hierarchical_parallel_cast with the attribute placement}}
    %0 = "oneflow.broadcast_add"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 3>, oneflow.placements = {a = dense<[0, 1]> : tensor<2xi64>}} {
  func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@below {{oneflow.hierarchical_parallel_cast: expected one of the placements mesh, a, got 'b'}}
    %0 = "oneflow.hierarchical_parallel_cast"(%x) {nd_sbp = [#sbp.broadcast], placement = "b"} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 3>, oneflow.placements = {a = dense<[0, 1]> : tensor<2xi64>}} {
  func.func @axes(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@below {{oneflow.hierarchical_parallel_cast: expected one SBP for each of the 1 mesh axes, got [B, B] for tensor<4xf32>}}
    %0 = "oneflow.hierarchical_parallel_cast"(%x) {nd_sbp = [#sbp.broadcast, #sbp.broadcast], placement = "a"} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 3>, oneflow.placements = {a = dense<[0, 1]> : tensor<2xi64>}} {
  func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
  func.func @calls(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@below {{func.call: expected operators alone in a program of several placements; inline calls}}
    %0 = func.call @callee(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// expected-error@below {{oneflow.placements: expected a to be different ranks below 2, the size of the mesh, such as dense<[0, 1]> : tensor<2xi64>, got dense<[0, 2]> : tensor<2xi64>}}
module attributes {oneflow.mesh = array<i64: 2>, oneflow.placements = {a = dense<[0, 2]> : tensor<2xi64>}} {
}

// -----

module attributes {oneflow.mesh = array<i64: 2, 2>} {
  func.func @plain_cast(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error@below {{oneflow.parallel_cast: expected a mesh of one axis, got [2, 2]; write hierarchical_parallel_cast with an SBP for each axis}}
    %0 = "oneflow.parallel_cast"(%x) {sbp_parallel = "S(0)", grad_sbp_parallel = ""} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>, oneflow.placements = {back = dense<1> : tensor<1xi64>}} {
  func.func @unknown_rank(%x: tensor<*xf32>) -> tensor<*xf32> {
    // expected-error@below {{oneflow.hierarchical_parallel_cast: operand of unknown rank; run oneflow-infer-types first}}
    %0 = "oneflow.hierarchical_parallel_cast"(%x) {nd_sbp = [#sbp.partial_sum], placement = "back"} : (tensor<*xf32>) -> tensor<*xf32>
    return %0 : tensor<*xf32>
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @unknown_rank_of_a_parallel_cast(%x: tensor<*xf32>) -> tensor<*xf32> {
    // expected-error@below {{oneflow.parallel_cast: operand of unknown rank; run oneflow-infer-types first}}
    %0 = "oneflow.parallel_cast"(%x) {sbp_parallel = "S(0)", grad_sbp_parallel = ""} : (tensor<*xf32>) -> tensor<*xf32>
    return %0 : tensor<*xf32>
  }
}

// -----

// expected-error@below {{oneflow.placements: expected back to be different ranks below 2, the size of the mesh, such as dense<[0, 1]> : tensor<2xi64>, got dense<1> : tensor<2147483647xi64>}}
module attributes {oneflow.mesh = array<i64: 2>, oneflow.placements = {back = dense<1> : tensor<2147483647xi64>}} {
}

// -----

// expected-error@below {{expected back to be different ranks below 2, the size of the mesh, such as dense<[0, 1]> : tensor<2xi64>, got dense<1> : tensor<1xi3>}}
module attributes {oneflow.mesh = array<i64: 2>, oneflow.placements = {back = dense<1> : tensor<1xi3>}} {
}

// -----

// expected-error@below {{oneflow.placements: expected ranks by the name of a placement, got unit}}
module attributes {oneflow.mesh = array<i64: 2>, oneflow.placements} {
}
