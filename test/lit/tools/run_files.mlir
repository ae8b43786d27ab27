// RUN: %python -c "import numpy as np; np.savez(r'%t.npz', x=np.array([1, 2], np.float32), y=np.array([10, 20], np.float32))"
// RUN: %python -c "import numpy as np; from safetensors.numpy import save_file; save_file({'x': np.array([1, 2], np.float32), 'y': np.array([10, 20], np.float32)}, r'%t.safetensors')"
// RUN: %python -c "import numpy as np; np.save(r'%t.npy', np.array([5, 6], np.float32))"
// RUN: oneflow-run %s --device cpu --input %t.npz | FileCheck %s
// RUN: oneflow-run %s --input %t.safetensors | FileCheck %s

// Results have the names of the program; the output file of a run is the input file of another run.
// RUN: oneflow-run %s --input %t.npz --output %t.out.npz
// RUN: %python -c "import numpy as np; a = np.load(r'%t.out.npz'); print(sorted(a.files), a['x'], a['y'])" | FileCheck %s --check-prefix=FILE
// RUN: oneflow-run %s --input %t.safetensors --output %t.out.safetensors
// RUN: %python -c "from safetensors.numpy import load_file; a = load_file(r'%t.out.safetensors'); print(sorted(a), a['x'], a['y'])" | FileCheck %s --check-prefix=FILE
// RUN: oneflow-run %s --input %t.out.npz | FileCheck %s --check-prefix=AGAIN
// RUN: oneflow-run %s --input %t.out.safetensors | FileCheck %s --check-prefix=AGAIN

// RUN: not oneflow-run %s --input %t.npz --input x=%t.npy 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not oneflow-run %s --input %t.npz --output %t.out.npy 2>&1 | FileCheck %s --check-prefix=SEVERAL
// RUN: not oneflow-run %s --input %s 2>&1 | FileCheck %s --check-prefix=SUFFIX

// CHECK: x: float32[2]
// CHECK-NEXT: [11. 22.]
// CHECK-NEXT: y: float32[2]
// CHECK-NEXT: [10. 40.]
// FILE: ['x', 'y'] [11. 22.] [10. 40.]
// AGAIN: [21. 62.]
// AGAIN: [110. 880.]
// TWICE: x is given twice
// SEVERAL: expected one result, got 2 (x, y); write an .npz file
// SUFFIX: expected a file name that ends in .npy, .npz, .safetensors
func.func @f(%x: tensor<2xf32> {oneflow.name = "x"}, %y: tensor<2xf32> {oneflow.name = "y"})
    -> (tensor<2xf32> {oneflow.name = "x"}, tensor<2xf32> {oneflow.name = "y"}) {
  %0 = "oneflow.broadcast_add"(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "oneflow.broadcast_mul"(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
