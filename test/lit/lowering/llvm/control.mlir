// RUN: oneflow-opt %s --stage kernels | FileCheck %s --check-prefix=KERNELS
// RUN: oneflow-opt %s --stage llvm | FileCheck %s
// RUN: oneflow-opt %s --oneflow-to-triton | FileCheck %s --check-prefix=TRITON

func.func private @step(%h: tensor<2xf32>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "oneflow.broadcast_add"(%h, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %h : tensor<2xf32>, tensor<2xf32>
}

// States before the steps that nothing reads are not kept. Kernels are formed in the body as in the entry.
// KERNELS: func.func private @step(%{{.*}}) -> (tensor<2xf32>, tensor<2xf32>) attributes {oneflow.body}
// KERNELS: call @step_kernel_0
// KERNELS: func.func @main
// KERNELS: call @oneflow_control_0(%{{.*}}) : (tensor<2xf32>, tensor<5x2xf32>, tensor<2xf32>, tensor<5x2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>)
// KERNELS: func.func private @oneflow_control_0({{.*}}) {{.*}}attributes {oneflow.control = {form = "steps", functions = [@step], length = 5 : i64, outputs = 2 : i64, results = array<i64: 0, 1>, reverse = true, sequences = 1 : i64, states = 1 : i64}}

// The plan of the body writes to the memory that the caller passes; a result that is an argument is copied.
// CHECK: llvm.func @oneflow_plan_step(
// CHECK: llvm.call @step_kernel_0_launch
// CHECK: llvm.call @oneflow_rt_copy
// CHECK: llvm.func internal @oneflow_plan_main(
// CHECK: llvm.br ^[[LOOP:bb[0-9]+]](
// CHECK: ^[[LOOP]](%{{.*}}: i64, %{{.*}}: !llvm.ptr):
// CHECK: llvm.call @oneflow_plan_step(
// CHECK: llvm.br ^[[LOOP]](

// TRITON: for i{{[0-9]+}} in range(5):
// TRITON-SAME: step(run,
// TRITON-SAME: def step(run, base, in0, in1, out0, out1):
func.func @main(%h: tensor<2xf32>, %x: tensor<5x2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>) {
  %0:3 = "oneflow.scan"(%h, %x) {body = @step, states = 1 : i32, sequences = 1 : i32, reverse = true} : (tensor<2xf32>, tensor<5x2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>, tensor<5x2xf32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<5x2xf32>
}
