// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --canonicalize --cse --oneflow-canonicalize | FileCheck %s --check-prefix=ORDER
// RUN: oneflow-opt %s --oneflow-to-triton | FileCheck %s --check-prefix=PLAN
// RUN: not oneflow-opt %s --oneflow-infer-types --oneflow-infer-sbp=mesh=2 2>&1 | FileCheck %s --check-prefix=RANKS

// RANKS: error: oneflow.embedding_prefetch: expected a program of one rank, got one of the mesh (2,)

// The plan for a device keeps the order of the six calls of the host.
// PLAN: run.host(0, {{.*}}run.host(1, {{.*}}run.host(2, {{.*}}run.host(3, {{.*}}run.launch({{.*}}run.host(4, {{.*}}run.host(5,

// A training step: rows are read, and new rows are written. Equal reads are not merged, and a write without users is kept.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: -> (tensor<3x6xf32>, tensor<3x3xf16>, tensor<2x2x3xf32>)
// ORDER-LABEL: func.func @step(
// ORDER: "oneflow.embedding_prefetch"
// ORDER: "oneflow.embedding_lookup"
// ORDER: "oneflow.embedding_put"
// ORDER: "oneflow.one_embedding_fused_lookup"
// ORDER: "oneflow.one_embedding_fused_sgd_update_put"
// ORDER: "oneflow.one_embedding_fused_lookup"
func.func @step(%n: tensor<1xi64>, %ids: tensor<3xi64>, %tables: tensor<3xi8>, %rows: tensor<3x6xf32>,
                %dy: tensor<3x6xf32>, %lr: tensor<1xf32>, %shadow: tensor<1xf32>, %all: tensor<2x2xi64>)
    -> (tensor<*xf32>, tensor<*xf16>, tensor<*xf32>) {
  // CHECK: "oneflow.embedding_prefetch"{{.*}} -> tensor<1xi64>
  %0 = "oneflow.embedding_prefetch"(%n, %ids, %tables) {line_size = 6 : si64, embedding_size = 3 : si64,
    embedding_name = "a", state_initializer = "",
    embedding_tables = "{\22column_dims\22: [3], \22tables\22: [{\22columns\22: [{\22initializer\22: {\22type\22: \22constant\22, \22value\22: 0}}]}]}"}
    : (tensor<1xi64>, tensor<3xi64>, tensor<3xi8>) -> tensor<*xi64>
  %1:2 = "oneflow.embedding_lookup"(%n, %ids, %tables, %0) {dtype = f32, embeddings_dtype = f16,
    line_size = 6 : si64, embedding_size = 3 : si64, embedding_name = "a", state_initializer = "",
    embedding_tables = "{\22column_dims\22: [3], \22tables\22: [{\22columns\22: [{\22initializer\22: {\22type\22: \22constant\22, \22value\22: 0}}]}]}"}
    : (tensor<1xi64>, tensor<3xi64>, tensor<3xi8>, tensor<*xi64>) -> (tensor<*xf32>, tensor<*xf16>)
  %2 = "oneflow.embedding_put"(%n, %ids, %rows) {line_size = 6 : si64, embedding_name = "a"}
    : (tensor<1xi64>, tensor<3xi64>, tensor<3x6xf32>) -> tensor<*xi64>
  %3 = "oneflow.one_embedding_fused_lookup"(%shadow, %all) {dtype = f32, line_size = 6 : si64,
    embedding_size = 3 : si64, embedding_name = "a",
    embedding_tables = "{\22column_dims\22: [3], \22tables\22: [{\22columns\22: [{\22initializer\22: {\22type\22: \22constant\22, \22value\22: 0}}]}]}"}
    : (tensor<1xf32>, tensor<2x2xi64>) -> tensor<*xf32>
  %4 = "oneflow.one_embedding_fused_sgd_update_put"(%n, %ids, %rows, %dy, %lr) {line_size = 6 : si64,
    embedding_size = 6 : si64, embedding_name = "a"}
    : (tensor<1xi64>, tensor<3xi64>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<1xf32>) -> tensor<*xi64>
  %5 = "oneflow.one_embedding_fused_lookup"(%shadow, %all) {dtype = f32, line_size = 6 : si64,
    embedding_size = 3 : si64, embedding_name = "a",
    embedding_tables = "{\22column_dims\22: [3], \22tables\22: [{\22columns\22: [{\22initializer\22: {\22type\22: \22constant\22, \22value\22: 0}}]}]}"}
    : (tensor<1xf32>, tensor<2x2xi64>) -> tensor<*xf32>
  return %1#0, %1#1, %5 : tensor<*xf32>, tensor<*xf16>, tensor<*xf32>
}
