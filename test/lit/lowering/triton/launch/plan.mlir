// RUN: oneflow-opt %s --oneflow-to-triton --dump-kernels %t -o %t.mlir
// RUN: FileCheck %s --input-file %t/main.plan.py
// RUN: FileCheck %s --check-prefix=DOT --input-file %t/main_kernel_0.py

// Sizes are computed once, temporaries of unknown size are taken and released around their uses.
// CHECK: def main(run, in0, in0_0, in0_1, in1, in1_0):
// CHECK: run.check_size(
// CHECK: [[B:b[0-9]+]] = run.temporary(
// CHECK: run.launch("main_kernel_0", in0, in0_0, in0_1, in1, in1_0
// CHECK: [[R:b[0-9]+]] = run.result(0,
// CHECK: run.launch("main_kernel_1", [[B]]
// CHECK: run.release([[B]])

// DOT: # oneflow.matmul
// DOT: acc = tl.full(({{[0-9]+}}, {{[0-9]+}}), 0.0, tl.float32)
// DOT: for k_at in range(0, p0_1, {{[0-9]+}}):
// DOT: acc = tl.dot({{.*}}, {{.*}}, acc, input_precision="ieee")
func.func @main(%a: tensor<?x?xf16>, %b: tensor<?x32xf16>) -> tensor<?xf16> {
  %0 = "oneflow.matmul"(%a, %b) : (tensor<?x?xf16>, tensor<?x32xf16>) -> tensor<?x32xf16>
  %1 = "oneflow.reduce_sum"(%0) {axis = [1 : si32], keepdims = false} : (tensor<?x32xf16>) -> tensor<?xf16>
  return %1 : tensor<?xf16>
}
