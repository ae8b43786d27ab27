// RUN: oneflow-opt %s --oneflow-join-norm-gradients | FileCheck %s

// One kernel reads the rows and stores partial sums; small kernels add the partial sums. The call is at the first gradient.
// CHECK: func.func private @oneflow_layer_norm_gradients_0({{.*}}) -> (tensor<512x64xbf16>, tensor<64x64xf32>, tensor<64x64xf32>) attributes {oneflow.kernel = "template"
// CHECK-LABEL: func.func @main
// CHECK: %[[G:.*]]:3 = call @oneflow_layer_norm_gradients_0(%arg0, %arg1, %arg2, %arg3, %arg4,
// CHECK: %[[B:.*]] = "oneflow.reduce_sum"(%[[G]]#1) {axis = array<i32: 0>}
// CHECK: "oneflow.cast"(%[[B]]) {dtype = bf16}
// CHECK: "oneflow.reduce_sum"(%[[G]]#2) {axis = array<i32: 0>}
// CHECK-NOT: layer_norm_grad
// CHECK: return %[[G]]#0,
func.func @main(%dy: tensor<512x64xbf16>, %x: tensor<512x64xbf16>, %m: tensor<512xf32>, %i: tensor<512xf32>, %g: tensor<64xbf16>) -> (tensor<512x64xbf16>, tensor<64xbf16>, tensor<64xbf16>) {
  %b, %c = "oneflow.layer_norm_param_grad"(%dy, %x, %m, %i) {begin_params_axis = 1 : si64} : (tensor<512x64xbf16>, tensor<512x64xbf16>, tensor<512xf32>, tensor<512xf32>) -> (tensor<64xbf16>, tensor<64xbf16>)
  %d = "oneflow.layer_norm_grad"(%dy, %x, %m, %i, %g) {begin_norm_axis = 1 : si64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (tensor<512x64xbf16>, tensor<512x64xbf16>, tensor<512xf32>, tensor<512xf32>, tensor<64xbf16>) -> tensor<512x64xbf16>
  return %d, %b, %c : tensor<512x64xbf16>, tensor<64xbf16>, tensor<64xbf16>
}

// Addends of the gradient, rows of other tensors, and a parameter that is computed too late are unchanged.
// CHECK-LABEL: func.func @separate
// CHECK-NOT: call
// CHECK-COUNT-2: oneflow.layer_norm_grad
func.func @separate(%dy: tensor<512x64xf32>, %x: tensor<512x64xf32>, %m: tensor<512xf32>, %i: tensor<512xf32>, %g: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<512x64xf32>, tensor<512x64xf32>) {
  %b, %c = "oneflow.layer_norm_param_grad"(%dy, %x, %m, %i) {begin_params_axis = 1 : si64} : (tensor<512x64xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  %late = "oneflow.relu"(%g) : (tensor<64xf32>) -> tensor<64xf32>
  %d = "oneflow.layer_norm_grad"(%dy, %x, %m, %i, %late) {begin_norm_axis = 1 : si64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (tensor<512x64xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>, tensor<64xf32>) -> tensor<512x64xf32>
  %e = "oneflow.layer_norm_grad"(%x, %dy, %m, %i, %g) {begin_norm_axis = 1 : si64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (tensor<512x64xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>, tensor<64xf32>) -> tensor<512x64xf32>
  return %b, %c, %d, %e : tensor<64xf32>, tensor<64xf32>, tensor<512x64xf32>, tensor<512x64xf32>
}

// An RMS normalization has a weight alone.
// CHECK-LABEL: func.func @rms
// CHECK: %[[R:.*]]:2 = call @oneflow_rms_norm_gradients_{{.*}}(%arg0, %arg1, %arg2, %arg3,
// CHECK: "oneflow.reduce_sum"(%[[R]]#1) {axis = array<i32: 0>}
// CHECK-NOT: rms_norm_grad
// CHECK: return %[[R]]#0,
func.func @rms(%dy: tensor<512x64xbf16>, %x: tensor<512x64xbf16>, %i: tensor<512xf32>, %w: tensor<64xbf16>) -> (tensor<512x64xbf16>, tensor<64xbf16>) {
  %d = "oneflow.rms_norm_grad"(%dy, %x, %i, %w) : (tensor<512x64xbf16>, tensor<512x64xbf16>, tensor<512xf32>, tensor<64xbf16>) -> tensor<512x64xbf16>
  %b = "oneflow.rms_norm_param_grad"(%dy, %x, %i) : (tensor<512x64xbf16>, tensor<512x64xbf16>, tensor<512xf32>) -> tensor<64xbf16>
  return %d, %b : tensor<512x64xbf16>, tensor<64xbf16>
}

// Without other users of the normalization, the kernel computes mean and deviation.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: "oneflow.layer_norm"
// CHECK: call @oneflow_layer_norm_gradients_{{.*}}(%arg0, %arg1, %arg2, %{{[0-9]+}},
// CHECK-LABEL: func.func @with_other_users
// CHECK: %[[Y:.*]]:3 = "oneflow.layer_norm"
// CHECK: call @oneflow_layer_norm_gradients_{{.*}}(%arg0, %arg1, %[[Y]]#1, %[[Y]]#2, %arg2,
func.func @alone(%dy: tensor<512x64xf32>, %x: tensor<512x64xf32>, %g: tensor<64xf32>) -> (tensor<512x64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %y, %m, %i = "oneflow.layer_norm"(%x, %g) {begin_norm_axis = 1 : si64, begin_params_axis = 1 : si64, scale = true, epsilon = 1.0e-05 : f64, operandSegmentSizes = array<i32: 1, 0, 1>} : (tensor<512x64xf32>, tensor<64xf32>) -> (tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>)
  %d = "oneflow.layer_norm_grad"(%dy, %x, %m, %i, %g) {begin_norm_axis = 1 : si64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (tensor<512x64xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>, tensor<64xf32>) -> tensor<512x64xf32>
  %b, %c = "oneflow.layer_norm_param_grad"(%dy, %x, %m, %i) {begin_params_axis = 1 : si64} : (tensor<512x64xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  return %d, %b, %c : tensor<512x64xf32>, tensor<64xf32>, tensor<64xf32>
}

func.func @with_other_users(%dy: tensor<512x64xf32>, %x: tensor<512x64xf32>, %g: tensor<64xf32>) -> (tensor<512x64xf32>, tensor<512x64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %y, %m, %i = "oneflow.layer_norm"(%x, %g) {begin_norm_axis = 1 : si64, begin_params_axis = 1 : si64, scale = true, epsilon = 1.0e-05 : f64, operandSegmentSizes = array<i32: 1, 0, 1>} : (tensor<512x64xf32>, tensor<64xf32>) -> (tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>)
  %d = "oneflow.layer_norm_grad"(%dy, %x, %m, %i, %g) {begin_norm_axis = 1 : si64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (tensor<512x64xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>, tensor<64xf32>) -> tensor<512x64xf32>
  %b, %c = "oneflow.layer_norm_param_grad"(%dy, %x, %m, %i) {begin_params_axis = 1 : si64} : (tensor<512x64xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  return %y, %d, %b, %c : tensor<512x64xf32>, tensor<512x64xf32>, tensor<64xf32>, tensor<64xf32>
}

// The kernel includes the addend of the gradient and the sums of both over rows, but no tensor computed later.
// CHECK-LABEL: func.func @residual
// CHECK: %[[D:.*]]:4 = call @oneflow_layer_norm_gradients_{{.*}}(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5,
// CHECK-NOT: broadcast_add
// CHECK: "oneflow.reduce_sum"(%[[D]]#3) {axis = array<i32: 0>}
// CHECK: return %[[D]]#0,
// CHECK-LABEL: func.func @late
// CHECK: %[[L:.*]]:3 = call @oneflow_layer_norm_gradients_{{.*}}(%arg0, %arg1, %arg2, %arg3, %arg4, %{{[0-9]}},
// CHECK: "oneflow.broadcast_add"(%[[L]]#0,
func.func @residual(%dy: tensor<512x64xf32>, %x: tensor<512x64xf32>, %m: tensor<512xf32>, %i: tensor<512xf32>, %g: tensor<64xf32>, %o: tensor<512x64xf32>) -> (tensor<512x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %d = "oneflow.layer_norm_grad"(%dy, %x, %m, %i, %g) {begin_norm_axis = 1 : si64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (tensor<512x64xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>, tensor<64xf32>) -> tensor<512x64xf32>
  %t = "oneflow.broadcast_add"(%o, %d) : (tensor<512x64xf32>, tensor<512x64xf32>) -> tensor<512x64xf32>
  %b, %c = "oneflow.layer_norm_param_grad"(%dy, %x, %m, %i) {begin_params_axis = 1 : si64} : (tensor<512x64xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  %s = "oneflow.reduce_sum"(%t) {axis = [0 : si32]} : (tensor<512x64xf32>) -> tensor<64xf32>
  return %t, %b, %c, %s : tensor<512x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

func.func @late(%dy: tensor<512x64xf32>, %x: tensor<512x64xf32>, %m: tensor<512xf32>, %i: tensor<512xf32>, %g: tensor<64xf32>, %o: tensor<512x64xf32>) -> (tensor<512x64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %d = "oneflow.layer_norm_grad"(%dy, %x, %m, %i, %g) {begin_norm_axis = 1 : si64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (tensor<512x64xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>, tensor<64xf32>) -> tensor<512x64xf32>
  %r = "oneflow.relu"(%o) : (tensor<512x64xf32>) -> tensor<512x64xf32>
  %t = "oneflow.broadcast_add"(%d, %r) : (tensor<512x64xf32>, tensor<512x64xf32>) -> tensor<512x64xf32>
  %b, %c = "oneflow.layer_norm_param_grad"(%dy, %x, %m, %i) {begin_params_axis = 1 : si64} : (tensor<512x64xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  return %t, %b, %c : tensor<512x64xf32>, tensor<64xf32>, tensor<64xf32>
}
