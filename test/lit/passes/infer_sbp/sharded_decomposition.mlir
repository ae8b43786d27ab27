// RUN: oneflow-opt %s --oneflow-infer-sbp --oneflow-insert-boxing | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto" | FileCheck %s --check-prefix=AUTO
// RUN: oneflow-opt %s --oneflow-infer-sbp --oneflow-insert-boxing --oneflow-to-physical="rank=1 check" | FileCheck %s --check-prefix=RANK

// Softmax of a split row is decomposed: ranks reduce the maximum and the sum, and move no elements.

module attributes {oneflow.mesh = array<i64: 2>} {
  // CHECK-LABEL: func.func @softmax
  // CHECK-NEXT: %[[M:.*]] = "oneflow.reduce_max"(%arg0) {{.*}}oneflow.out_nd_sbp = {{\[\[}}#sbp.partial_max]]
  // CHECK-NEXT: %[[A:.*]] = "oneflow.hierarchical_parallel_cast"(%[[M]]) {nd_sbp = [#sbp.broadcast]
  // CHECK-NEXT: "oneflow.broadcast_sub"(%arg0, %[[A]])
  // AUTO-LABEL: func.func @softmax
  // AUTO: "oneflow.reduce_max"
  // RANK-LABEL: func.func @softmax
  // RANK-NEXT: "oneflow.reduce_max"(%arg0) {{.*}} : (tensor<8x500000xf32>) -> tensor<8x1xf32>
  // RANK-NEXT: "oneflow.ccl_all_reduce"({{.*}}reduce_type = "max"
  func.func @softmax(%x: tensor<8x1000000xf32> {oneflow.nd_sbp = [#sbp.split<1>]})
      -> (tensor<8x1000000xf32> {oneflow.nd_sbp = [#sbp.split<1>]}) {
    %0 = "oneflow.softmax"(%x) : (tensor<8x1000000xf32>) -> tensor<8x1000000xf32>
    return %0 : tensor<8x1000000xf32>
  }

  // Operators on rows that are whole on each device are unchanged.
  // CHECK-LABEL: func.func @rows
  // CHECK-NEXT: "oneflow.softmax"
  // AUTO-LABEL: func.func @rows
  // AUTO-NEXT: "oneflow.softmax"
  func.func @rows(%x: tensor<8x1000000xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> tensor<8x1000000xf32> {
    %0 = "oneflow.softmax"(%x) : (tensor<8x1000000xf32>) -> tensor<8x1000000xf32>
    return %0 : tensor<8x1000000xf32>
  }
}
