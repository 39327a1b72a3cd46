#include "mainstem/error.h"

namespace mainstem {

Error::Error(ErrorCode code, std::string what, std::string expected, std::string got)
    : code_(code), subject_(std::move(what)), expected_(std::move(expected)), got_(std::move(got)) {
  compose();
}

void Error::compose() {
  text_ = subject_;
  if (!expected_.empty()) text_ += ": expected " + expected_;
  if (!got_.empty()) text_ += (expected_.empty() ? ": got " : ", got ") + got_;
  for (size_t i = 0; i < context_.size(); ++i) text_ += (i == 0 ? "; in " : ", ") + context_[i];
  if (!hint_.empty()) text_ += "; " + hint_;
}

Error& Error::in(std::string where) & {
  // Readers name the file themselves, and so do those who call them.
  if (!context_.empty() && context_.back().ends_with(where)) return *this;
  context_.push_back(std::move(where));
  compose();
  return *this;
}

Error&& Error::in(std::string where) && { return std::move(in(std::move(where))); }

Error& Error::hint(std::string text) & {
  hint_ = std::move(text);
  compose();
  return *this;
}

Error&& Error::hint(std::string text) && { return std::move(hint(std::move(text))); }

Error bad_input(std::string what, std::string expected, std::string got) {
  return {ErrorCode::kBadInput, std::move(what), std::move(expected), std::move(got)};
}

Error usage_error(std::string what, std::string expected, std::string got) {
  return {ErrorCode::kUsage, std::move(what), std::move(expected), std::move(got)};
}

Error internal_error(std::string what) { return {ErrorCode::kInternal, std::move(what)}; }

}  // namespace mainstem
