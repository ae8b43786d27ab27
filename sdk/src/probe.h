// Loads a library in a child process before this process loads it.
#pragma once
#include <string>

namespace oneflow {

/// The fault when a child process loads the library; empty if there is no fault, or if dlopen reports an error.
/// An initializer that throws or crashes would end this process: dlopen cannot be unwound through.
std::string ProbeLibrary(const std::string &path);

}  // namespace oneflow
