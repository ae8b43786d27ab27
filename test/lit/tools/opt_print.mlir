// RUN: oneflow-opt %s --oneflow-infer-types --cse --mlir-print-ir-before=cse -o %t.mlir 2>&1 | FileCheck %s --check-prefix=BEFORE
// RUN: oneflow-opt %s --oneflow-infer-types --cse --mlir-print-ir-before-all -o %t.mlir 2>&1 | FileCheck %s --check-prefix=BEFORE-ALL
// RUN: oneflow-opt %s --oneflow-infer-types --cse --mlir-print-ir-after-all -o %t.mlir 2>&1 | FileCheck %s --check-prefix=AFTER-ALL
// RUN: oneflow-opt %s --mlir-print-debuginfo | FileCheck %s --check-prefix=DEBUG

// BEFORE: // -----// IR Dump Before cse //----- //
// BEFORE: func.func @f(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32>
// BEFORE-NOT: IR Dump

// BEFORE-ALL: // -----// IR Dump Before oneflow-infer-types //----- //
// BEFORE-ALL: func.func @f(%arg0: tensor<2x3xf32>) -> tensor<*xf32>
// BEFORE-ALL: // -----// IR Dump Before cse //----- //
// BEFORE-ALL-COUNT-2: oneflow.relu
// BEFORE-ALL-NOT: IR Dump

// AFTER-ALL: // -----// IR Dump After oneflow-infer-types //----- //
// AFTER-ALL-COUNT-2: oneflow.relu
// AFTER-ALL: // -----// IR Dump After cse //----- //
// AFTER-ALL-COUNT-1: oneflow.relu
// AFTER-ALL-NOT: oneflow.relu

// DEBUG: "oneflow.relu"(%arg0) {{.*}} loc(#[[AT:.*]])
// DEBUG: #[[AT]] = loc("{{.*}}opt_print.mlir":25:8)
func.func @f(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  %2 = "oneflow.broadcast_add"(%0, %1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %2 : tensor<*xf32>
}
