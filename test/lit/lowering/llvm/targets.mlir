// Vectors and tiles follow the target; LLVM gets the target's processor.
// RUN: oneflow-opt %s --stage kernels | oneflow-opt --target x86-64-v4 --oneflow-emit-kernels | FileCheck %s --check-prefix=V4
// RUN: oneflow-opt %s --stage kernels | oneflow-opt --target x86-64-v3 --oneflow-emit-kernels | FileCheck %s --check-prefix=V3
// RUN: oneflow-opt %s --stage kernels | env ONEFLOW_TARGET=x86-64-v2 oneflow-opt --oneflow-emit-kernels | FileCheck %s --check-prefix=V2
// RUN: oneflow-opt %s --stage llvm --target x86-64-v3 | FileCheck %s --check-prefix=LLVM
// RUN: oneflow-opt %s --stage llvm --target aarch64-sve | FileCheck %s --check-prefix=SVE
// RUN: oneflow-opt %s --stage llvm --target native | FileCheck %s --check-prefix=NATIVE
// RUN: not oneflow-opt %s --target x86-64-v9 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: oneflow-opt --list-targets | FileCheck %s --check-prefix=LIST

// V4: vector.load {{.*}} vector<32xf32>
// V3: vector.load {{.*}} vector<8xf32>
// V2: vector.load {{.*}} vector<4xf32>
// LLVM: llvm.func @oneflow_entry_add({{.*}}) attributes {target_cpu = "x86-64-v3", target_features = #llvm.target_features<["+cx16", {{.*}}"+avx2"{{.*}}]>}
// SVE: target_features = #llvm.target_features<["+neon", "+sve"]>
// NATIVE-NOT: target_cpu
// UNKNOWN: oneflow-opt: error: --target: expected a target out of native, x86-64-v2, {{.*}}, got 'x86-64-v9'
// LIST-LABEL: x86-64-v3:
// LIST: vector_bits: 256
// LIST: vector_registers: 16
// LIST: dot_product: llvm.x86.avx2.pmadd.wd
// LIST: loops.copy_chunk: 16384
// LIST: contractions.step_rows: 64
// LIST-LABEL: sm_80:
// LIST: sms: 108
// LIST: rates: clock_mhz 1410, tensor_fma_per_cycle 1024
// LIST: tensor_core_shapes: mma.m16n8k16
// LIST: blocks.strided_programs_per_sm: 2
// LIST-LABEL: sm_90:
// LIST: tensor_core_shapes: wgmma, mma.m16n8k16
// LIST: blocks.strided_programs_per_sm: 4
func.func @add(%x: tensor<4096xf32>, %y: tensor<4096xf32>) -> tensor<4096xf32> {
  %0 = "oneflow.broadcast_add"(%x, %y) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  return %0 : tensor<4096xf32>
}
