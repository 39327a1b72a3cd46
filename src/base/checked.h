#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "mainstem/error.h"

namespace mainstem {

/// The only way sizes that come from outside are added and multiplied: a wrap is an Error.
template <std::integral T>
T checked_mul(T a, T b, const char* name) {
  T result;
  if (__builtin_mul_overflow(a, b, &result)) {
    throw bad_input(name, "a product that fits 64 bits",
                    std::to_string(a) + " x " + std::to_string(b));
  }
  return result;
}

template <std::integral T>
T checked_add(T a, T b, const char* name) {
  T result;
  if (__builtin_add_overflow(a, b, &result)) {
    throw bad_input(name, "a sum that fits 64 bits", std::to_string(a) + " + " + std::to_string(b));
  }
  return result;
}

}  // namespace mainstem
