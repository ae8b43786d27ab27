// RUN: oneflow-opt %s --load-ops %S/Inputs/declared.td --split-input-file --verify-diagnostics
// RUN: oneflow-opt --load-ops=%S/Inputs/declared.td --show-op=lit_declared | FileCheck %s --check-prefix=SHOW
// RUN: %python %S/Inputs/build.py %S/Inputs/halve.cpp %t.so
// RUN: oneflow-opt --load-ops=%S/Inputs/declared.td,%t.so --show-op=lit_halve | FileCheck %s --check-prefix=BOTH

// SHOW: oneflow.lit_declared(x, alpha: float = 0.5, axis: int32) -> y
// SHOW: A user's operator, declared at {{.*}}declared.td:2.
// BOTH: oneflow.lit_halve(x, axis: int32 = 0) -> y

func.func @known(%x: tensor<6xf32>) -> tensor<3xf32> {
  %0 = "oneflow.lit_declared"(%x) {axis = 0 : i32} : (tensor<6xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @attribute(%x: tensor<6xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{oneflow.lit_declared: expected the attribute axis: int32}}
  %0 = "oneflow.lit_declared"(%x) : (tensor<6xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @operands(%x: tensor<6xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{lit_declared}}
  %0 = "oneflow.lit_declared"(%x, %x) {axis = 0 : i32} : (tensor<6xf32>, tensor<6xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
