#include "bindings.h"
#include "mainstem/error.h"
#include "mainstem/session.h"

namespace mainstem::python {
namespace {

const char* class_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "UsageError";
    case ErrorCode::kBadInput:
      return "BadInputError";
    case ErrorCode::kInternal:
      return "InternalError";
  }
  return "Error";
}

void translate(const std::exception_ptr& pending, void*) {
  try {
    std::rethrow_exception(pending);
  } catch (const Error& error) {
    // The classes are Python's own, so that they have docstrings and bases of Python's.
    const nb::object type = nb::module_::import_("mainstem.errors").attr(class_of(error.code()));
    PyErr_SetString(type.ptr(), error.what());
  } catch (const Cancelled&) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
  }
}

}  // namespace

void bind_errors() { nb::register_exception_translator(translate); }

}  // namespace mainstem::python
