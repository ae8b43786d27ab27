// hinge: max(0, margin - x). test_declared_operator.py takes it from here to flow._C.
include "OneFlowBase.td"

def OneFlow_FlowHingeOp : OneFlow_BaseOp<"flow_hinge", [NoSideEffect, DeclareOpInterfaceMethods<UserOpCompatibleInterface>]> {
  let input = (ins
    OneFlow_Tensor:$x
  );
  let output = (outs
    OneFlow_Tensor:$y
  );
  let attrs = (ins
    DefaultValuedAttr<F32Attr, "1.">:$margin
  );
  let has_logical_tensor_desc_infer_fn = 1;
  let has_physical_tensor_desc_infer_fn = 1;
  let has_get_sbp_fn = 1;
  let has_data_type_infer_fn = 1;
}

def OneFlow_FlowHingeGradOp : OneFlow_BaseOp<"flow_hinge_grad", [NoSideEffect, NoGrad]> {
  let input = (ins OneFlow_Tensor:$x, OneFlow_Tensor:$dy);
  let output = (outs OneFlow_Tensor:$dx);
  let attrs = (ins F32Attr:$margin);
  let has_logical_tensor_desc_infer_fn = 1;
  let has_data_type_infer_fn = 1;
  let has_get_sbp_fn = 1;
}
