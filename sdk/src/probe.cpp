#include "probe.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>

namespace oneflow {

namespace {

constexpr unsigned kSeconds = 60;
constexpr int kThrown = 3;

/// Where the child writes what was thrown.
int child_pipe = -1;

void Tell(const char *text) {
  if (write(child_pipe, text, std::strlen(text)) < 0) _exit(kThrown);
}

[[noreturn]] void TellException() {
  try {
    throw;
  } catch (const std::exception &error) {
    Tell(error.what());
  } catch (...) {
    Tell("an exception that is not a std::exception");
  }
  _exit(kThrown);
}

[[noreturn]] void RunChild(const std::string &path, int pipe) {
  child_pipe = pipe;
  std::set_terminate(TellException);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, SIG_DFL);
  alarm(kSeconds);
  dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  _exit(0);
}

std::string ReadAll(int pipe) {
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(pipe, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  return text;
}

}  // namespace

std::string ProbeLibrary(const std::string &path) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) RunChild(path, ends[1]);
  close(ends[1]);
  const std::string thrown = child > 0 ? ReadAll(ends[0]) : "";
  close(ends[0]);
  int status = 0;
  if (child < 0) return "";
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status))
    return WEXITSTATUS(status) == kThrown ? "an initializer of the library threw: " + thrown : "";
  if (WTERMSIG(status) == SIGALRM) return "its initializers did not end in " + std::to_string(kSeconds) + " seconds";
  return std::string("an initializer of the library crashed: ") + strsignal(WTERMSIG(status));
}

}  // namespace oneflow
