// RUN: not oneflow-opt %s --oneflow-autodiff="func=los" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not oneflow-opt %s --oneflow-autodiff="" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not oneflow-opt %s --oneflow-autodiff="func=loss wrt=2" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=HIGH
// RUN: not oneflow-opt %s --oneflow-autodiff="func=loss wrt=0,0" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not oneflow-opt %s --oneflow-autodiff="func=loss wrt=x" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not oneflow-opt %s --oneflow-autodiff="func=loss wrt=1" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=INT

// NAME: oneflow-autodiff: expected the option func=NAME to name a function, got 'los'; did you mean @loss?
// NONE: invalid_options.mlir: error: oneflow-autodiff: expected the option func=NAME to name a function, got nothing; the module has @
// HIGH: oneflow-autodiff: expected wrt to be distinct argument indices below 2, got '2'
// TWICE: oneflow-autodiff: expected wrt to be distinct argument indices below 2, got '0'
// WORD: oneflow-autodiff: expected wrt to be distinct argument indices below 2, got 'x'
// INT: oneflow-autodiff: expected wrt to be arguments that are tensors of floats or complex numbers, got argument 1 of type tensor<2xi64>
func.func @loss(%x: tensor<f32>, %i: tensor<2xi64>) -> tensor<f32> {
  return %x : tensor<f32>
}
func.func @other(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
