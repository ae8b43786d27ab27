// Functors with numbers, containers and functors to derive from; test_containers.py says what they compute.
#include "oneflow/core/autograd/autograd_mode.h"
#include "oneflow/core/common/container_util.h"
#include "oneflow/core/common/error.h"
#include "oneflow/core/common/scalar.h"
#include "oneflow/core/functional/functional.h"
#include "oneflow/core/functional/impl/binary_functor.h"
#include "oneflow/core/functional/impl/unary_functor.h"
#include "oneflow/core/functional/sequence_function.h"

namespace oneflow {
namespace one {
namespace functional {
namespace impl {

using TensorPtr = std::shared_ptr<Tensor>;

/// The tensor at an index, times a number that has a name.
struct PickFunctor {
  PickFunctor() : numbers_({{"two", Scalar(2)}, {"half", Scalar(0.5)}}) {}

  Maybe<Tensor> operator()(const TensorTuple &xs, int32_t index, const std::string &name) const {
    TensorTuple parts = xs;
    JUST(VectorAt(parts, index)) = JUST(functional::Negative(JUST(VectorAt(xs, index))));
    return functional::ScalarMul(parts.at(index), JUST(MapAt(numbers_, name)));
  }

 private:
  HashMap<std::string, Scalar> numbers_;
};

/// x * (a + b) / c, of the types that the numbers have.
struct RatioFunctor {
  Maybe<Tensor> operator()(const TensorPtr &x, const Scalar &a, const Scalar &b, const Scalar &c) const {
    Scalar factor = a;
    factor += b;
    return functional::ScalarMul(x, factor / c);
  }
};

/// What the numbers are, as text.
struct KindsFunctor {
  Maybe<Tensor> operator()(const TensorPtr &) const {
    const std::complex<double> i(0, 1);
    const Scalar all[] = {true, 7, uint8_t{255}, ~uint64_t{0}, 0.5f, std::complex<float>(1, 2)};
    std::vector<std::string> words;
    for (const Scalar &one : all) {
      words.push_back(one.IsBool()            ? "bool"
                      : one.IsComplex()       ? "complex"
                      : one.IsFloatingPoint() ? "floating"
                      : one.IsUnsigned()      ? "unsigned"
                                              : "signed");
    }
    words.push_back(Join(std::vector<double>{all[0].As<double>(), all[3].As<double>(), all[4].As<double>()}, " "));
    words.push_back(Join(std::vector<int64_t>{(Scalar(7) / Scalar(-2)).As<int64_t>(), Scalar(-3.7).As<int64_t>()}, " "));
    const std::complex<double> turned = (all[5] * Scalar(i)).Value<std::complex<double>>();
    words.push_back(Join(std::vector<double>{turned.real(), turned.imag()}, " "));
    words.push_back(autograd::GradMode::is_enabled() ? "recorded" : "not recorded");
    return Error::RuntimeError() << Join(words, ", ") << ", " << MapAt(HashMap<int, bool>{{1, true}}, 2, false);
  }
};

struct ReluFunctor : public UnaryFunctor {
  ReluFunctor() { op_ = CHECK_JUST(one::OpBuilder("relu").Input("x").Output("y").Build()); }
};
struct ApartFunctor : public BinaryFunctor {
  ApartFunctor() { op_ = CHECK_JUST(one::OpBuilder("broadcast_sub").Input("x").Input("y").Output("z").Build()); }
};

/// relu(x - y), which is negated if `flip` says so.
struct ChainFunctor {
  Maybe<Tensor> operator()(const TensorPtr &x, const TensorPtr &y, bool flip) const {
    return sequence_function(functional::Sub).then(functional::Relu).then_if(flip, functional::Negative).call(x, y);
  }
};

}  // namespace impl

ONEFLOW_FUNCTION_LIBRARY(m) {
  m.add_functor<impl::PickFunctor>("Pick");
  m.add_functor<impl::RatioFunctor>("Ratio");
  m.add_functor<impl::KindsFunctor>("Kinds");
  m.add_functor<impl::ReluFunctor>("TRelu");
  m.add_functor<impl::ApartFunctor>("Apart");
  m.add_functor<impl::ChainFunctor>("Chain");
}

}  // namespace functional
}  // namespace one
}  // namespace oneflow
