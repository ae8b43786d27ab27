// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @roc_auc_score(
// CHECK: "oneflow.roc_auc_score"({{.*}}) : (tensor<5xi64>, tensor<5xf32>) -> tensor<1xf32>
func.func @roc_auc_score(%arg0: tensor<5xi64>, %arg1: tensor<5xf32>) -> tensor<*xf32> {
  %0 = "oneflow.roc_auc_score"(%arg0, %arg1) : (tensor<5xi64>, tensor<5xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @distributed_partial_fc_sample(
// CHECK: "oneflow.distributed_partial_fc_sample"({{.*}}) {num_sample = 4 : i64, seed = 2 : i64} : (tensor<6x3xf32>, tensor<3xi64>) -> (tensor<3xi64>, tensor<4xi64>, tensor<4x3xf32>)
func.func @distributed_partial_fc_sample(%arg0: tensor<6x3xf32>, %arg1: tensor<3xi64>) -> (tensor<*xi64>, tensor<*xi64>, tensor<*xf32>) {
  %0:3 = "oneflow.distributed_partial_fc_sample"(%arg0, %arg1) {num_sample = 4 : i64, seed = 2 : i64} : (tensor<6x3xf32>, tensor<3xi64>) -> (tensor<*xi64>, tensor<*xi64>, tensor<*xf32>)
  return %0#0, %0#1, %0#2 : tensor<*xi64>, tensor<*xi64>, tensor<*xf32>
}

// CHECK-LABEL: func.func @distributed_partial_fc_sample_disable_boxing(
// CHECK: "oneflow.distributed_partial_fc_sample_disable_boxing"({{.*}}) : (tensor<3x2xf32>, tensor<3xi64>) -> (tensor<3x2xf32>, tensor<3xi64>)
func.func @distributed_partial_fc_sample_disable_boxing(%arg0: tensor<3x2xf32>, %arg1: tensor<3xi64>) -> (tensor<*xf32>, tensor<*xi64>) {
  %0:2 = "oneflow.distributed_partial_fc_sample_disable_boxing"(%arg0, %arg1) : (tensor<3x2xf32>, tensor<3xi64>) -> (tensor<*xf32>, tensor<*xi64>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xi64>
}
