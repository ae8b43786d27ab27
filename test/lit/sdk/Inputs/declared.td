// An operator that only its declaration is there of.
def OneFlow_LitDeclaredOp : OneFlow_BaseOp<"lit_declared", [NoSideEffect, NoGrad]> {
  let input = (ins OneFlow_Tensor:$x);
  let output = (outs OneFlow_Tensor:$y);
  let attrs = (ins DefaultValuedAttr<F32Attr, "0.5">:$alpha, I32Attr:$axis);
  let has_logical_tensor_desc_infer_fn = 1;
  let has_physical_tensor_desc_infer_fn = 1;
  let has_data_type_infer_fn = 1;
  let has_get_sbp_fn = 1;
}
