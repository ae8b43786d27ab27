// RUN: oneflow-translate --gen-op-schema %S/Inputs/declared.td | FileCheck %s --check-prefix=SCHEMA
// RUN: oneflow-translate --import-ods %S/Inputs/declared.td --header mine.h | FileCheck %s --check-prefix=IMPORT
// RUN: oneflow-translate --gen-functional-api %S/Inputs/functional_api.yaml -o %t.h
// RUN: FileCheck %s --check-prefix=API --input-file %t.h

// SCHEMA: class LitDeclaredOp {
// SCHEMA-NEXT: public:
// SCHEMA-NEXT: static Maybe<void> InferLogicalTensorDesc(user_op::InferContext *ctx);
// SCHEMA-NEXT: static Maybe<void> InferPhysicalTensorDesc(user_op::InferContext *ctx);
// SCHEMA: static Maybe<void> GetSbp(user_op::SbpContext *ctx);

// IMPORT: #include "mine.h"
// IMPORT: REGISTER_USER_OP("lit_declared")
// IMPORT: .Attr<float>("alpha", float(0.5))
// IMPORT: .Attr<int32_t>("axis")
// IMPORT: .NoGrad()
// IMPORT: .SetGetSbpFn(&LitDeclaredOp::GetSbp)

// API: inline Maybe<Tensor> Twice(const std::shared_ptr<Tensor> &x, const float &alpha, const Optional<std::vector<int32_t>> &sizes) {
// API-NEXT: return Call<Tensor>("Twice", x, alpha, sizes);
// API: inline Maybe<TensorTuple> TwiceAll(const TensorTuple &xs, const Optional<Tensor> &scale) {
