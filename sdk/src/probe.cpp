#include "probe.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "thrown.h"

namespace oneflow {

namespace {

constexpr unsigned kSeconds = 60;
/// The first byte that the child writes. The exit status has no meaning: initializers may exit with any status.
constexpr char kDone = 'd', kThrown = 't';

/// The file descriptor that the child writes to.
int child_pipe = -1;

[[noreturn]] void Tell(char what, const std::string &text) {
  const std::string told = what + text;
  // The parent reports missing bytes.
  _exit(write(child_pipe, told.data(), told.size()) < 0 ? 1 : 0);
}

[[noreturn]] void TellException() { Tell(kThrown, std::current_exception() ? ThrownText() : "nothing: it terminated"); }

[[noreturn]] void RunChild(const std::string &path, int pipe) {
  child_pipe = pipe;
  std::set_terminate(TellException);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, SIG_DFL);
  // Runs before the process's exit handlers, which wait for threads that a child does not have.
  on_exit([](int status, void *) { _exit(status); }, nullptr);
  alarm(kSeconds);
  dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  Tell(kDone, "");
}

std::string ReadAll(int pipe) {
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(pipe, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  return text;
}

/// The fault, from the output and the end of the child; empty if there is no fault.
std::string Judge(const std::string &told, int status) {
  const char what = told.empty() ? '\0' : told[0];
  if (what == kDone) return "";
  if (what == kThrown) return "an initializer of the library threw: " + told.substr(1);
  if (WIFEXITED(status)) {
    return "an initializer of the library ended the process, with the status " +
           std::to_string(WEXITSTATUS(status)) + "; expected it to return: remove the call of exit";
  }
  if (WTERMSIG(status) == SIGALRM) return "its initializers did not end in " + std::to_string(kSeconds) + " seconds";
  return std::string("an initializer of the library crashed: ") + strsignal(WTERMSIG(status));
}

}  // namespace

std::string ProbeLibrary(const std::string &path) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) RunChild(path, ends[1]);
  close(ends[1]);
  const std::string told = child > 0 ? ReadAll(ends[0]) : "";
  close(ends[0]);
  int status = 0;
  if (child < 0) return "";
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return Judge(told, status);
}

}  // namespace oneflow
