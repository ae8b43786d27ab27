// RUN: not oneflow-opt %s --verify-diagnostics=bogus 2>&1 | FileCheck %s --check-prefix=MODE
// RUN: not oneflow-opt %s --verify-each=maybe 2>&1 | FileCheck %s --check-prefix=BOOL
// RUN: not oneflow-opt %s --cse --mlir-print-ir-after=csee 2>&1 | FileCheck %s --check-prefix=AFTER
// RUN: not oneflow-opt %s --mlir-print-ir-before=cse,oneflow-to-llvm 2>&1 | FileCheck %s --check-prefix=BEFORE
// RUN: not oneflow-opt %s --dump-kernels=%t --gpu-arch=ampere 2>&1 | FileCheck %s --check-prefix=ARCH
// RUN: not oneflow-opt %s --dump-kernels=%t --gpu-arch=sm_999 2>&1 | FileCheck %s --check-prefix=ARCH
// RUN: not oneflow-opt %s --reproducer-dir=%s 2>&1 | FileCheck %s --check-prefix=FOLDER
// RUN: not oneflow-opt %s -o= 2>&1 | FileCheck %s --check-prefix=OUTPUT
// RUN: not oneflow-opt %s --pass-pipeline="builtin.module(,)" 2>&1 | FileCheck %s --check-prefix=COMMAS
// RUN: not oneflow-opt %s --oneflow-infer-sbp=strategy=bogus 2>&1 | FileCheck %s --check-prefix=INSIDE
// RUN: not oneflow-opt %s --oneflow-emit-triton 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not oneflow-opt %s --oneflow-form-kernels 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: oneflow-opt --list-passes | FileCheck %s --check-prefix=LIST

// MODE: oneflow-opt: error: --verify-diagnostics: expected all or only-expected, got 'bogus'
// BOOL: oneflow-opt: error: --verify-each: expected true or false, got 'maybe'
// AFTER: oneflow-opt: error: --mlir-print-ir-after: expected passes, got 'csee'; did you mean cse?
// BEFORE: oneflow-opt: error: --mlir-print-ir-before: expected passes, got the pipeline oneflow-to-llvm; name one of its passes
// ARCH: oneflow-opt: error: --gpu-arch: expected one of the architectures sm_75, sm_80, {{.*}}sm_90, {{.*}}, got '{{ampere|sm_999}}'
// FOLDER: oneflow-opt: error: --reproducer-dir: expected a folder, got the file
// OUTPUT: oneflow-opt: error: -o: expected FILE, got nothing
// COMMAS: oneflow-opt: error: expected passes between commas, got ','

// Errors without a location in the program name the file.
// INSIDE: {{^}}{{.*}}opt_bad_options.mlir: error: {{.*}}expected one of greedy, auto, got 'bogus'

// STAGE: opt_bad_options.mlir:{{[0-9]+}}:8: error: expected kernels, views and sizes in the entry, got oneflow.relu: run convert-oneflow-to-linalg and oneflow-form-kernels first
// FORM: opt_bad_options.mlir:{{[0-9]+}}:8: error: expected linalg on tensors, got oneflow.relu: run convert-oneflow-to-linalg first

// LIST: oneflow-autodiff:
// LIST-NEXT: func: optional
// LIST-NEXT: wrt: optional
// LIST-NEXT: value-and-grad: default false
// LIST: oneflow-to-physical
// LIST-NOT: default none

func.func @f(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
