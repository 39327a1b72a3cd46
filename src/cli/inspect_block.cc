#include "cli/inspect_block.h"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "cli/console.h"
#include "cli/json_writer.h"
#include "cli/spec_json.h"
#include "cli/step_table.h"
#include "cli/table.h"
#include "cli/text.h"
#include "mainstem/tensor.h"

namespace mainstem::cli {
namespace {

/// A weight as a user thinks of it: the gate and the value of a gated MLP are one matrix.
struct WeightRow {
  std::string name, letters;
  std::vector<int64_t> shape;
  int64_t parameters = 0;
  bool in_mlp = false;
};

std::string letters_of(const std::string& own, bool is_vector) {
  const auto is = [&](std::string_view prefix) { return own.starts_with(prefix); };
  const std::string out = is("q.")                                                ? "HE"
                          : is("k.") || is("v.")                                  ? "KE"
                          : is("mlp_gate.") || is("mlp_value.") || is("mlp_pre.") ? "F"
                                                                                  : "D";
  if (is_vector) return "[" + out + "]";
  const std::string in = is("attn_proj.") ? "HE" : is("mlp_proj.") ? "F" : "D";
  return "[" + out + ", " + in + "]";
}

std::vector<WeightRow> weight_rows(const Program& program) {
  std::vector<WeightRow> rows;
  for (const WeightInfo& info : program.weights) {
    WeightRow row;
    row.name = info.name.substr(std::string_view("blocks.0.").size());
    row.letters = letters_of(row.name, info.kind == WeightKind::kVector);
    row.shape = info.shape;
    row.parameters = element_count(info.shape);
    row.in_mlp = row.name.starts_with("mlp_") && !row.name.starts_with("mlp_norm") &&
                 !row.name.starts_with("mlp_post_norm");
    const size_t gate = row.name.find("mlp_value.");
    if (gate == 0) {
      const std::string twin = "mlp_gate." + row.name.substr(std::string_view("mlp_value.").size());
      for (WeightRow& other : rows) {
        if (other.name != twin) continue;
        other.name = "mlp_gate+mlp_value" + twin.substr(twin.find('.'));
        other.letters.replace(1, 1, "2F");
        other.shape[0] *= 2;
        other.parameters *= 2;
      }
      continue;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// "6D²", "2D", "3/2 D²": a count as a multiple of D² or D; empty where neither is simple.
std::string in_widths(int64_t count, int64_t width) {
  const auto multiple = [&](int64_t unit, const char* symbol) -> std::string {
    const int64_t divisor = std::gcd(count, unit);
    const int64_t top = count / divisor, bottom = unit / divisor;
    if (bottom > 12) return {};
    if (bottom == 1) return top == 1 ? symbol : fmt::format("{}{}", top, symbol);
    return fmt::format("{}/{} {}", top, bottom, symbol);
  };
  if (count >= width * width) return multiple(width * width, "D²");
  return multiple(width, "D");
}

struct Counted {
  Program program;
  std::vector<WeightRow> weights;
  ProgramCounts counts;
  int64_t mlp = 0;
};

Counted counted(const BlockOptions& options, int64_t context) {
  Counted result;
  result.program = build_block_program(block_spec(options));
  result.weights = weight_rows(result.program);
  result.counts = count(result.program, context);
  for (const WeightRow& row : result.weights) result.mlp += row.in_mlp ? row.parameters : 0;
  return result;
}

/// One step in two blocks; a side is null where the block has no such step.
struct Difference {
  std::string site;
  std::optional<StepRow> first, second;
  bool shape = false, formula = false, parameters = false;
};

std::vector<Difference> differences(const Program& a, const Program& b, size_t& same) {
  std::vector<Difference> result;
  const std::vector<StepRow> rows_a = all_names(a), rows_b = all_names(b);
  size_t next_b = 0;
  const auto only_second = [&](const StepRow& row) {
    result.push_back({to_string(row.site), std::nullopt, row});
  };
  const auto find = [](const std::vector<StepRow>& rows, const SiteId& site) {
    size_t i = 0;
    while (i < rows.size() && !(rows[i].site == site)) ++i;
    return i;
  };
  for (const StepRow& row : rows_a) {
    const size_t other = find(rows_b, row.site);
    if (other == rows_b.size()) {
      result.push_back({to_string(row.site), row, std::nullopt});
      continue;
    }
    for (; next_b < other; ++next_b) only_second(rows_b[next_b]);
    next_b = std::max(next_b, other + 1);
    Difference both{to_string(row.site), row, rows_b[other]};
    const Value& va = a.value(row.value);
    const Value& vb = b.value(both.second->value);
    both.shape = va.dims != vb.dims;
    both.formula = formula_text(a, row) != formula_text(b, *both.second);
    both.parameters = parameters_of(a, row) != parameters_of(b, *both.second);
    if (both.shape || both.formula || both.parameters) {
      result.push_back(std::move(both));
    } else {
      ++same;
    }
  }
  for (; next_b < rows_b.size(); ++next_b) only_second(rows_b[next_b]);
  return result;
}

std::string steps_text(const Program& program) {
  Table table({{"step"}, {"shape"}, {"size"}, {"formula"}});
  for (const StepRow& row : all_names(program)) {
    const Value& value = program.value(row.value);
    table.add({short_name(row.site), dims_letters(value), dims_numbers(value),
               formula_text(program, row)});
  }
  return table.text();
}

std::string weights_text(const Counted& block, int64_t width) {
  Table table({{"weight [out, in]"}, {""}, {""}, {"parameters", Align::kRight}, {""}});
  const auto total = [&](const char* label, int64_t number) {
    table.add({label, "", "", with_commas(number), in_widths(number, width)});
  };
  for (const WeightRow& row : block.weights) {
    table.add({row.name, row.letters, shape_text(row.shape), with_commas(row.parameters),
               in_widths(row.parameters, width)});
  }
  total("MLP", block.mlp);
  total("block", block.counts.parameters);
  return table.text() + "Shapes as files hold them; x @ W takes the transpose, [in, out].\n";
}

std::string difference_text(const Program& a, const Program& b) {
  size_t same = 0;
  Table table({{"step"}, {""}, {"size"}, {"parameters", Align::kRight}, {"formula"}});
  for (const Difference& each : differences(a, b, same)) {
    const std::string name = each.site.substr(each.site.rfind('.') + 1);
    const auto side = [&](const Program& program, const std::optional<StepRow>& row,
                          const char* label, bool titled) {
      if (!row) return table.add({titled ? name : "", label, "no such step"});
      table.add({titled ? name : "", label, dims_numbers(program.value(row->value)),
                 with_commas(parameters_of(program, *row)), formula_text(program, *row)});
    };
    side(a, each.first, "A", true);
    side(b, each.second, "B", false);
  }
  return "Steps that differ\n" + table.text() +
         fmt::format("The other {} {} the same.\n", count_text(static_cast<int64_t>(same), "step"),
                     same == 1 ? "is" : "are");
}

void write_block(JsonWriter& json, const BlockOptions& options, const Counted& block) {
  json.field("parameters", block.counts.parameters);
  json.field("flops_per_token", 2 * block.counts.multiply_adds);
  json.field("weight_bytes", 4 * block.counts.parameters);
  json.field("kv_bytes_per_token", 4 * block.counts.kv_values_per_token);
  json.field("mlp_parameters", block.mlp);
  json.field("mlp_parameters_in_widths", in_widths(block.mlp, options.width)).key("weights");
  json.begin_array(JsonWriter::kLines);
  for (const WeightRow& row : block.weights) {
    json.begin_object().field("name", row.name).field("shape", row.shape);
    json.field("letters", row.letters).field("parameters", row.parameters).end_object();
  }
  json.end_array().key("spec");
  write_spec(json, block_spec(options));
  json.key("sites").begin_array(JsonWriter::kLines);
  for (const StepRow& row : all_names(block.program)) write_step(json, block.program, row);
  json.end_array();
}

}  // namespace

std::string block_text(const BlockOptions& first, const std::optional<BlockOptions>& second,
                       int64_t context) {
  const Counted a = counted(first, context);
  if (!second) {
    std::string text = styled(Style::kBold, "One block: " + describe(first)) + "\n\n";
    text += steps_text(a.program) + "\n" + weights_text(a, first.width) + "\n";
    return text + fmt::format("{} FLOPs per token with {} cached\n",
                              with_commas(2 * a.counts.multiply_adds), context);
  }
  const Counted b = counted(*second, context);
  std::string text = styled(Style::kBold, "A: " + describe(first)) + "\n";
  text += styled(Style::kBold, "B: " + describe(*second)) + "\n\n";
  text += difference_text(a.program, b.program) + "\n";
  text += "A\n" + weights_text(a, first.width) + "\nB\n" + weights_text(b, second->width);
  return text;
}

std::string block_json(const BlockOptions& first, const std::optional<BlockOptions>& second,
                       int64_t context) {
  const Counted a = counted(first, context);
  JsonWriter json;
  json.begin_object(JsonWriter::kLines).key("family").null();
  write_block(json, first, a);
  if (second) {
    const Counted b = counted(*second, context);
    json.key("against").begin_object(JsonWriter::kLines);
    write_block(json, *second, b);
    json.end_object().key("differences").begin_array(JsonWriter::kLines);
    size_t same = 0;
    for (const Difference& each : differences(a.program, b.program, same)) {
      json.begin_object().field("site", each.site).key("differs").begin_array();
      if (!each.first || !each.second) json.value("presence");
      if (each.shape) json.value("shape");
      if (each.formula) json.value("formula");
      if (each.parameters) json.value("parameters");
      json.end_array().key("first");
      each.first ? write_step(json, a.program, *each.first) : void(json.null());
      json.key("second");
      each.second ? write_step(json, b.program, *each.second) : void(json.null());
      json.end_object();
    }
    json.end_array().field("same_steps", same);
  }
  return json.end_object().text();
}

}  // namespace mainstem::cli
