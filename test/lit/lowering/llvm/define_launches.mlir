// RUN: oneflow-opt %s --oneflow-define-launches | FileCheck %s

// CHECK-LABEL: llvm.func @oneflow_rt_parallel_for(!llvm.ptr, !llvm.ptr, i64, i64)
llvm.func @oneflow_rt_parallel_for(!llvm.ptr, !llvm.ptr, i64, i64)

llvm.func @kernel(%x: !llvm.ptr, %out: !llvm.ptr, %from: i64, %to: i64) {
  llvm.return
}

// A launch stores its arguments in an array and passes the thread pool a thunk that loads the arguments.
// CHECK-NOT: llvm.func @launch(!llvm.ptr, !llvm.ptr, i64) attributes
llvm.func @launch(!llvm.ptr, !llvm.ptr, i64) attributes {oneflow.launch = @kernel, oneflow.grain = 4 : i64}

// LLVM does not optimize the plan; the plan calls functions by name.
// CHECK-NOT: oneflow.planned
// CHECK-LABEL: llvm.func internal @oneflow_plan_main(
// CHECK-SAME: passthrough = ["noinline", "optnone"]
// CHECK: llvm.call @launch(%arg0, %arg1, %{{.*}})
llvm.func @launch.plan(!llvm.ptr, !llvm.ptr, i64) attributes {oneflow.planned = @launch}
llvm.func internal @oneflow_plan_main(%x: !llvm.ptr, %out: !llvm.ptr) attributes {oneflow.entry} {
  %steps = llvm.mlir.constant(13 : i64) : i64
  llvm.call @launch.plan(%x, %out, %steps) : (!llvm.ptr, !llvm.ptr, i64) -> ()
  llvm.return
}

// CHECK-LABEL: llvm.func internal @launch(
// CHECK: %[[ARRAY:.*]] = llvm.alloca
// CHECK-COUNT-2: llvm.store %{{.*}} : !llvm.ptr, !llvm.ptr
// CHECK: %[[THUNK:.*]] = llvm.mlir.addressof @launch_thunk
// CHECK: llvm.call @oneflow_rt_parallel_for(%[[THUNK]], %[[ARRAY]],
// CHECK-LABEL: llvm.func internal @launch_thunk(
// CHECK-COUNT-2: llvm.load %{{.*}} : !llvm.ptr -> !llvm.ptr
// CHECK: llvm.call @kernel(

// The entry takes one array of pointers; the executable looks up the symbol of the entry.
// CHECK: llvm.func {{.*}}@oneflow_entry_main
