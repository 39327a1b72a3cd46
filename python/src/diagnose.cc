#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "bound_dump.h"
#include "long_call.h"
#include "mainstem/diff.h"
#include "mainstem/doctor.h"
#include "mainstem/error.h"

// Reports go to Python as nested dicts; python/mainstem/report.py makes objects of them.

namespace mainstem::python {
namespace {

nb::str text(std::string_view words) { return nb::str(words.data(), words.size()); }

nb::dict step_fields(const StepReport& step) {
  nb::dict out;
  // Of two dumps nothing is known but the names.
  out["site"] = step.local ? to_string(step.site) : step.name;
  out["name"] = step.name;
  out["total"] = step.total;
  out["local"] = step.local;
  out["envelope"] = step.envelope;
  out["ratio"] = step.ratio;
  out["verdict"] = text(name(step.verdict));
  out["from_"] = step.from;
  out["covers"] = step.covers;
  out["max_difference"] = step.max_difference;
  out["max_index"] = step.max_index;
  out["cosine"] = step.cosine;
  out["ulps"] = step.ulps;
  out["per_token"] = step.per_token;
  out["per_head"] = step.per_head;
  out["first_inf"] = step.first_inf;
  out["first_nan"] = step.first_nan;
  return out;
}

nb::object logit_fields(const std::optional<LogitReport>& logits) {
  if (!logits) return nb::none();
  nb::dict out;
  out["kl"] = logits->kl;
  out["top1"] = logits->top1;
  out["top5"] = logits->top5;
  out["smallest_margin"] = logits->smallest_margin;
  return out;
}

nb::dict diff_fields(const DiffReport& report) {
  nb::list steps;
  for (const StepReport& step : report.steps) steps.append(step_fields(step));
  nb::dict out;
  out["verdict"] = text(name(report.verdict));
  out["reason"] = report.reason;
  out["first"] = report.first;
  out["steps"] = steps;
  out["wrong"] = report.wrong();
  out["unmapped"] = report.unmapped;
  out["notes"] = report.notes;
  out["arithmetic"] = text(name(report.arithmetic));
  out["logits"] = logit_fields(report.logits);
  return out;
}

nb::list tried_fields(const std::vector<TriedCause>& causes) {
  nb::list tried;
  for (const TriedCause& each : causes) {
    nb::dict fields;
    fields["id"] = each.id;
    fields["what"] = each.what;
    fields["left"] = each.left;
    tried.append(fields);
  }
  return tried;
}

nb::dict cause_fields(const Cause& cause) {
  nb::dict parameters;
  for (const auto& [key, value] : cause.parameters) parameters[key.c_str()] = value;
  nb::dict out;
  out["id"] = cause.id;
  out["sites"] = cause.sites;
  out["layers"] = cause.layers;
  out["status"] = text(name(cause.status));
  out["local"] = cause.local;
  out["left"] = cause.left;
  out["envelope"] = cause.envelope;
  out["parameters"] = parameters;
  out["usual_place"] = cause.usual_place;
  out["fix"] = cause.fix;
  out["known_fault"] = cause.known_fault;
  out["shape"] = cause.shape;
  out["tried"] = tried_fields(cause.tried);
  out["same_values"] = tried_fields(cause.same_values);
  out["total_if_fixed"] = cause.total_if_fixed;
  return out;
}

nb::list causes_fields(const std::vector<Cause>& causes) {
  nb::list list;
  for (const Cause& cause : causes) list.append(cause_fields(cause));
  return list;
}

/// `options` has the fields of DiffOptions that Python sets.
DiffOptions options_from(const nb::dict& options) {
  DiffOptions result;
  result.tokens = nb::cast<std::vector<int64_t>>(options["tokens"]);
  result.decoder_tokens = nb::cast<std::vector<int64_t>>(options["decoder_tokens"]);
  result.names = nb::cast<std::vector<std::pair<std::string, std::string>>>(options["names"]);
  if (const auto dtype = nb::cast<std::optional<std::string>>(options["dtype"])) {
    result.dtype = parse_arithmetic(*dtype);
  }
  result.layers = nb::cast<std::optional<std::pair<int, int>>>(options["layers"]);
  result.threads = nb::cast<int>(options["threads"]);
  return result;
}

/// `work(options)`, which signals can end.
template <typename Work>
auto stoppable(DiffOptions options, Work&& work) {
  return interruptible([&](const CancelFlag& cancel) {
    options.cancel = &cancel;
    options.progress = [&](int64_t, int64_t) {
      if (cancel) throw Cancelled{};
    };
    return work(options);
  });
}

nb::dict diff_model(const Model& model, const OwnedDump& dump, const nb::dict& options) {
  return diff_fields(stoppable(
      options_from(options), [&](const DiffOptions& how) { return diff(model, dump.dump, how); }));
}

nb::dict diff_dumps(const OwnedDump& yours, const OwnedDump& reference, const nb::dict& options) {
  return diff_fields(stoppable(options_from(options), [&](const DiffOptions& how) {
    return diff(yours.dump, reference.dump, how);
  }));
}

nb::dict doctor_model(const Model& model, const OwnedDump& dump, const nb::dict& options) {
  const DoctorReport report = stoppable(
      options_from(options), [&](const DiffOptions& how) { return doctor(model, dump.dump, how); });
  nb::dict out = diff_fields(report.diff);
  out["causes"] = causes_fields(report.causes);
  out["predicted_site"] = report.predicted_site;
  out["total_now"] = report.total_now;
  out["total_predicted"] = report.total_predicted;
  return out;
}

}  // namespace

void bind_diagnose(nb::module_& module) {
  module.def("diff", &diff_model, nb::arg("model"), nb::arg("dump"), nb::arg("options"));
  module.def("diff_dumps", &diff_dumps, nb::arg("yours"), nb::arg("reference"), nb::arg("options"));
  module.def("doctor", &doctor_model, nb::arg("model"), nb::arg("dump"), nb::arg("options"));
  module.def(
      "parse_name_map", [](const std::string& lines) { return parse_name_map(lines); },
      nb::arg("text"));
}

}  // namespace mainstem::python
