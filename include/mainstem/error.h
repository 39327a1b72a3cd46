#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace mainstem {

/// What kind of mistake an Error reports. The values are the exit codes of the command.
enum class ErrorCode {
  kUsage = 2,     ///< a flag or argument, or a request that does not suit this model
  kBadInput = 3,  ///< a file, config or dump
  kInternal = 4,  ///< a fault of this library
};

/// Everything the library reports about the outside world. The library never aborts or exits.
///
/// The text reads `what: expected …, got …; in <innermost>, <outer>; hint`.
///
///     throw bad_input("header length", "at most 100000000 bytes", "2 GB").in(path);
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string what, std::string expected = {}, std::string got = {});

  /// Adds where it happened, from the inside out (tensor or key first, then the file). What the
  /// place before ends with already is not said again.
  Error& in(std::string where) &;
  Error&& in(std::string where) &&;
  /// Adds one sentence that says what the user can do.
  Error& hint(std::string text) &;
  Error&& hint(std::string text) &&;

  ErrorCode code() const noexcept { return code_; }
  const std::vector<std::string>& context() const noexcept { return context_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  void compose();

  ErrorCode code_;
  std::string subject_, expected_, got_, hint_;
  std::vector<std::string> context_;
  std::string text_;
};

Error bad_input(std::string what, std::string expected = {}, std::string got = {});
Error usage_error(std::string what, std::string expected = {}, std::string got = {});
Error internal_error(std::string what);

/// Runs `body`; an Error that leaves it gets `where` added to its context.
template <typename Body>
decltype(auto) with_context(const std::string& where, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    error.in(where);
    throw;
  }
}

}  // namespace mainstem
