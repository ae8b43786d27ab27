// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-decompose | FileCheck %s --check-prefix=PARTS

// Rows of f16 are computed in f32.
// CHECK-LABEL: func.func @softmax(
// CHECK: "oneflow.softmax"(%{{.*}}) : (tensor<?x8xf16>) -> tensor<?x8xf16>
// PARTS-LABEL: func.func @softmax(
// PARTS: %[[X:.*]] = "oneflow.cast"(%{{.*}}) {{.*}} -> tensor<?x8xf32>
// PARTS: %[[MAX:.*]] = "oneflow.reduce_max"(%[[X]])
// PARTS: %[[D:.*]] = "oneflow.broadcast_sub"(%[[X]], %[[MAX]])
// PARTS: %[[E:.*]] = "oneflow.exp"(%[[D]])
// PARTS: %[[SUM:.*]] = "oneflow.reduce_sum"(%[[E]])
// PARTS: %[[Q:.*]] = "oneflow.broadcast_div"(%[[E]], %[[SUM]])
// PARTS: "oneflow.cast"(%[[Q]]) {{.*}} -> tensor<?x8xf16>
func.func @softmax(%x: tensor<?x8xf16>) -> tensor<*xf16> {
  %0 = "oneflow.softmax"(%x) : (tensor<?x8xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// PARTS-LABEL: func.func @log_softmax(
// PARTS-NOT: oneflow.log_softmax
// PARTS: "oneflow.log"
func.func @log_softmax(%x: tensor<2x8xf32>) -> tensor<*xf32> {
  %0 = "oneflow.log_softmax"(%x) : (tensor<2x8xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
