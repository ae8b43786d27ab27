// RUN: %python %S/Inputs/build.py %S/Inputs/halve.cpp %t.so
// RUN: oneflow-opt --load-ops=%t.so --split-input-file --verify-diagnostics %s
// RUN: not oneflow-opt --load-ops=%t.missing.so %s 2>&1 | FileCheck --check-prefix=MISSING %s
// RUN: not oneflow-opt --load-ops=%S/Inputs/halve.cpp %s 2>&1 | FileCheck --check-prefix=SUFFIX %s
// MISSING: oneflow-opt: error: cannot load {{.*}}missing.so: no such file
// SUFFIX: expected a Python file (.py), a library (.so) or an ODS file (.td) that defines operators

func.func @shape(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error@+1 {{oneflow.lit_halve: expected result 0 of type tensor<3xf32>, got tensor<6xf32>}}
  %0 = "oneflow.lit_halve"(%x) : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @axis(%x: tensor<6xf32>) -> tensor<*xf32> {
  // expected-error@+1 {{Check failed: axis < shape.NumAxes() (1 vs 1) axes}}
  %0 = "oneflow.lit_halve"(%x) {axis = 1 : i32} : (tensor<6xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// -----

func.func @attribute(%x: tensor<6xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{oneflow.lit_halve: unknown attribute 'axes'; did you mean axis?}}
  %0 = "oneflow.lit_halve"(%x) {axes = 0 : i32} : (tensor<6xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
