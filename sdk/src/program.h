// Functions over tensors of a program that Python is building.
#pragma once
#include <string>

#include "registry.h"

namespace oneflow {
namespace one {

/// Adds an operation to the program: gets a request, answers by Reply.
using Build = void (*)(const char *request);

/// During its lifetime, calls of operators on this thread go to `build`.
class Program final {
 public:
  explicit Program(Build build);
  ~Program();

  /// The results of an operation. Throws CheckError if the operation cannot be built.
  TensorTuple Add(const std::string &request);
  void Reply(const char *error, const TensorTuple &results);

  /// The program of this thread; null if no program is being built.
  static Program *Current();

 private:
  Build build_;
  Program *outer_;
  bool has_failed_ = false;
  std::string error_;
  TensorTuple results_;
};

}  // namespace one
}  // namespace oneflow
