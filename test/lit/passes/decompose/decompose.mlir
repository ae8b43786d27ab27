// RUN: oneflow-opt %s --oneflow-decompose | FileCheck %s
// RUN: not oneflow-opt %s --convert-oneflow-to-linalg 2>&1 | FileCheck %s --check-prefix=EARLY

// EARLY: decompose.mlir:16:{{.*}} error: oneflow.softmax: expected operators that compute; run oneflow-decompose first

// CHECK-LABEL: func.func @softmax(
// CHECK-NOT: oneflow.softmax
// CHECK: %[[M:.*]] = "oneflow.reduce_max"(%[[X:.*]]) {{.*}} -> tensor<?x1xf32>
// CHECK: %[[D:.*]] = "oneflow.broadcast_sub"(%[[X]], %[[M]])
// CHECK: %[[E:.*]] = "oneflow.exp"(%[[D]])
// CHECK: %[[S:.*]] = "oneflow.reduce_sum"(%[[E]])
// CHECK: %[[R:.*]] = "oneflow.broadcast_div"(%[[E]], %[[S]])
// CHECK: %[[Y:.*]] = "oneflow.cast"(%[[R]]) {{.*}} -> tensor<?x4xf16>
// CHECK: return %[[Y]]
func.func @softmax(%a: tensor<?x4xf16>) -> tensor<?x4xf16> {
  %0 = "oneflow.softmax"(%a) : (tensor<?x4xf16>) -> tensor<?x4xf16>
  return %0 : tensor<?x4xf16>
}
