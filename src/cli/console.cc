#include "cli/console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "mainstem/error.h"

namespace mainstem::cli {
namespace {

bool g_output_closed = false;

bool colours() {
  static const bool on = [] {
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    return stdout_is_terminal() && (no_color == nullptr || *no_color == '\0') && term != nullptr &&
           std::string_view(term) != "dumb";
  }();
  return on;
}

}  // namespace

void print(std::string_view text) {
  if (g_output_closed) throw bad_input("standard output", "one that is open", "a closed one");
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      throw ClosedOutput{};
    } else if (errno != EINTR) {
      throw bad_input("standard output", "every byte to be written", std::strerror(errno));
    }
  }
}

void note(std::string_view text) {
  std::string line(text);
  line += '\n';
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) rest.remove_prefix(static_cast<size_t>(written));
  }
}

bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

int output_width() {
  winsize size{};
  if (!stdout_is_terminal() || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return 80;
  }
  return std::clamp<int>(size.ws_col, 60, 120);
}

namespace {

std::string_view escape_code(Style style) {
  switch (style) {
    case Style::kBold:
      return "1";
    case Style::kDim:
      return "2";
    case Style::kGreen:
      return "32";
    case Style::kRed:
      return "31";
  }
  return "0";
}

}  // namespace

std::string styled(Style style, std::string_view text) {
  if (!colours()) return std::string(text);
  return "\x1b[" + std::string(escape_code(style)) + "m" + std::string(text) + "\x1b[0m";
}

void keep_standard_files() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
      g_output_closed |= fd == STDOUT_FILENO;
      // open() takes the lowest free number, which is this one.
      if (::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd) return;
    }
  }
}

}  // namespace mainstem::cli
