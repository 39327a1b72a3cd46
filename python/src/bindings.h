#pragma once

#include <nanobind/nanobind.h>

// The extension _core: what the Python package has of the library. Plain types go in and out;
// names, defaults, tables and everything a user reads are in python/mainstem/*.py.

namespace mainstem::python {

namespace nb = nanobind;

void bind_errors();
void bind_spec(nb::module_& module);
void bind_tokenizer(nb::module_& module);
void bind_model(nb::module_& module);
void bind_block(nb::module_& module);
void bind_diagnose(nb::module_& module);
void bind_dump(nb::module_& module);

}  // namespace mainstem::python
