// RUN: oneflow-opt %s --split-input-file --verify-diagnostics

func.func @unknown(%x: tensor<2xf32>) {
  // expected-error@below {{unknown operator oneflow.rely; did you mean oneflow.relu?}}
  %0 = "oneflow.rely"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @too_few(%x: tensor<2x2xf32>) {
  // expected-error@below {{oneflow.matmul: operands: expected 2 to 3 (a, b, _add_to_output?), got 1}}
  %0 = "oneflow.matmul"(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @too_many(%x: tensor<2xf32>) {
  // expected-error@below {{oneflow.relu: operands: expected 1 (x), got 2}}
  %0 = "oneflow.relu"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @no_operand_of_repeated() {
  // expected-error@below {{oneflow.cat: operands: expected at least 1 (in+), got 0}}
  %0 = "oneflow.cat"() {axis = 0 : i64, max_dim_size = 2 : i64} : () -> tensor<2xf32>
  return
}

// -----

func.func @results(%x: tensor<2xf32>) {
  // expected-error@below {{oneflow.relu: results: expected 1 (y), got 2}}
  %0:2 = "oneflow.relu"(%x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @attribute_kind(%x: tensor<2x3xf32>) {
  // expected-error@below {{oneflow.transpose: attribute perm: expected a list, got "01"}}
  %0 = "oneflow.transpose"(%x) {perm = "01"} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @attribute_of_list(%x: tensor<2x3xf32>) {
  // expected-error@below {{oneflow.transpose: attribute perm: expected an integer, got 1.000000e+00}}
  %0 = "oneflow.transpose"(%x) {perm = [1.0, 0.0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @attribute_missing(%x: tensor<2x3xf32>) {
  // expected-error@below {{oneflow.transpose: expected the attribute perm: list_int32}}
  %0 = "oneflow.transpose"(%x) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @attribute_unknown(%x: tensor<2x3xf32>) {
  // expected-error@below {{oneflow.transpose: unknown attribute 'parm'; did you mean perm?}}
  %0 = "oneflow.transpose"(%x) {perm = [1 : i32, 0 : i32], parm = 3 : i32} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @shape(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  // expected-error@below {{oneflow.matmul: expected the contracted dimension of b to be 3, got 4}}
  %0 = "oneflow.matmul"(%a, %b) : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @broadcast(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) {
  // expected-error@below {{oneflow.broadcast_add: expected operands that broadcast, got shapes 2x3, 2x4}}
  %0 = "oneflow.broadcast_add"(%a, %b) : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @dtype_of_operands(%a: tensor<2xf32>, %b: tensor<2xi64>) {
  // expected-error@below {{oneflow.broadcast_add: expected operands of one data type, got f32 and i64}}
  %0 = "oneflow.broadcast_add"(%a, %b) : (tensor<2xf32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @dtype_of_repeated(%a: tensor<2xf32>, %b: tensor<2xi64>) {
  // expected-error@below {{oneflow.cat: expected operands of one data type, got f32 and i64}}
  %0 = "oneflow.cat"(%a, %b) {axis = 0 : i64, max_dim_size = 4 : i64} : (tensor<2xf32>, tensor<2xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @dtype_not_allowed(%a: tensor<2xi64>) {
  // expected-error@below {{oneflow.tanh: expected x of type f16, bf16, f32, f64, complex<f32>, complex<f64>, got i64}}
  %0 = "oneflow.tanh"(%a) : (tensor<2xi64>) -> tensor<2xi64>
  return
}

// -----

func.func @dtype_of_result(%a: tensor<2xf32>) {
  // expected-error@below {{oneflow.tanh: expected result 0 of type tensor<2xf32>, got tensor<2xf64>}}
  %0 = "oneflow.tanh"(%a) : (tensor<2xf32>) -> tensor<2xf64>
  return
}

// -----

func.func @no_dtype(%a: tensor<2xi7>) {
  // expected-error@below {{oneflow.relu: expected a tensor of i1, ui8, ui16, ui32, ui64, i8, i16, i32, i64, f16, bf16, f32, f64, f8E4M3FN, f8E5M2, complex<f32>, complex<f64>, got tensor<2xi7>}}
  %0 = "oneflow.relu"(%a) : (tensor<2xi7>) -> tensor<2xi7>
  return
}

// -----

func.func @no_tensor(%a: f32) {
  // expected-error@below {{oneflow.relu: expected a tensor, got f32}}
  %0 = "oneflow.relu"(%a) : (f32) -> f32
  return
}

// -----

func.func @axis(%x: tensor<2x3xf32>) {
  // expected-error@below {{oneflow.reduce_sum: expected axis in [-2, 2), got 2}}
  %0 = "oneflow.reduce_sum"(%x) {axis = [2 : i32]} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @axis_twice(%x: tensor<2x3xf32>) {
  // expected-error@below {{oneflow.reduce_sum: expected every axis once, got [1, -1]}}
  %0 = "oneflow.reduce_sum"(%x) {axis = [1 : i32, -1 : i32]} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @too_large() {
  // expected-error@below {{has more than 2^63 - 1 bytes}}
  %0 = "oneflow.constant"() {dtype = f32, shape = [4294967296, 4294967296]} : () -> tensor<4294967296x4294967296xf32>
  return
}

// -----

func.func @other_dialect(%x: tensor<2xf32>) -> tensor<3xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error@below {{type of return operand 0 ('tensor<2xf32>') doesn't match function result type ('tensor<3xf32>')}}
  return %0 : tensor<2xf32>
}

// -----

// Two faults of different kinds are both reported.
func.func @two(%x: tensor<2xf32>) {
  // expected-error@below {{unknown operator oneflow.rely}}
  %0 = "oneflow.rely"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error@below {{unknown operator oneflow.tahn}}
  %1 = "oneflow.tahn"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @memory(%x: memref<2xf32>) {
  // expected-error@below {{oneflow.relu: expected a tensor, got memref<2xf32>}}
  %0 = "oneflow.relu"(%x) : (memref<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @vector(%x: vector<2xf32>) {
  // expected-error@below {{oneflow.relu: expected a tensor, got vector<2xf32>}}
  %0 = "oneflow.relu"(%x) : (vector<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @encoding(%x: tensor<2xf32, "row">) {
  // expected-error@below {{oneflow.relu: expected a tensor without an encoding, got tensor<2xf32, "row">}}
  %0 = "oneflow.relu"(%x) : (tensor<2xf32, "row">) -> tensor<2xf32>
  return
}

// -----

func.func @wide_number(%x: tensor<2xf32>) {
  // expected-error@below {{oneflow.expand_dims: attribute axis: expected an integer of 32 bits, got 4294967296}}
  %0 = "oneflow.expand_dims"(%x) {axis = 4294967296 : i64} : (tensor<2xf32>) -> tensor<1x2xf32>
  return
}

// -----

func.func @wide_numbers(%x: tensor<2xf32>) {
  // expected-error@below {{oneflow.reduce_sum: attribute axis: expected an integer of 32 bits, got 99999999999}}
  %0 = "oneflow.reduce_sum"(%x) {axis = [99999999999 : i64]} : (tensor<2xf32>) -> tensor<f32>
  return
}

// -----

func.func @segments_of_results(%x: tensor<4xf32>) {
  // expected-error@below {{oneflow.relu: results: expected segment sizes for 1 names adding up to 1, got [2, 2]}}
  %0 = "oneflow.relu"(%x) {resultSegmentSizes = array<i32: 2, 2>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @custom_form(%a: tensor<2xf32>) {
  // expected-error@below {{expected an operator in the generic form, its name in quotes and a type for each operand and result: "oneflow.gelu"(%x)}}
  %0 = oneflow.gelu %a : tensor<2xf32>
  return
}

// -----

func.func @complex_elements() -> tensor<2xcomplex<f32>> {
  // expected-error@below {{arith.constant: expected no attribute that lists complex elements; list the real and the imaginary parts}}
  %0 = arith.constant dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>
  return %0 : tensor<2xcomplex<f32>>
}
