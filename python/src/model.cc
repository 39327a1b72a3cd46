#include "mainstem/model.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "generate.h"
#include "long_call.h"
#include "mainstem/check.h"
#include "mainstem/program.h"
#include "spec.h"
#include "steps.h"

namespace mainstem::python {
namespace {

using Ids = std::vector<std::vector<int64_t>>;

Model load(const std::string& path, const std::vector<std::string>& allow_unknown_keys) {
  return interruptible([&](const CancelFlag&) {
    return Model::load(path, {.allow_unknown_keys = allow_unknown_keys});
  });
}

nb::list trace(const Model& model, const Ids& sequences, const Ids& encoder,
               const std::vector<std::string>& sites, const std::string& compute, int threads,
               const std::string& mistake) {
  const PassOptions options{.compute = compute_named(compute), .threads = threads};
  std::shared_ptr<const BoundProgram> bound = model.bound();
  if (!mistake.empty()) {
    BrokenModel broken = make_mistake(model.program(), model.weights(), parse_mistake(mistake));
    bound = std::make_shared<const BoundProgram>(std::move(broken.program), broken.weights);
  }
  return traced(bound, padded_inputs(sequences, encoder), sites, options);
}

nb::tuple generated(const Model& model, const std::vector<int64_t>& ids,
                    const std::vector<int64_t>& encoder, int64_t count, double temperature,
                    int64_t top_k, double top_p, double min_p, double repeat_penalty, uint64_t seed,
                    bool ignore_eos, const std::string& compute, int threads) {
  const GenerateOptions options{.count = count,
                                .sampling = {.temperature = temperature,
                                             .top_k = top_k,
                                             .top_p = top_p,
                                             .min_p = min_p,
                                             .repeat_penalty = repeat_penalty,
                                             .seed = seed},
                                .ignore_eos = ignore_eos,
                                .compute = compute_named(compute),
                                .threads = threads};
  const Generated made = interruptible([&](const CancelFlag& cancel) {
    return generate(model, {.tokens = ids, .encoder_tokens = encoder}, options, cancel);
  });
  return nb::make_tuple(made.ids, made.stop);
}

nb::list checked(const Model& model, int threads, const std::string& mistake) {
  const auto results = interruptible([&](const CancelFlag& cancel) {
    const BrokenModel checked_model =
        mistake.empty() ? BrokenModel{model.program(), model.weights()}
                        : make_mistake(model.program(), model.weights(), parse_mistake(mistake));
    return check(checked_model.program, checked_model.weights,
                 {.threads = threads, .progress = [&](int64_t, int64_t) {
                    if (cancel) throw Cancelled{};
                  }});
  });
  nb::list list;
  for (const CheckResult& each : results) {
    list.append(nb::make_tuple(each.id, std::string(name(each.status)), each.detail));
  }
  return list;
}

std::vector<std::string> file_names(const Model& model) {
  std::vector<std::string> names;
  for (const auto& path : model.files()) names.push_back(path.string());
  return names;
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<Model>(module, "Model")
      .def_static("load", &load, nb::arg("path"), nb::arg("allow_unknown_keys"))
      .def_prop_ro("family", &Model::family)
      .def_prop_ro("path", [](const Model& self) { return self.path().string(); })
      .def_prop_ro("files", &file_names)
      .def_prop_ro("notes", &Model::notes)
      .def_prop_ro("ignored_weights", &Model::ignored_weights)
      .def_prop_ro("end_ids", &Model::end_ids)
      .def_prop_ro("decoder_start_id", &Model::decoder_start_id)
      .def_prop_ro("parameters",
                   [](const Model& self) { return count(self.program(), 0).parameters; })
      .def_prop_ro("weight_bytes", [](const Model& self) { return self.bound()->weight_bytes(); })
      .def_prop_ro("tokenizer",
                   [](const Model& self) -> std::optional<Tokenizer> {
                     if (!self.has_tokenizer()) return std::nullopt;
                     return self.tokenizer();
                   })
      .def("spec", [](const Model& self) { return to_dict(self.spec()); })
      .def("sites", [](const Model& self) { return site_table(self.program()); })
      .def("output_site", [](const Model& self) { return output_site(self.program()); })
      .def("trace", &trace, nb::arg("sequences"), nb::arg("encoder"), nb::arg("sites"),
           nb::arg("compute"), nb::arg("threads"), nb::arg("mistake"))
      .def("generate", &generated, nb::arg("ids"), nb::arg("encoder"), nb::arg("count"),
           nb::arg("temperature"), nb::arg("top_k"), nb::arg("top_p"), nb::arg("min_p"),
           nb::arg("repeat_penalty"), nb::arg("seed"), nb::arg("ignore_eos"), nb::arg("compute"),
           nb::arg("threads"))
      .def("check", &checked, nb::arg("threads"), nb::arg("mistake"));
  module.def("known_families", &known_families);
  module.def("known_mistakes", [] {
    nb::list list;
    for (const MistakeInfo& info : known_mistakes())
      list.append(nb::make_tuple(info.id, info.what));
    return list;
  });
}

}  // namespace mainstem::python
