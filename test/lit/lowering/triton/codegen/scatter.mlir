// RUN: oneflow-opt %s --oneflow-to-triton --dump-kernels %t -o %t.mlir
// RUN: FileCheck %s --check-prefix=ATOMIC --input-file %t/main_kernel_1.py
// RUN: oneflow-opt %s --oneflow-decompose --convert-oneflow-to-linalg --canonicalize --cse --oneflow-form-kernels --oneflow-emit-triton=deterministic=true --dump-kernels %t.det -o %t.mlir
// RUN: FileCheck %s --check-prefix=ORDERED --input-file %t.det/main_kernel_1.py
// RUN: FileCheck %s --input-file %t/main.plan.py

// The result is filled before the kernel adds to the result.
// CHECK: run.fill({{b[0-9]+}}, 35, 0.0, "f32")
// CHECK-NEXT: run.launch("main_kernel_1"

// ATOMIC: tl.program_id(0) * 256
// ATOMIC: tl.atomic_add(p2

// ORDERED: for at1 in range(0, 600):
// ORDERED: tl.store(p2
// ORDERED-NEXT: tl.debug_barrier()
func.func @main(%x: tensor<600x7xf32>, %i: tensor<600xi32>) -> tensor<5x7xf32> {
  %0 = "oneflow.unsorted_segment_sum"(%x, %i) {axis = 0 : si64, num_segments = 5 : si64} : (tensor<600x7xf32>, tensor<600xi32>) -> tensor<5x7xf32>
  return %0 : tensor<5x7xf32>
}
