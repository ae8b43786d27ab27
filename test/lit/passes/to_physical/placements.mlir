// RUN: oneflow-opt %s --oneflow-infer-sbp | FileCheck %s --check-prefix=SBP
// RUN: oneflow-opt %s --oneflow-infer-sbp --oneflow-infer-sbp | FileCheck %s --check-prefix=SBP
// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto" --oneflow-insert-boxing --oneflow-check-collectives | FileCheck %s --check-prefix=BOXED
// RUN: oneflow-opt %s --oneflow-infer-sbp --oneflow-insert-boxing --oneflow-to-physical="check" | FileCheck %s --check-prefix=FIRST
// RUN: oneflow-opt %s --oneflow-infer-sbp --oneflow-insert-boxing --oneflow-to-physical="rank=2" | FileCheck %s --check-prefix=LAST
// RUN: oneflow-opt %s --oneflow-infer-sbp="explain" -o %t 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: %python -c "import numpy as np; np.savez(r'%t.npz', x=np.ones((8, 4), 'f'), w=np.eye(4, 6, dtype='f'), s=np.array(2, 'f'))"
// RUN: oneflow-run %s --input %t.npz --simulate | FileCheck %s --check-prefix=RESULT
// RUN: oneflow-run %s --input %t.npz --nproc 3 | FileCheck %s --check-prefix=RESULT

// An operator has the placement of its operands. A value without a placement is on all ranks and needs no transfer:
// both stages multiply by %s, and only the last stage has the result.
// SBP: %[[X:.*]] = "oneflow.hierarchical_parallel_cast"(%arg0) {{.*}}placement = "front"
// SBP: %[[Y:.*]] = "oneflow.matmul"(%[[X]], %arg1) {{.*}}oneflow.placement = "front"
// SBP: "oneflow.hierarchical_parallel_cast"(%{{.*}}) {nd_sbp = [#sbp.broadcast], oneflow.in_nd_sbp = {{\[\[}}#sbp.split<1 : i64>{{.*}}placement = "back"
// SBP: return %{{.*}}, %{{.*}} : tensor<8x6xf32>, tensor<f32>

// BOXED: oneflow.placements = {back = dense<2> : tensor<1xi64>, front = dense<[0, 1]> : tensor<2xi64>}

// FIRST: func.func @main(%arg0: tensor<8x4xf32> {{{.*}}}, %arg1: tensor<4x3xf32> {{{.*}}oneflow.placement = "front"}
// FIRST-SAME: -> (tensor<0xf32> {{{.*}}oneflow.logical_shape = array<i64: 8, 6>, {{.*}}oneflow.placement = "back"}
// FIRST-NEXT: %[[PRODUCT:.*]] = "oneflow.matmul"(%arg0, %arg1) : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
// FIRST-NEXT: %[[HALF:.*]] = "oneflow.broadcast_mul"(%[[PRODUCT]], %arg2)
// FIRST-NEXT: "oneflow.ccl_send_recv"(%[[HALF]]) {dst_members = array<i64: 2>, {{.*}}ranks = array<i64: 0, 1, 2>{{.*}} -> tensor<0xf32>
// FIRST-NOT: oneflow.tanh
// FIRST: "oneflow.broadcast_add"(%arg2, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32>

// LAST: func.func @main(%arg0: tensor<8x4xf32> {{{.*}}}, %arg1: tensor<0xf32>
// LAST-NEXT: %[[NOTHING:.*]] = arith.constant dense<> : tensor<0xf32>
// LAST-NEXT: %[[GOT:.*]] = "oneflow.ccl_send_recv"(%[[NOTHING]]) {{.*}} -> tensor<8x6xf32>
// LAST-NEXT: %[[T:.*]] = "oneflow.tanh"(%[[GOT]]) : (tensor<8x6xf32>) -> tensor<8x6xf32>
// LAST-NEXT: "oneflow.broadcast_mul"(%[[T]], %arg2)

// EXPLAIN: @main, mesh (ranks [0, 1, 2]), on a mesh of 3
// EXPLAIN: @main, back (ranks [2]), on a mesh of 1
// EXPLAIN: received () -> (tensor<8x6xf32>)
// EXPLAIN: @main, front (ranks [0, 1]), on a mesh of 2
// EXPLAIN: sent (tensor<8x6xf32>) -> ()
// EXPLAIN: * S(1) ->

// RESULT: y: float32[8, 6]
// RESULT-NEXT: {{\[}}[1.9280552 1.9280552 1.9280552 1.9280552 0. 0.
// RESULT: 4.0
module attributes {oneflow.mesh = array<i64: 3>,
                   oneflow.placements = {front = dense<[0, 1]> : tensor<2xi64>, back = dense<2> : tensor<1xi64>}} {
  func.func @main(%x: tensor<8x4xf32> {oneflow.name = "x"},
                  %w: tensor<4x6xf32> {oneflow.name = "w", oneflow.nd_sbp = [#sbp.split<1>], oneflow.placement = "front"},
                  %s: tensor<f32> {oneflow.name = "s"}) -> (tensor<8x6xf32> {oneflow.name = "y"}, tensor<f32>) {
    %0 = "oneflow.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %1 = "oneflow.broadcast_mul"(%0, %s) : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
    %2 = "oneflow.hierarchical_parallel_cast"(%1) {nd_sbp = [#sbp.broadcast], placement = "back"}
      : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %3 = "oneflow.tanh"(%2) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %4 = "oneflow.broadcast_mul"(%3, %s) : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
    %5 = "oneflow.broadcast_add"(%s, %s) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %4, %5 : tensor<8x6xf32>, tensor<f32>
  }
}
