#include "bindings.h"
#include "mainstem/sites.h"

#include <nanobind/stl/string.h>

NB_MODULE(_core, module) {
  using namespace mainstem::python;
  module.doc() = "What the package mainstem has of the C++ library. Use the package instead.";
  module.attr("version") = MAINSTEM_VERSION;
  bind_errors();
  bind_spec(module);
  bind_tokenizer(module);
  bind_dump(module);
  bind_model(module);
  bind_block(module);
  bind_diagnose(module);
  module.def(
      "glob_match",
      [](const std::string& pattern, const std::string& text) {
        return mainstem::glob_match(pattern, text);
      },
      nb::arg("pattern"), nb::arg("text"), "Shell-style match of a whole name.");
}
