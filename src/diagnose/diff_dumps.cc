// Two dumps without a model: values of one name, and nothing but their totals.

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "mainstem/diff.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

/// Known elements of a tensor of either kind.
std::vector<std::pair<int64_t, double>> elements(const Dump& dump, const DumpTensor& tensor) {
  std::vector<std::pair<int64_t, double>> result;
  if (tensor.printed) {
    const PrintedValues printed = dump.read_printed(tensor);
    for (size_t i = 0; i < printed.indices.size(); ++i) {
      result.emplace_back(printed.indices[i], printed.values[i]);
    }
    return result;
  }
  const std::vector<double> values = to_f64(dump.read(tensor).view());
  for (size_t i = 0; i < values.size(); ++i) {
    result.emplace_back(static_cast<int64_t>(i), values[i]);
  }
  return result;
}

/// What the round-off of a deep model comes to in the type of a tensor.
double pass_roundoff(const Dump& dump, const std::string& tensor) {
  const DumpTensor* found = dump.find(tensor);
  if (found == nullptr) return 0;
  switch (found->dtype) {
    case DType::kF64:
      return 1e-12;
    case DType::kF16:
      return 2e-2;
    case DType::kBF16:
      return 0.1;
    case DType::kF32:
      return 2e-4;
    default:
      return 0;  // ids and masks
  }
}

StepReport total_alone(const Dump& yours, const DumpTensor& mine, const Dump& reference,
                       const DumpTensor& theirs) {
  StepReport step;
  step.name = mine.name;
  if (const auto site = parse_site(mine.name)) step.site = *site;
  const auto a = elements(yours, mine);
  const auto b = elements(reference, theirs);
  double error = 0;
  double size = 0;
  size_t j = 0;
  for (const auto& [index, value] : a) {
    while (j < b.size() && b[j].first < index) ++j;
    if (j == b.size()) break;
    if (b[j].first != index) continue;
    const double off = std::fabs(value - b[j].second);
    if (std::isnan(off) && std::isnan(value) && std::isnan(b[j].second)) continue;
    error += std::isnan(off) ? std::numeric_limits<double>::infinity() : off * off;
    size += b[j].second * b[j].second;
    step.max_difference = std::max(step.max_difference, off);
  }
  step.total = error == 0 ? 0 : std::sqrt(error / size);
  return step;
}

/// Steps of our own names in the order of the computation, and whether all names are ours.
bool put_in_order(std::vector<StepReport>& steps) {
  const bool ours = std::all_of(steps.begin(), steps.end(), [](const StepReport& step) {
    return parse_site(step.name).has_value();
  });
  if (!ours) return false;
  std::sort(steps.begin(), steps.end(), [](const StepReport& a, const StepReport& b) {
    const auto rank = [](const StepReport& step) {
      const SiteId& id = step.site;
      const int part = id.layer >= 0 ? 1 : id.site < Site::kResidPre ? 0 : 2;
      return std::tuple(id.stack != Stack::kEncoder, part, id.layer, id.site, step.name);
    };
    return rank(a) < rank(b);
  });
  return true;
}

}  // namespace

DiffReport diff(const Dump& yours, const Dump& reference, const DiffOptions& options) {
  DiffReport report;
  const auto total = static_cast<int64_t>(yours.tensors().size());
  int64_t done = 0;
  for (const DumpTensor& mine : yours.tensors()) {
    if (options.progress) options.progress(done++, total);
    const auto found = std::find_if(reference.tensors().begin(), reference.tensors().end(),
                                    [&](const DumpTensor& theirs) {
                                      return theirs.name == mine.name && theirs.op == mine.op &&
                                             theirs.occurrence == mine.occurrence;
                                    });
    if (found == reference.tensors().end()) {
      report.unmapped.push_back(mine.name);
      continue;
    }
    if (element_count(found->shape) != element_count(mine.shape)) {
      throw bad_input("shape of " + mine.name, to_string(found->shape), to_string(mine.shape))
          .in(yours.path());
    }
    report.steps.push_back(total_alone(yours, mine, reference, *found));
  }
  if (options.progress) options.progress(total, total);
  if (report.steps.empty()) {
    report.reason = "the two dumps have no name in common";
    return report;
  }
  const bool in_order = put_in_order(report.steps);
  // Nobody knows the model here, so a whole pass of round-off is allowed.
  report.verdict = DiffVerdict::kMatch;
  for (size_t i = 0; i < report.steps.size(); ++i) {
    if (*report.steps[i].total <= pass_roundoff(yours, report.steps[i].name)) continue;
    report.verdict = DiffVerdict::kDivergent;
    if (!report.first) report.first = i;
  }
  if (!in_order && report.first) {
    report.notes.emplace_back(
        "without a model nobody knows the order of the computation: the first difference is the "
        "first in the file");
  }
  report.notes.emplace_back(
      "without a model a total of 2e-4 in float32 (1e-12 in float64, 2e-2 in float16, 0.1 in "
      "bfloat16) counts as round-off of a whole pass");
  return report;
}

}  // namespace mainstem
