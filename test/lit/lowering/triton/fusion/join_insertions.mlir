// RUN: oneflow-opt %s --oneflow-join-insertions | FileCheck %s

#same = affine_map<(d0) -> (d0)>

// Disjoint slices are inserted into one tensor, in any order.
// CHECK-LABEL: func.func @separate
// CHECK: %[[ZEROS:.*]] = linalg.fill
// CHECK-NEXT: %[[ONE:.*]] = tensor.insert_slice %arg0 into %[[ZEROS]][8] [4] [1]
// CHECK-NEXT: %[[TWO:.*]] = tensor.insert_slice %arg1 into %[[ONE]][0] [4] [1]
// CHECK-NEXT: return %[[TWO]]
func.func @separate(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<12xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<12xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<12xf32>) -> tensor<12xf32>
  %a = tensor.insert_slice %x into %zeros[8] [4] [1] : tensor<4xf32> into tensor<12xf32>
  %b = tensor.insert_slice %y into %zeros[0] [4] [1] : tensor<4xf32> into tensor<12xf32>
  %s = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel"]} ins(%a, %b : tensor<12xf32>, tensor<12xf32>) outs(%empty : tensor<12xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<12xf32>
  return %s : tensor<12xf32>
}

// Overlapping slices are added up, as are slices of a tensor that is not zero.
// CHECK-LABEL: func.func @together
// CHECK: arith.addf
func.func @together(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<12xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<12xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<12xf32>) -> tensor<12xf32>
  %a = tensor.insert_slice %x into %zeros[3] [4] [1] : tensor<4xf32> into tensor<12xf32>
  %b = tensor.insert_slice %y into %zeros[0] [4] [1] : tensor<4xf32> into tensor<12xf32>
  %s = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel"]} ins(%a, %b : tensor<12xf32>, tensor<12xf32>) outs(%empty : tensor<12xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<12xf32>
  return %s : tensor<12xf32>
}

// CHECK-LABEL: func.func @into_ones
// CHECK: arith.addf
func.func @into_ones(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<12xf32> {
  %one = arith.constant 1.0 : f32
  %empty = tensor.empty() : tensor<12xf32>
  %ones = linalg.fill ins(%one : f32) outs(%empty : tensor<12xf32>) -> tensor<12xf32>
  %a = tensor.insert_slice %x into %ones[8] [4] [1] : tensor<4xf32> into tensor<12xf32>
  %b = tensor.insert_slice %y into %ones[0] [4] [1] : tensor<4xf32> into tensor<12xf32>
  %s = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel"]} ins(%a, %b : tensor<12xf32>, tensor<12xf32>) outs(%empty : tensor<12xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<12xf32>
  return %s : tensor<12xf32>
}

// Nested insertions into zeros are one insertion; insertions into other numbers are unchanged.
// CHECK-LABEL: func.func @twice
// CHECK: tensor.insert_slice %arg0 into %{{.*}}[1, 0] [4, 2] [1, 3] : tensor<4x2xf32> into tensor<6x5xf32>
// CHECK: tensor.insert_slice %arg0 into %{{.*}}[5, 3] [4, 2] [2, 3] : tensor<4x2xf32> into tensor<16x9xf32>
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 0] [6, 5] [1, 1] : tensor<6x5xf32> into tensor<7x5xf32>
func.func @twice(%x: tensor<4x2xf32>) -> (tensor<16x9xf32>, tensor<7x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %small = tensor.empty() : tensor<6x5xf32>
  %large = tensor.empty() : tensor<16x9xf32>
  %other = tensor.empty() : tensor<7x5xf32>
  %a = linalg.fill ins(%zero : f32) outs(%small : tensor<6x5xf32>) -> tensor<6x5xf32>
  %b = linalg.fill ins(%zero : f32) outs(%large : tensor<16x9xf32>) -> tensor<16x9xf32>
  %c = linalg.fill ins(%one : f32) outs(%other : tensor<7x5xf32>) -> tensor<7x5xf32>
  %0 = tensor.insert_slice %x into %a[1, 0] [4, 2] [1, 3] : tensor<4x2xf32> into tensor<6x5xf32>
  %1 = tensor.insert_slice %0 into %b[3, 3] [6, 5] [2, 1] : tensor<6x5xf32> into tensor<16x9xf32>
  %2 = tensor.insert_slice %0 into %c[0, 0] [6, 5] [1, 1] : tensor<6x5xf32> into tensor<7x5xf32>
  return %1, %2 : tensor<16x9xf32>, tensor<7x5xf32>
}
