// RUN: oneflow-opt %s --oneflow-set-target --target x86-64-v3 | FileCheck %s --check-prefixes=CHECK,V3
// RUN: oneflow-opt %s --oneflow-set-target --target native | FileCheck %s --check-prefixes=CHECK,NATIVE

// V3: llvm.func @defined() attributes {target_cpu = "x86-64-v3", target_features = #llvm.target_features<["+cx16", {{.*}}]>} {
// NATIVE: llvm.func @defined() {
llvm.func @defined() {
  llvm.return
}

// CHECK: llvm.func @declared(i64)
// CHECK-NOT: target_cpu
llvm.func @declared(i64)
