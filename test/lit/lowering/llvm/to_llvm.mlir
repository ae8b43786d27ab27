// RUN: oneflow-opt %s --oneflow-to-llvm | FileCheck %s
// RUN: oneflow-opt %s --oneflow-to-llvm -o %t.flag.mlir
// RUN: oneflow-opt %s --stage=llvm -o %t.stage.mlir
// RUN: diff %t.flag.mlir %t.stage.mlir
// RUN: oneflow-opt %s --pass-pipeline="builtin.module(oneflow-to-llvm)" -o %t.pipeline.mlir
// RUN: diff %t.flag.mlir %t.pipeline.mlir

// All passes: types, the plan, one vector kernel, the launch over threads, and the entry.

// CHECK: module attributes
// CHECK-SAME: oneflow.results = ["tensor<100000xf32>"]
// CHECK: llvm.func @oneflow_rt_alloc(i64) -> !llvm.ptr
// CHECK-LABEL: llvm.func internal @main_kernel_0(
// CHECK-SAME: %arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3: i64, %arg4: i64)
// CHECK: llvm.load %{{.*}} -> vector<32xf32>
// CHECK: llvm.call @oneflow_exp_32
// CHECK: llvm.fadd %{{.*}} : vector<32xf32>
// CHECK: llvm.store %{{.*}} : vector<32xf32>, !llvm.ptr
// CHECK-LABEL: llvm.func @main_kernel_0_launch(
// CHECK: llvm.call @main_kernel_0_parallel(
// CHECK-LABEL: llvm.func internal @oneflow_plan_main(
// CHECK: %[[OUT:.*]] = llvm.call @oneflow_rt_alloc
// CHECK: llvm.call @main_kernel_0_launch(
// CHECK: llvm.func internal @oneflow_exp_32(
// CHECK: llvm.func internal @main_kernel_0_parallel(
// CHECK: llvm.call @oneflow_rt_parallel_for(
// CHECK: oneflow_entry_main
func.func @main(%x: tensor<100000xf32>, %y: tensor<100000xf32>) -> tensor<*xf32> {
  %0 = "oneflow.exp"(%x) : (tensor<100000xf32>) -> tensor<*xf32>
  %1 = "oneflow.broadcast_add"(%0, %y) : (tensor<*xf32>, tensor<100000xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}
