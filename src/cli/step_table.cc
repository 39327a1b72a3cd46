#include "cli/step_table.h"

#include <algorithm>

#include "mainstem/tensor.h"

namespace mainstem::cli {

std::string dims_letters(const Value& value) {
  std::string text = "[";
  for (const Dim& dim : value.dims)
    text += (text.size() > 1 ? "," : "") + std::string(1, dim.letter);
  return text + "]";
}

std::string dims_numbers(const Value& value) {
  std::string text = "[";
  for (const Dim& dim : value.dims) {
    text += text.size() > 1 ? "," : "";
    text += dim.size >= 0 ? std::to_string(dim.size) : std::string(1, dim.letter);
  }
  return text + "]";
}

std::string short_name(const SiteId& site) { return std::string(name(site.site)); }

const SiteId& first_name(const Program& program, ValueId value) {
  return std::find_if(program.sites.begin(), program.sites.end(),
                      [&](const NamedValue& named) { return named.value == value; })
      ->site;
}

std::vector<StepRow> all_names(const Program& program) {
  std::vector<StepRow> rows;
  for (const NamedValue& named : program.sites) {
    if (named.site.site == Site::kKCache || named.site.site == Site::kVCache) continue;
    rows.push_back({named.site, named.value});
  }
  return rows;
}

std::string formula_text(const Program& program, const StepRow& row) {
  const SiteId& first = first_name(program, row.value);
  if (first == row.site) return program.formula(row.value);
  return "= " + (first.layer == row.site.layer ? short_name(first) : to_string(first));
}

std::vector<WeightId> weights_of(const Program& program, ValueId value) {
  const Step& step = program.step(program.value(value).producer);
  std::vector<WeightId> weights;
  if (step.output != value) return weights;
  for (WeightId weight : step.weights) {
    if (weight != kNoId) weights.push_back(weight);
  }
  return weights;
}

int64_t parameters_of(const Program& program, const StepRow& row) {
  if (first_name(program, row.value) != row.site) return 0;
  int64_t total = 0;
  for (WeightId weight : weights_of(program, row.value)) {
    total += element_count(program.weight(weight).shape);
  }
  return total;
}

void write_step(JsonWriter& json, const Program& program, const StepRow& row) {
  const Value& value = program.value(row.value);
  json.begin_object().field("site", to_string(row.site)).key("shape").begin_array();
  for (const Dim& dim : value.dims) json.value(std::string(1, dim.letter));
  json.end_array().key("size").begin_array();
  for (const Dim& dim : value.dims) dim.size >= 0 ? json.value(dim.size) : json.null();
  json.end_array();
  const SiteId& first = first_name(program, row.value);
  if (first == row.site) {
    json.field("formula", program.formula(row.value));
  } else {
    json.field("formula", "= " + to_string(first)).field("same_as", to_string(first));
  }
  json.field("parameters", parameters_of(program, row));
  json.end_object();
}

}  // namespace mainstem::cli
