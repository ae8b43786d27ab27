// RUN: oneflow-opt %s --canonicalize --cse | FileCheck %s

// Two readers are two positions in the data: readers are neither merged nor removed.

// CHECK-LABEL: func.func @readers_are_kept
// CHECK-COUNT-3: "oneflow.ofrecordreader"
// CHECK-NOT: "oneflow.ofrecord_bytes_decoder"
// CHECK: return %0, %1
func.func @readers_are_kept() -> (tensor<2x9xui8>, tensor<2x9xui8>) {
  %0 = "oneflow.ofrecordreader"() {data_dir = "train", data_part_num = 1 : i32, batch_size = 2 : i32, record_bytes = 9} : () -> tensor<2x9xui8>
  %1 = "oneflow.ofrecordreader"() {data_dir = "train", data_part_num = 1 : i32, batch_size = 2 : i32, record_bytes = 9} : () -> tensor<2x9xui8>
  %2 = "oneflow.ofrecordreader"() {data_dir = "train", data_part_num = 1 : i32, batch_size = 2 : i32, record_bytes = 9} : () -> tensor<2x9xui8>
  %3:2 = "oneflow.ofrecord_bytes_decoder"(%2) {name = "x"} : (tensor<2x9xui8>) -> (tensor<2x9xui8>, tensor<2xi64>)
  return %0, %1 : tensor<2x9xui8>, tensor<2x9xui8>
}

// OneFlow's name of the operator is read, also where a comment names "oneflow.OFRecordReader".

// CHECK-LABEL: func.func @oneflow_spells_it_otherwise
// CHECK: "oneflow.ofrecordreader"() {batch_size = 2 : i32, data_dir = "train", data_part_num = 1 : i32, record_bytes = 9 : i64}
func.func @oneflow_spells_it_otherwise() -> tensor<2x9xui8> {
  %0 = "oneflow.OFRecordReader"() {data_dir = "train", data_part_num = 1 : si32, batch_size = 2 : si32, record_bytes = 9 : si64} : () -> tensor<2x9xui8>
  return %0 : tensor<2x9xui8>
}
