// RUN: oneflow-run %s --entry-point unset --seed 7 --output %t.a.npy
// RUN: oneflow-run %s --entry-point unset --seed 7 --output %t.b.npy
// RUN: oneflow-run %s --entry-point unset --seed=8 --output %t.c.npy
// RUN: cmp %t.a.npy %t.b.npy
// RUN: not cmp %t.a.npy %t.c.npy
// RUN: oneflow-run %s --entry-point given --seed 7 --output %t.d.npy
// RUN: oneflow-run %s --entry-point given --seed 8 --output %t.e.npy
// RUN: cmp %t.d.npy %t.e.npy
// RUN: %python -c "import numpy as np; a = np.load(r'%t.a.npy'); print(a.shape, (a[0] == a[1]).any(), (a >= 0).all() and (a < 1).all())" | FileCheck %s
// RUN: not oneflow-run %s --entry-point unset --seed seven 2>&1 | FileCheck %s --check-prefix=BAD

// Equal seeds give equal values; each operator draws different values; values are within the bounds.
// CHECK: (2, 64) False True
// BAD: oneflow-run: error: --seed: expected an integer from -9223372036854775808 to 9223372036854775807, got 'seven'
func.func @unset() -> tensor<2x64xf32> {
  %0 = "oneflow.uniform"() {dtype = f32, shape = [1, 64], to = 1.0 : f64} : () -> tensor<1x64xf32>
  %1 = "oneflow.uniform"() {dtype = f32, shape = [1, 64], to = 1.0 : f64} : () -> tensor<1x64xf32>
  %2 = "oneflow.cat"(%0, %1) {axis = 0 : si64} : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<2x64xf32>
  return %2 : tensor<2x64xf32>
}

// A seed in the program is kept.
func.func @given() -> tensor<64xf32> {
  %0 = "oneflow.uniform"() {dtype = f32, shape = [64], to = 1.0 : f64, seed = 3 : si64} : () -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
