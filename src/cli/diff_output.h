#pragma once

#include <string>

#include "mainstem/diff.h"
#include "mainstem/doctor.h"

namespace mainstem::cli {

/// What `diff` prints; `width` in columns. `all`: every step, not only those that differ.
std::string diff_text(const DiffReport& report, bool all);
std::string diff_json(const DiffReport& report);
/// What `doctor` prints: the same, then the causes.
std::string doctor_text(const DoctorReport& report, bool all);
std::string doctor_json(const DoctorReport& report);

}  // namespace mainstem::cli
