// RUN: oneflow-opt %s --oneflow-form-kernels --oneflow-emit-kernels | FileCheck %s

// A kernel takes pointers and a range of parallel steps; a launch passes the range; the plan launches into result memory.

// CHECK: oneflow.results = ["tensor<100000xf32>"], oneflow.workspace = 0 : i64}
// CHECK-LABEL: func.func private @main_kernel_0(
// CHECK-SAME: %[[X:.*]]: memref<1xi8>, %[[OUT:.*]]: memref<1xi8>, %[[LO:.*]]: index, %[[HI:.*]]: index)
// CHECK: %[[IN:.*]] = memref.view %[[X]]{{.*}} to memref<100000xf32>
// CHECK: scf.for %{{.*}} = %[[LO]] to %[[HI]]
// CHECK: vector.load %[[IN]]{{.*}} vector<32xf32>
// CHECK: arith.negf {{.*}} vector<32xf32>
// CHECK: vector.store
// CHECK-LABEL: func.func private @main_kernel_0_parallel(
// CHECK-SAME: oneflow.launch = @main_kernel_0
// CHECK-LABEL: func.func @oneflow_plan_main(
// CHECK: %[[R:.*]] = call @oneflow_rt_alloc
// CHECK: call @main_kernel_0_launch.plan(%{{.*}}, %[[R]])
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<100000xf32>) -> tensor<100000xf32> {
  %e = tensor.empty() : tensor<100000xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<100000xf32>) outs(%e : tensor<100000xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<100000xf32>
  return %a : tensor<100000xf32>
}
