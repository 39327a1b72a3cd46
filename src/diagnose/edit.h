#pragma once

#include "mainstem/program.h"

// Small edits of a program, from which mistakes are made. They keep every id and reference valid.

namespace mainstem {

/// Rebuilds the program of an edited spec; a block on its own stays one.
Program rebuild(const Program& like, const ModelSpec& edited);

/// The step becomes a row-wise function of its inputs; its weights are no longer read.
void replace_by_custom(Program& program, StepId id, CustomParams params);

/// Inserts a row-wise function of `value` behind the step that makes it; the readers of `value`
/// read the new value instead. Names stay with the old value.
void insert_custom_after(Program& program, ValueId value, CustomParams params);

/// Takes weights out of the list that no step reads any more.
void drop_unread_weights(Program& program);

}  // namespace mainstem
