// The text of an exception that a user's function throws: the only translation of exceptions.
#pragma once
#include <exception>
#include <string>

namespace oneflow {

/// The text of the exception that a `catch (...)` handles.
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
