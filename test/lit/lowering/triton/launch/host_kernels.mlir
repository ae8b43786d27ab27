// RUN: oneflow-opt %s --oneflow-emit-triton | FileCheck %s

// A kernel that reads a local value at computed positions is split. A part without a Triton form is a program for the
// host, with numbers as tensors of rank 0.
// CHECK: func.func private @main_kernel_1(tensor<?xi32>, i32, tensor<?xi32>) -> tensor<?xi32> attributes {oneflow.host = {operators = "", reason = "math.ctpop", text = "{{.*}}func.func @main_kernel_1(%arg0: tensor<?xi32>, %arg1: tensor<i32>, %arg2: tensor<?xi32>){{.*}}math.ctpop
// CHECK: func.func private @main_kernel_2(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {oneflow.kernel = "pointwise", oneflow.triton =
// CHECK: func.func private @main_kernel_3(tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {{.*}}oneflow.triton =
// CHECK: oneflow.plan = "def main(run, in0, in1, in2, in2_0):
// CHECK-SAME: run.launch(\22main_kernel_2\22, in0,
// CHECK-SAME: run.launch(\22main_kernel_3\22, in1,
// CHECK-SAME: run.on_host(\22main_kernel_1\22, [(in2, (in2_0, )), 7], [(b{{[0-9]+}}, (in2_0, ))])
#id = affine_map<(d0) -> (d0)>
func.func private @main_kernel_0(%x: tensor<8xf32>, %i: tensor<8xi64>, %out: tensor<8xf32>) -> tensor<8xf32> attributes {oneflow.kernel = "pointwise"} {
  %e = tensor.empty() : tensor<8xf32>
  %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%i : tensor<8xi64>) outs(%out : tensor<8xf32>) {
  ^bb0(%a: i64, %o: f32):
    %p = arith.index_cast %a : i64 to index
    %v = tensor.extract %d[%p] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %g : tensor<8xf32>
}
func.func private @main_kernel_1(%x: tensor<?xi32>, %n: i32, %out: tensor<?xi32>) -> tensor<?xi32> attributes {oneflow.kernel = "pointwise"} {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<?xi32>) outs(%out : tensor<?xi32>) {
  ^bb0(%a: i32, %o: i32):
    %c = math.ctpop %a : i32
    %s = arith.addi %c, %n : i32
    linalg.yield %s : i32
  } -> tensor<?xi32>
  return %0 : tensor<?xi32>
}
func.func @main(%x: tensor<8xf32>, %i: tensor<8xi64>, %y: tensor<?xi32>) -> (tensor<8xf32>, tensor<?xi32>) {
  %z = arith.constant 0 : index
  %n = arith.constant 7 : i32
  %e = tensor.empty() : tensor<8xf32>
  %0 = call @main_kernel_0(%x, %i, %e) : (tensor<8xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8xf32>
  %d = tensor.dim %y, %z : tensor<?xi32>
  %f = tensor.empty(%d) : tensor<?xi32>
  %1 = call @main_kernel_1(%y, %n, %f) : (tensor<?xi32>, i32, tensor<?xi32>) -> tensor<?xi32>
  return %0, %1 : tensor<8xf32>, tensor<?xi32>
}
