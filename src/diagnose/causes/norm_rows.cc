#include "diagnose/causes/norm_rows.h"

#include <cmath>

namespace mainstem::causes {
namespace {

void norm_group(const NormRow& row, std::span<const double> x, int64_t first, std::span<double> y) {
  const auto n = static_cast<double>(row.group);
  const auto at = [&](int64_t i) { return x[static_cast<size_t>(first + i)]; };
  double mean = 0;
  if (row.norm.kind == NormKind::kLayer) {
    for (int64_t i = 0; i < row.group; ++i) mean += at(i);
    mean /= n;
  }
  double variance = 0;
  for (int64_t i = 0; i < row.group; ++i) variance += (at(i) - mean) * (at(i) - mean);
  variance /= row.unbiased ? n - 1 : n;
  const double divisor =
      row.eps_outside ? std::sqrt(variance) + row.norm.eps : std::sqrt(variance + row.norm.eps);
  for (int64_t i = 0; i < row.group; ++i) {
    const auto channel = static_cast<size_t>(first + i);
    double value = (at(i) - mean) / divisor;
    if (row.cast == CastOrder::kBeforeWeight) value = rounded_to(row.cast_to, value);
    if (!row.weight.empty()) {
      value *= row.norm.weight_offset + row.weight[channel % row.weight.size()];
    }
    if (!row.bias.empty()) value += row.bias[channel % row.bias.size()];
    if (row.cast != CastOrder::kNone) value = rounded_to(row.cast_to, value);
    y[channel] = value;
  }
}

}  // namespace

double rounded_to(DType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  return dtype == DType::kF16 ? f16_to_f32(f32_to_f16(narrow)) : bf16_to_f32(f32_to_bf16(narrow));
}

CustomParams custom_norm(std::string note, NormRow row) {
  return {.note = std::move(note),
          .apply = [row = std::move(row)](std::span<const std::span<const double>> in,
                                          std::span<double> out, int64_t) {
            for (int64_t c = 0; c < static_cast<int64_t>(out.size()); c += row.group) {
              norm_group(row, in[0], c, out);
            }
          }};
}

Change change_norm_rows(const Place& place, const std::vector<ValueId>& norms, std::string note,
                        std::function<void(NormRow&)> change) {
  struct Sources {
    ValueId output;
    std::optional<WeightSource> weight, bias;
  };
  std::vector<Sources> sources;
  for (ValueId output : norms) {
    sources.push_back({output, source_of(place, output, 0), source_of(place, output, 1)});
  }
  return [sources = std::move(sources), note = std::move(note), change = std::move(change)](
             Edited& edited, Numbers) {
    for (const Sources& each : sources) {
      const auto& params = std::get<NormParams>(maker(edited.program, each.output).params);
      NormRow row{.norm = params.norm, .group = params.group};
      if (each.weight) row.weight = read_vector(*each.weight);
      if (each.bias) row.bias = read_vector(*each.bias);
      change(row);
      replace_by_custom(edited.program, each.output, custom_norm(note, std::move(row)));
    }
  };
}

}  // namespace mainstem::causes
