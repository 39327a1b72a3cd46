#include "cli/diff_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/number_text.h"
#include "cli/console.h"
#include "cli/json_writer.h"
#include "cli/table.h"
#include "cli/text.h"

namespace mainstem::cli {
namespace {

constexpr size_t kMostNames = 12;

std::string error_text(std::optional<double> error) {
  return error ? number_text(*error, "{:.1e}") : "-";
}

std::string styled_verdict(StepVerdict verdict) {
  switch (verdict) {
    case StepVerdict::kOk:
      return styled(Style::kGreen, name(verdict));
    case StepVerdict::kWrong:
    case StepVerdict::kPrecision:
      return styled(Style::kRed, name(verdict));
    case StepVerdict::kInherited:
    case StepVerdict::kUnknown:
      return styled(Style::kDim, name(verdict));
  }
  return {};
}

/// Without a model steps have the dump's names.
std::string step_name(const DiffReport& report, const StepReport& step) {
  return report.steps.empty() || step.local ? to_string(step.site) : step.name;
}

std::string list_text(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNames);
  std::string text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<int64_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

void add_paragraph(std::string& text, const std::string& title, const std::string& body) {
  const int width = output_width();
  const std::string whole = title + (title.empty() ? "" : " ") + body;
  for (const std::string& line : wrap(whole, width)) text += line + "\n";
}

std::string headline(const DiffReport& report) {
  switch (report.verdict) {
    case DiffVerdict::kMatch:
      return styled(Style::kGreen, "match");
    case DiffVerdict::kDivergent:
      return styled(Style::kRed, "divergent");
    case DiffVerdict::kIncomparable:
      return styled(Style::kRed, "incomparable");
  }
  return {};
}

std::string first_text(const DiffReport& report) {
  const StepReport& step = report.steps[*report.first];
  if (!step.local) {
    return fmt::format("first difference: {} (total {})\n", step_name(report, step),
                       error_text(step.total));
  }
  std::string text = fmt::format("first wrong step: {}  local {}  envelope {}  total {}\n",
                                 styled(Style::kBold, to_string(step.site)), error_text(step.local),
                                 error_text(step.envelope), error_text(step.total));
  if (!step.covers.empty()) {
    add_paragraph(text, "  Judged together with it, since the dump has no values between:",
                  list_text(step.covers) + ".");
  }
  if (!step.first_inf.empty()) {
    text += fmt::format("  first Inf at [{}]\n", fmt::join(step.first_inf, ", "));
  }
  if (!step.first_nan.empty()) {
    text += fmt::format("  first NaN at [{}]\n", fmt::join(step.first_nan, ", "));
  }
  return text;
}

std::string steps_text(const DiffReport& report, bool all) {
  const bool judged = !report.steps.empty() && report.steps.front().local.has_value();
  Table table(judged ? std::vector<Column>{{"step"},
                                           {"total", Align::kRight},
                                           {"local", Align::kRight},
                                           {"envelope", Align::kRight},
                                           {"ratio", Align::kRight},
                                           {"verdict"}}
                     : std::vector<Column>{{"name"}, {"total", Align::kRight}});
  size_t shown = 0;
  size_t left_out = 0;
  for (const StepReport& step : report.steps) {
    const bool plain =
        judged ? step.verdict == StepVerdict::kOk || step.verdict == StepVerdict::kInherited
               : step.total == 0.0;
    if (!all && (plain || shown == 24)) {
      ++left_out;
      continue;
    }
    ++shown;
    if (judged) {
      table.add({step_name(report, step), error_text(step.total), error_text(step.local),
                 error_text(step.envelope), step.ratio ? number_text(*step.ratio, "{:.2g}") : "-",
                 styled_verdict(step.verdict)});
    } else {
      table.add({step_name(report, step), error_text(step.total)});
    }
  }
  std::string text = shown > 0 ? table.text() : "";
  if (left_out > 0) {
    text += fmt::format("({} of {} not shown: --all)\n", left_out,
                        count_text(std::ssize(report.steps), "step"));
  }
  return text;
}

std::string summary(const DiffReport& report) {
  std::string text = headline(report);
  if (report.verdict == DiffVerdict::kIncomparable) return text + ": " + report.reason + "\n";
  size_t counts[5] = {};
  double worst = 0;
  for (const StepReport& step : report.steps) {
    ++counts[static_cast<size_t>(step.verdict)];
    if (step.ratio && step.verdict == StepVerdict::kOk) worst = std::max(worst, *step.ratio);
  }
  const bool judged = !report.steps.empty() && report.steps.front().local.has_value();
  if (!judged) {
    return text +
           fmt::format(": {} by name, no model\n", count_text(std::ssize(report.steps), "value"));
  }
  text += fmt::format(": {} compared as {}", count_text(std::ssize(report.steps), "step"),
                      name(report.arithmetic));
  for (StepVerdict verdict : {StepVerdict::kOk, StepVerdict::kWrong, StepVerdict::kPrecision,
                              StepVerdict::kInherited, StepVerdict::kUnknown}) {
    const size_t count = counts[static_cast<size_t>(verdict)];
    if (count > 0) text += fmt::format(", {} {}", count, name(verdict));
  }
  if (counts[static_cast<size_t>(StepVerdict::kOk)] > 0) {
    text += fmt::format("; of the ok ones the worst has {:.2g} times the round-off of sound code",
                        worst);
  }
  text += '\n';
  if (report.logits) {
    text += fmt::format("logits: KL {}, top-1 agrees {:.1f} %, top-5 {:.1f} %\n",
                        number_text(report.logits->kl, "{:.2e}"), 100 * report.logits->top1,
                        100 * report.logits->top5);
  }
  return text;
}

std::string closing(const DiffReport& report) {
  std::string text;
  for (const std::string& note : report.notes) add_paragraph(text, "note:", note);
  if (!report.unmapped.empty()) {
    add_paragraph(text, "names that mean nothing here:",
                  list_text(report.unmapped) + " (--map FILE says what they are)");
  }
  return text;
}

void write_index(JsonWriter& json, const char* key, const std::vector<int64_t>& index) {
  if (!index.empty()) json.field(key, index);
}

void write_diff(JsonWriter& json, const DiffReport& report) {
  json.field("verdict", name(report.verdict));
  if (!report.reason.empty()) json.field("reason", report.reason);
  json.key("first");
  if (report.first) {
    const StepReport& step = report.steps[*report.first];
    json.begin_object().field("site", step_name(report, step));
    json.field("local", step.local).field("envelope", step.envelope).field("total", step.total);
    json.end_object();
  } else {
    json.null();
  }
  json.field("wrong", report.wrong());
  json.field("arithmetic", name(report.arithmetic));
  json.key("steps").begin_array(JsonWriter::kLines);
  for (const StepReport& step : report.steps) {
    json.begin_object().field("site", step_name(report, step)).field("name", step.name);
    json.field("total", step.total).field("local", step.local);
    json.field("envelope", step.envelope).field("ratio", step.ratio);
    json.field("verdict", name(step.verdict)).field("from", step.from);
    json.field("covers", step.covers);
    json.field("max_difference", step.max_difference).field("max_index", step.max_index);
    json.field("cosine", step.cosine).field("ulps", step.ulps);
    json.field("per_token", step.per_token);
    if (!step.per_head.empty()) json.field("per_head", step.per_head);
    write_index(json, "first_inf", step.first_inf);
    write_index(json, "first_nan", step.first_nan);
    json.end_object();
  }
  json.end_array();
  if (report.logits) {
    json.key("logits").begin_object();
    json.field("kl", report.logits->kl).field("top1", report.logits->top1);
    json.field("top5", report.logits->top5);
    json.field("smallest_margin", report.logits->smallest_margin).end_object();
  }
  json.field("unmapped", report.unmapped).field("notes", report.notes);
}

std::string layers_text(const std::vector<int>& layers) {
  if (layers.empty()) return "";
  if (layers.size() == 1) return fmt::format(" (block {})", layers.front());
  const bool run = layers.back() - layers.front() + 1 == static_cast<int>(layers.size());
  if (run) return fmt::format(" (blocks {} to {})", layers.front(), layers.back());
  return fmt::format(" (blocks {})", fmt::join(layers, ", "));
}

std::string cause_text(const Cause& cause) {
  const bool proved = cause.status == CauseStatus::kProved;
  std::string text = styled(Style::kBold, cause.id);
  if (cause.status != CauseStatus::kUnknown) {  // "unknown" is said by the id
    text += "  " + styled(proved ? Style::kGreen : Style::kRed, name(cause.status));
  }
  text += '\n';
  add_paragraph(text, "  where:", list_text(cause.sites) + layers_text(cause.layers));
  for (const auto& [key, value] : cause.parameters) {
    add_paragraph(text, fmt::format("  {}:", key), value);
  }
  if (cause.status == CauseStatus::kUnknown) {
    text += fmt::format("  local error {}, round-off {}\n", number_text(cause.local, "{:.1e}"),
                        number_text(cause.envelope, "{:.1e}"));
  } else {
    text +=
        fmt::format("  proof: with this mistake {} of the local error {} are left; round-off {}\n",
                    number_text(cause.left, "{:.1e}"), number_text(cause.local, "{:.1e}"),
                    number_text(cause.envelope, "{:.1e}"));
  }
  for (const TriedCause& same : cause.same_values) {
    add_paragraph(text, "  or:",
                  fmt::format("{} ({}), which explains this dump as well", same.id, same.what));
  }
  for (const TriedCause& tried : cause.tried) {
    add_paragraph(
        text, "  tried:",
        fmt::format("{} ({}) leaves {}", tried.id, tried.what, number_text(tried.left, "{:.1e}")));
  }
  if (cause.total_if_fixed) {
    text += fmt::format("  fixed alone: the last value would be {} from the reference\n",
                        error_text(cause.total_if_fixed));
  }
  if (!cause.known_fault.empty()) add_paragraph(text, "  known fault:", cause.known_fault);
  if (!cause.usual_place.empty()) add_paragraph(text, "  usual place:", cause.usual_place);
  if (!cause.fix.empty()) add_paragraph(text, "  fix:", cause.fix);
  return text;
}

}  // namespace

std::string diff_text(const DiffReport& report, bool all) {
  std::string text = summary(report);
  if (report.verdict == DiffVerdict::kIncomparable) return text + closing(report);
  if (report.first) text += first_text(report);
  return text + steps_text(report, all) + closing(report);
}

std::string diff_json(const DiffReport& report) {
  JsonWriter json;
  json.begin_object(JsonWriter::kLines);
  write_diff(json, report);
  return json.end_object().text();
}

std::string doctor_text(const DoctorReport& report, bool all) {
  std::string text = summary(report.diff);
  if (report.diff.first) text += first_text(report.diff);
  if (all) text += steps_text(report.diff, true);
  for (const Cause& cause : report.causes) text += "\n" + cause_text(cause);
  if (report.total_predicted) {
    text += "\n";
    add_paragraph(text, "check:",
                  fmt::format("the whole model with {} in it makes your {} but for {}; the "
                              "reference differs from it by {}.",
                              report.causes.size() == 1 ? "this mistake" : "these mistakes",
                              report.predicted_site, error_text(report.total_predicted),
                              error_text(report.total_now)));
  }
  return text + closing(report.diff);
}

namespace {

void write_tried(JsonWriter& json, const char* key, const std::vector<TriedCause>& causes) {
  json.key(key).begin_array();
  for (const TriedCause& each : causes) {
    json.begin_object().field("id", each.id).field("what", each.what);
    json.field("left", each.left).end_object();
  }
  json.end_array();
}

}  // namespace

std::string doctor_json(const DoctorReport& report) {
  JsonWriter json;
  json.begin_object(JsonWriter::kLines);
  write_diff(json, report.diff);
  json.key("causes").begin_array(JsonWriter::kLines);
  for (const Cause& cause : report.causes) {
    json.begin_object().field("id", cause.id).field("sites", cause.sites);
    json.field("layers", cause.layers).field("status", name(cause.status));
    json.field("local", cause.local).field("left", cause.left).field("envelope", cause.envelope);
    json.key("parameters").begin_object();
    for (const auto& [key, value] : cause.parameters) json.field(key, value);
    json.end_object();
    json.field("total_if_fixed", cause.total_if_fixed);
    json.field("usual_place", cause.usual_place).field("fix", cause.fix);
    if (!cause.known_fault.empty()) json.field("known_fault", cause.known_fault);
    if (!cause.shape.empty()) json.field("shape", cause.shape);
    if (cause.status == CauseStatus::kUnknown) {
      write_tried(json, "tried", cause.tried);
    }
    if (!cause.same_values.empty()) write_tried(json, "same_values", cause.same_values);
    json.end_object();
  }
  json.end_array();
  json.key("prediction");
  if (report.total_now) {
    json.begin_object().field("site", report.predicted_site);
    json.field("total_now", report.total_now);
    json.field("total_predicted", report.total_predicted).end_object();
  } else {
    json.null();
  }
  return json.end_object().text();
}

}  // namespace mainstem::cli
