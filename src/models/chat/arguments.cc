#include "models/chat/arguments.h"

#include <algorithm>

#include "io/text.h"

namespace mainstem::chat {

Bound::Bound(std::string function, const Arguments& arguments,
             std::initializer_list<std::string_view> parameters, size_t required)
    : function_(std::move(function)), parameters_(parameters), values_(parameters.size()) {
  if (arguments.positional.size() > parameters_.size()) {
    throw bad_input(function_, "at most " + std::to_string(parameters_.size()) + " arguments",
                    std::to_string(arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters_.begin(), parameters_.end(), name);
    if (found == parameters_.end()) {
      throw bad_input(function_, "an argument that it has", quote(name));
    }
    const Value*& place = values_[static_cast<size_t>(found - parameters_.begin())];
    if (place != nullptr) throw bad_input(function_, "each argument once", quote(name) + " twice");
    place = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) {
      throw bad_input(function_, "the argument " + quote(parameters_[i]), "none");
    }
  }
}

const Value& Bound::operator[](size_t place) const {
  static const Value none;
  return values_[place] != nullptr ? *values_[place] : none;
}

int64_t Bound::integer(size_t place, int64_t fallback) const {
  if (!given(place)) return fallback;
  const Value& value = *values_[place];
  if (!value.is(Kind::kInt) && !value.is(Kind::kBool)) refuse(place, "an integer");
  return value.integer();
}

bool Bound::truth(size_t place, bool fallback) const {
  return given(place) ? is_true(*values_[place]) : fallback;
}

std::string_view Bound::text(size_t place, std::string_view fallback) const {
  if (!given(place)) return fallback;
  if (!values_[place]->is(Kind::kString)) refuse(place, "a string");
  return values_[place]->text();
}

void Bound::refuse(size_t place, std::string expected) const {
  throw bad_input(function_ + ", " + quote(parameters_[place]), std::move(expected),
                  std::string(type_name((*this)[place])));
}

void expect_positional(std::string_view function, const Arguments& arguments, size_t least,
                       size_t most) {
  const size_t count = arguments.positional.size();
  if (!arguments.named.empty()) {
    throw bad_input(std::string(function), "no named argument",
                    quote(arguments.named.front().first));
  }
  if (count < least || count > most) {
    throw bad_input(std::string(function),
                    std::to_string(least) +
                        (most > least ? " to " + std::to_string(most) : std::string()) +
                        " arguments",
                    std::to_string(count));
  }
}

}  // namespace mainstem::chat
