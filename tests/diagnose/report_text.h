#pragma once

#include <string>

#include "mainstem/doctor.h"

namespace mainstem::testing {

/// What a doctor said, for the messages of tests.
inline std::string text_of(const DoctorReport& report) {
  std::string text;
  for (const Cause& cause : report.causes) {
    text += "  " + cause.id + " " + std::string(name(cause.status)) + " left " +
            std::to_string(cause.left) + " of " + std::to_string(cause.local) + ":";
    for (const std::string& site : cause.sites) text += " " + site;
    for (const auto& [key, value] : cause.parameters) text += "; " + key + " " + value;
    text += "; " + cause.shape + "\n";
    for (const TriedCause& tried : cause.tried) {
      text += "    tried " + tried.id + " " + tried.what + " " + std::to_string(tried.left) + "\n";
    }
  }
  return text;
}

}  // namespace mainstem::testing
