// RUN: oneflow-opt %s --stage linalg | oneflow-opt --oneflow-form-kernels="gpu=true" | FileCheck %s
// RUN: oneflow-opt %s --stage linalg | oneflow-opt --oneflow-form-kernels | FileCheck %s --check-prefix=THREADS

// 64 columns of 100000 elements would keep one SM busy and leave the other SMs idle, so that partial reductions of
// each column come first; each thread computes columns.
// CHECK: func.func private @main_kernel_0({{.*}} -> tensor<64xf32>
// CHECK: func.func private @main_kernel_1({{.*}} -> tensor<100000x64xf32>
// THREADS: func.func private @main_kernel_0({{.*}} -> tensor<100000x64xf32>
// THREADS-NOT: func.func private @main_kernel_1
func.func @main(%x: tensor<100000x64xf32>, %y: tensor<64xf32>) -> tensor<100000x64xf32> {
  %0 = "oneflow.exp"(%y) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = "oneflow.broadcast_mul"(%x, %0) : (tensor<100000x64xf32>, tensor<64xf32>) -> tensor<100000x64xf32>
  return %1 : tensor<100000x64xf32>
}
