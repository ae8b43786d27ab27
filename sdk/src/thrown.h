// The text of what a user's function throws: the one translation of exceptions.
#pragma once
#include <exception>
#include <string>

namespace oneflow {

/// The text of the exception that is being handled; for a `catch (...)`.
inline std::string ThrownText() {
  try {
    throw;
  } catch (const std::exception &error) {
    return error.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace oneflow
