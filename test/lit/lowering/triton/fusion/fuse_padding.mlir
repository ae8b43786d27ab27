// RUN: oneflow-opt %s --oneflow-fuse-padding | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// Elements are computed and read at the position in the padded tensor; a number of a row is read as before.
// CHECK-DAG: #[[INSIDE:.*]] = affine_map<(d0, d1) -> (d0, d1 + 2)>
// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-DAG: #[[SAME:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.insert_slice
// CHECK: %[[P:.*]] = linalg.generic {indexing_maps = [#[[ROW]], #[[SAME]]], {{.*}} ins(%arg1 : tensor<4xf32>) outs(%{{.*}} : tensor<4x8xf32>)
// CHECK: %[[AT:.*]] = arith.subi
// CHECK: arith.maxsi %[[AT]]
// CHECK: arith.minsi
// CHECK: tensor.extract %arg0
// CHECK: arith.mulf
// CHECK: arith.select
// CHECK: linalg.generic {indexing_maps = [#[[INSIDE]], #[[SAME]], #[[SAME]]], {{.*}} ins(%[[P]], %arg0
// CHECK: return %[[P]]
func.func @main(%x: tensor<4x5xf32>, %r: tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x5xf32>
  %l = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %r : tensor<4x5xf32>, tensor<4xf32>) outs(%e : tensor<4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<4x5xf32>
  %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%y, %x : tensor<4x5xf32>, tensor<4x5xf32>) outs(%e : tensor<4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.addf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<4x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%l : tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = tensor.insert_slice %y into %f[0, 2] [4, 5] [1, 1] : tensor<4x5xf32> into tensor<4x8xf32>
  return %p, %z : tensor<4x8xf32>, tensor<4x5xf32>
}

// A returned value, a value that alone determines the loops, and one part of several are inserted.
// CHECK-LABEL: func.func @separate
// CHECK-COUNT-4: tensor.insert_slice
func.func @separate(%x: tensor<4xf32>) -> (tensor<6xf32>, tensor<4xf32>, tensor<6xf32>, tensor<f32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %l = tensor.empty() : tensor<6xf32>
  %n = tensor.empty() : tensor<f32>
  %g = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%l : tensor<6xf32>) -> tensor<6xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<8xf32>) -> tensor<8xf32>
  %i = linalg.fill ins(%zero : f32) outs(%n : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.exp %a : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  %p = tensor.insert_slice %y into %f[1] [4] [1] : tensor<4xf32> into tensor<6xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.sqrt %a : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  %q = tensor.insert_slice %z into %f[1] [4] [1] : tensor<4xf32> into tensor<6xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%z : tensor<4xf32>) outs(%i : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<f32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.sin %a : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  %u = tensor.insert_slice %w into %h[0] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %v = tensor.insert_slice %x into %u[4] [4] [1] : tensor<4xf32> into tensor<8xf32>
  return %p, %y, %q, %s, %v : tensor<6xf32>, tensor<4xf32>, tensor<6xf32>, tensor<f32>, tensor<8xf32>
}

// An operand of a product's epilogue is not computed in the padded tensor, so that the product accesses blocks.
// CHECK-LABEL: func.func @joins
// CHECK: tensor.insert_slice
func.func @joins(%x: tensor<4x5xf32>, %a: tensor<4x8xf32>, %b: tensor<8x5xf32>) -> (tensor<4x8xf32>, tensor<4x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x5xf32>
  %l = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x5xf32>) outs(%e : tensor<4x5xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = math.exp %i : f32
    linalg.yield %m : f32
  } -> tensor<4x5xf32>
  %g = linalg.fill ins(%zero : f32) outs(%e : tensor<4x5xf32>) -> tensor<4x5xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x8xf32>, tensor<8x5xf32>) outs(%g : tensor<4x5xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x5xf32>
  %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%y, %c : tensor<4x5xf32>, tensor<4x5xf32>) outs(%e : tensor<4x5xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.addf %i, %j : f32
    linalg.yield %m : f32
  } -> tensor<4x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%l : tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = tensor.insert_slice %y into %f[0, 2] [4, 5] [1, 1] : tensor<4x5xf32> into tensor<4x8xf32>
  return %p, %z : tensor<4x8xf32>, tensor<4x5xf32>
}

// The target's size is known at run time alone.
// CHECK-LABEL: func.func @dynamic
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0] [5] [1] : tensor<5xf32> into tensor<?xf32>
func.func @dynamic(%x: tensor<5xf32>, %n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<5xf32>) outs(%e : tensor<5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.negf %a : f32
    linalg.yield %m : f32
  } -> tensor<5xf32>
  %l = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%l : tensor<?xf32>) -> tensor<?xf32>
  %p = tensor.insert_slice %y into %f[0] [5] [1] : tensor<5xf32> into tensor<?xf32>
  return %p : tensor<?xf32>
}
