// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @labels(
// CHECK-NEXT: "oneflow.ctc_loss"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {max_target_length = 4 : i64} : (tensor<9x?x5xf32>, tensor<?x4xi64>, tensor<?xi64>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?x9x9xf32>)
// CHECK-NEXT: "oneflow.ctc_loss_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {max_target_length = 4 : i64} : (tensor<?xf32>, tensor<9x?x5xf32>, tensor<?x4xi64>, tensor<?xi64>, tensor<?xi64>, tensor<?xf32>, tensor<?x9x9xf32>) -> tensor<9x?x5xf32>
// CHECK-NEXT: "oneflow.ctc_greedy_decoder"(%{{.*}}, %{{.*}}) : (tensor<9x?x5xf32>, tensor<?xi64>) -> (tensor<?x9xi64>, tensor<?x1xf32>)
func.func @labels(%p: tensor<9x?x5xf32>, %t: tensor<?x4xi64>, %i: tensor<?xi64>, %n: tensor<?xi64>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xi64>) {
  %0:2 = "oneflow.ctc_loss"(%p, %t, %i, %n) {max_target_length = 4 : si64} : (tensor<9x?x5xf32>, tensor<?x4xi64>, tensor<?xi64>, tensor<?xi64>) -> (tensor<*xf32>, tensor<*xf32>)
  %1 = "oneflow.ctc_loss_grad"(%0#0, %p, %t, %i, %n, %0#0, %0#1) {max_target_length = 4 : si64} : (tensor<*xf32>, tensor<9x?x5xf32>, tensor<?x4xi64>, tensor<?xi64>, tensor<?xi64>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %2:2 = "oneflow.ctc_greedy_decoder"(%p, %i) : (tensor<9x?x5xf32>, tensor<?xi64>) -> (tensor<*xi64>, tensor<*xf32>)
  return %0#0, %1, %2#0 : tensor<*xf32>, tensor<*xf32>, tensor<*xi64>
}
