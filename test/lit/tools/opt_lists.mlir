// RUN: oneflow-opt --list-passes | FileCheck %s --check-prefix=PASSES
// RUN: oneflow-opt --show-op relu | FileCheck %s --check-prefix=RELU
// RUN: not oneflow-opt --show-op fill_ 2>&1 | FileCheck %s --check-prefix=REFUSED

// PASSES: oneflow-infer-types: Refines
// PASSES-NEXT: keep-public: default true
// PASSES: MLIR's passes:
// RELU: scalar: select(
// RELU: law relu-idempotent: relu(relu(x)) = relu(x)
// REFUSED: error: operator fill_ of OneFlow is not in this dialect: Tensors are values: use the new value
