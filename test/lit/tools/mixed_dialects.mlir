// Programs that mix MLIR's operations with operators, in all tools: every location is a line of the program.
// RUN: oneflow-opt %s --stage kernels | FileCheck %s
// RUN: oneflow-opt %s --stage llvm | FileCheck %s --check-prefix=LLVM
// RUN: oneflow-opt %s --stage triton | FileCheck %s --check-prefix=TRITON
// RUN: oneflow-run %s --entry-point count | FileCheck %s --check-prefix=VALUE

// A number that a loop returns leaves the kernel in a tensor of rank 0.
// CHECK-LABEL: func.func private @count_kernel_0
// CHECK: scf.for
// CHECK: tensor.insert %{{.*}} into %{{.*}}[] : tensor<i64>
// CHECK: func.func @count
// CHECK: tensor.extract %{{.*}}[] : tensor<i64>
// LLVM: llvm.func @count
// TRITON-LABEL: func.func @count
// VALUE: out0: int64[1]
// VALUE: [10]
func.func @count() -> tensor<1xi64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %x = "oneflow.arange"() {dtype = i64, integer_start = 0, integer_limit = 5, integer_delta = 1} : () -> tensor<5xi64>
  %n = scf.for %i = %c0 to %c5 step %c1 iter_args(%a = %c0) -> (index) {
    %e = tensor.extract %x[%i] : tensor<5xi64>
    %k = arith.index_cast %e : i64 to index
    %0 = arith.addi %a, %k : index
    scf.yield %0 : index
  }
  %w = arith.index_cast %n : index to i64
  %r = tensor.from_elements %w : tensor<1xi64>
  return %r : tensor<1xi64>
}

// CHECK-LABEL: func.func @bytes
// CHECK-SAME: tensor<2xi8>
func.func @bytes(%x: tensor<2xui8>) -> tensor<2xui8> {
  %0 = "oneflow.relu"(%x) : (tensor<2xui8>) -> tensor<2xui8>
  return %0 : tensor<2xui8>
}
