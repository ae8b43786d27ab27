// Functors that call built-in operators; test_builtin_functions.py says what they compute.
#include "oneflow/core/functional/functional.h"

namespace oneflow {
namespace one {

namespace functional {

using TensorPtr = std::shared_ptr<Tensor>;

/// sum(relu(x * y + x) * 2, axis), with the axis kept.
struct ScoreFunctor {
  Maybe<Tensor> operator()(const TensorPtr &x, const TensorPtr &y, const std::vector<int32_t> &axis) const {
    const auto added = JUST(functional::Add(JUST(functional::Mul(x, y)), x));
    const auto doubled = JUST(functional::ScalarMul(JUST(functional::Relu(added)), 2.0));
    return functional::ReduceSum(doubled, axis, /*keepdims=*/true);
  }
};

/// Several tensors added, as a matrix product with the transposed sum.
struct GramFunctor {
  Maybe<Tensor> operator()(const TensorTuple &parts) const {
    const auto sum = JUST(functional::AddN(parts));
    return functional::MatMul(sum, sum, false, true, 0.5);
  }
};

struct MissingFunctor {
  Maybe<Tensor> operator()(const TensorPtr &x) const { return functional::Add(x, nullptr); }
};

/// x, plus the number of the device and the seed.
struct PlacedFunctor {
  Maybe<Tensor> operator()(const TensorPtr &x, const Optional<Symbol<Device>> &device,
                           const Optional<Generator> &generator) const {
    const auto seed = generator.value_or(JUST(DefaultAutoGenerator()))->current_seed();
    int64_t number = 100;
    if (device.has_value()) number = JUST(device)->type() == "cpu" ? -1 : JUST(device)->device_id();
    return functional::ScalarAdd(x, static_cast<double>(number) + static_cast<double>(seed));
  }
};

/// Replaces the built-in function.
inline Maybe<Tensor> Square(const TensorPtr &x) { return functional::Negative(x); }

struct OwnFunctor {
  Maybe<Tensor> operator()(const TensorPtr &x) const { return functional::Square(x); }
};

ONEFLOW_FUNCTION_LIBRARY(m) {
  m.add_functor<ScoreFunctor>("Score");
  m.add_functor<GramFunctor>("Gram");
  m.add_functor<MissingFunctor>("Missing");
  m.add_functor<PlacedFunctor>("Placed");
  m.add_functor<OwnFunctor>("Own");
}

}  // namespace functional
}  // namespace one
}  // namespace oneflow
