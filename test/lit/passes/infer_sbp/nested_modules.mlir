// RUN: oneflow-opt %s --oneflow-infer-sbp="mesh=2" | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-sbp="mesh=2 strategy=auto" --oneflow-insert-boxing | FileCheck %s --check-prefix=BOXED

// A call names a function of its own module.
// CHECK-LABEL: func.func @callee(%arg0: tensor<4x4xf32>
// CHECK-SAME: -> (tensor<4x4xf32> {oneflow.nd_sbp = [#sbp.split<1 : i64>]})
// BOXED-LABEL: func.func @callee(%arg0: tensor<4x4xf32>
func.func @callee(%x: tensor<4x4xf32> {oneflow.nd_sbp = [#sbp.split<1>]}) -> tensor<4x4xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
module {
  // CHECK: func.func @calls(%arg0: tensor<4xf32> {oneflow.nd_sbp = [#sbp.split<0 : i64>]})
  // CHECK-SAME: -> (tensor<4xf32> {oneflow.nd_sbp = [#sbp.split<0 : i64>]})
  // BOXED: func.func @calls(%arg0: tensor<4xf32> {oneflow.nd_sbp = [#sbp.split<0 : i64>]})
  // BOXED-NEXT: call @callee(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  func.func @calls(%x: tensor<4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> tensor<4xf32> {
    %0 = func.call @callee(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @callee(%x: tensor<4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> tensor<4xf32> {
    %0 = "oneflow.softmax"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "oneflow.relu"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
