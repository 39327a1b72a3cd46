// Every mistake of the table, made in every family it applies to: the doctor finds the step and
// proves the cause, and proves nothing else.

#include "mainstem/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "diagnose/causes_check.h"
#include "diagnose/made_dump.h"
#include "diagnose/report_text.h"
#include "support/golden_families.h"

namespace mainstem {
namespace {

using namespace mainstem::testing;

/// Mistakes that make the same values: no test on values tells them apart.
bool same_values(const std::string& made, const std::string& found) {
  static const std::set<std::pair<std::string, std::string>> same = {
      // Both norms of a parallel block read one value, so one norm's weights are its output.
      {"block.parallel", "norm.weight_swapped"},
  };
  return made == found || same.contains({made, found});
}

class Doctor : public ::testing::TestWithParam<std::string> {
 protected:
  Doctor() : model_(load_family(GetParam())), input_(some_input(model_, 11)) {}

  Model model_;
  SequenceInput input_;
};

TEST_P(Doctor, EveryMistakeIsFoundAndNothingElseIsProved) {
  int made = 0;
  int shown = 0;
  int proved = 0;
  std::string wrong;
  for (int layer : {-1, 1}) {
    for (const Form& form : forms(model_.program(), model_.weights(), layer)) {
      // In float32 one step in 16 bits is a matter of precision.
      if (form.cause == "norm.cast_order") continue;
      std::vector<double> numbers;
      for (const FreeNumber& number : form.numbers) numbers.push_back(number.usual[0]);
      const MadeDump dump(bind(form.make(numbers), model_.weights()), input_,
                          {.compute = Compute::kF32});
      const DoctorReport report = doctor(model_, dump.open(), {.threads = 1});
      ++made;
      if (!report.diff.first) continue;  // without an effect on this text
      ++shown;
      const bool right =
          std::any_of(report.causes.begin(), report.causes.end(), [&](const Cause& cause) {
            return same_values(form.cause, cause.id) && cause.status == CauseStatus::kProved;
          });
      const bool others =
          std::any_of(report.causes.begin(), report.causes.end(), [&](const Cause& cause) {
            return !same_values(form.cause, cause.id) && cause.status == CauseStatus::kProved;
          });
      proved += right && !others ? 1 : 0;
      if (!right || others) {
        wrong += form.cause + " (" + form.yours + ") in block " + std::to_string(layer) + ":\n" +
                 text_of(report);
      }
    }
  }
  std::printf("%s: %d mistakes, %d show, %d proved\n%s", GetParam().c_str(), made, shown, proved,
              wrong.c_str());
  EXPECT_EQ(proved, shown) << wrong;
}

INSTANTIATE_TEST_SUITE_P(All, Doctor, ::testing::ValuesIn(golden_families()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace mainstem
