#pragma once

#include "bindings.h"
#include "mainstem/spec.h"

namespace mainstem::python {

/// Specs as nested dicts: the fields of mainstem/spec.h under their own names, enums by name. The
/// classes of python/mainstem/spec.py have the same fields.
nb::dict to_dict(const ModelSpec& spec);
nb::dict to_dict(const BlockSpec& spec);
/// A usage Error that names the field for an unknown word of an enum or a value of another type.
BlockSpec block_spec_from(const nb::dict& fields);
Activation activation_from(nb::handle word);
NormKind norm_kind_from(nb::handle word);

}  // namespace mainstem::python
