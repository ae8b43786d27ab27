// RUN: oneflow-opt %s --split-input-file --verify-diagnostics

func.func @list(%x: tensor<1099511627776xf32>) {
  // expected-error @+1 {{expected at most 65536 tensors of shape [2], got 549755813888}}
  %0 = "oneflow.tensor_buffer_to_list_of_tensors"(%x) {out_shape = array<i64: 2>, out_dtype = f32} : (tensor<1099511627776xf32>) -> tensor<*xf32>
  return
}
