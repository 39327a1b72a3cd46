#include "mainstem/tokenizer.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace mainstem::python {

void bind_tokenizer(nb::module_& module) {
  nb::class_<Tokenizer>(module, "Tokenizer",
                        "Text to token ids and back, as a model's own files say.")
      .def_static(
          "load", [](const std::string& path) { return Tokenizer::load(path); }, nb::arg("path"),
          "From a folder with tokenizer files, one of these files, or a .gguf file.")
      .def(
          "encode",
          [](const Tokenizer& self, const std::string& text, bool add_special, bool parse_special) {
            return self.encode(text, {.add_special = add_special, .parse_special = parse_special});
          },
          nb::arg("text"), nb::kw_only(), nb::arg("add_special") = true,
          nb::arg("parse_special") = true,
          "Token ids of a text. add_special: with the tokens that the model's files want around "
          "every text; parse_special: text such as '<|im_end|>' becomes its control token.")
      .def(
          "decode",
          [](const Tokenizer& self, const std::vector<int64_t>& ids, bool skip_special) {
            return self.decode(ids, {.skip_special = skip_special});
          },
          nb::arg("ids"), nb::kw_only(), nb::arg("skip_special") = true, "The text of token ids.")
      .def("piece", &Tokenizer::piece, nb::arg("id"),
           "One token for tables: its text on one line, control characters escaped.")
      .def("is_special", &Tokenizer::is_special, nb::arg("id"))
      .def(
          "find", [](const Tokenizer& self, const std::string& text) { return self.find(text); },
          nb::arg("text"), "The id of the token with exactly this text, or None.")
      .def_prop_ro("vocab_size", &Tokenizer::vocab_size, "Largest id plus one.")
      .def_prop_ro("bos_id", &Tokenizer::bos_id)
      .def_prop_ro("eos_id", &Tokenizer::eos_id)
      .def_prop_ro("end_ids", &Tokenizer::end_ids, "Every id that ends a generated answer.")
      .def_prop_ro("rules", &Tokenizer::rules, "Which of the files' rules are used.");
}

}  // namespace mainstem::python
