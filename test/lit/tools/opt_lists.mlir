// RUN: oneflow-opt --list-passes | FileCheck %s --check-prefix=PASSES
// RUN: oneflow-opt --show-op relu | FileCheck %s --check-prefix=RELU

// PASSES: oneflow-infer-types: Refines
// PASSES-NEXT: keep-public: default true
// PASSES: MLIR's passes:
// RELU: scalar: select(
// RELU: law relu-idempotent: relu(relu(x)) = relu(x)
