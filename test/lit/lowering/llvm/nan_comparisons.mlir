// RUN: oneflow-opt %s --oneflow-form-kernels --oneflow-emit-kernels --target x86-64-v3 | FileCheck %s

// `greater, or NaN where the best is a number` has two comparisons.
// CHECK-LABEL: func.func private @argmax_kernel_0(
// CHECK: scf.for
// CHECK: arith.cmpf ugt
// CHECK-NOT: arith.ori
// CHECK: arith.select
func.func @argmax(%x: tensor<64x256xf32>) -> tensor<64xi64> {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i64
  %true = arith.constant true
  %0 = tensor.empty() : tensor<64xf32>
  %1 = linalg.fill ins(%low : f32) outs(%0 : tensor<64xf32>) -> tensor<64xf32>
  %2 = tensor.empty() : tensor<64xi64>
  %3 = linalg.fill ins(%zero : i64) outs(%2 : tensor<64xi64>) -> tensor<64xi64>
  %4:2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
      affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x256xf32>)
      outs(%1, %3 : tensor<64xf32>, tensor<64xi64>) {
  ^bb0(%value: f32, %best: f32, %position: i64):
    %5 = linalg.index 1 : index
    %6 = arith.cmpf ogt, %value, %best : f32
    %7 = arith.cmpf une, %value, %value : f32
    %8 = arith.cmpf une, %best, %best : f32
    %9 = arith.xori %8, %true : i1
    %10 = arith.andi %7, %9 : i1
    %11 = arith.ori %6, %10 : i1
    %12 = arith.select %11, %value, %best : f32
    %13 = arith.index_cast %5 : index to i64
    %14 = arith.select %11, %13, %position : i64
    linalg.yield %12, %14 : f32, i64
  } -> (tensor<64xf32>, tensor<64xi64>)
  return %4#1 : tensor<64xi64>
}

// Tests of other values stay.
// CHECK-LABEL: func.func private @others_kernel_0(
// CHECK: arith.cmpf olt
// CHECK: arith.ori
func.func @others(%x: tensor<256xf32>, %y: tensor<256xf32>, %z: tensor<256xf32>) -> tensor<256xi1> {
  %true = arith.constant true
  %0 = tensor.empty() : tensor<256xi1>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>,
      affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %y, %z : tensor<256xf32>, tensor<256xf32>,
      tensor<256xf32>) outs(%0 : tensor<256xi1>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %out: i1):
    %2 = arith.cmpf olt, %a, %b : f32
    %3 = arith.cmpf une, %a, %a : f32
    %4 = arith.cmpf une, %c, %c : f32
    %5 = arith.xori %4, %true : i1
    %6 = arith.andi %3, %5 : i1
    %7 = arith.ori %2, %6 : i1
    linalg.yield %7 : i1
  } -> tensor<256xi1>
  return %1 : tensor<256xi1>
}
