// Tries a library out before it is loaded.
#pragma once
#include <string>

namespace oneflow {

/// What goes wrong when a child process loads the library; empty if nothing does, or if loading it merely fails.
/// An initializer that throws or crashes would end this process: dlopen cannot be unwound through.
std::string ProbeLibrary(const std::string &path);

}  // namespace oneflow
