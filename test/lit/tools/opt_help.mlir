// RUN: oneflow-opt --help | FileCheck %s --check-prefix=HELP
// RUN: oneflow-opt --version | FileCheck %s --check-prefix=VERSION
// RUN: oneflow-opt --list-ops | FileCheck %s --check-prefix=OPS
// RUN: oneflow-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS
// RUN: not oneflow-opt --list-opps 2>&1 | FileCheck %s --check-prefix=NEAR

// HELP: usage: oneflow-opt [FILE] [flags and passes]
// HELP: --pass-pipeline=TEXT
// HELP: --verify-each[=BOOL]
// HELP: --oneflow-infer-types
// HELP-NEXT: keep-public=<bool> {{ *}}default true
// HELP: --oneflow-to-llvm {{ *}}the pipeline oneflow-infer-types,

// VERSION: oneflow-mlir {{[0-9]+\.[0-9]+\.[0-9]+}} (MLIR of torch-mlir {{[0-9]+}})

// The help lists operators by family, with signatures.
// OPS: binary:
// OPS: broadcast_add(x, y) -> z
// OPS: unary:
// OPS: leaky_relu(x, alpha: float = 0.0) -> y

// DIALECTS: Available Dialects:
// DIALECTS-SAME: arith
// DIALECTS-SAME: oneflow
// DIALECTS-SAME: sbp

// NEAR: unknown option or pass --list-opps; did you mean --list-ops?
