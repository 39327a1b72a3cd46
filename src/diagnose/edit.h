#pragma once

#include <optional>

#include "mainstem/program.h"

// Small edits of a program, from which mistakes are made. They keep every id and reference valid.
// Values keep their ids when steps are inserted; steps do not, so edits name a step by a value that
// it makes.

namespace mainstem {

/// Rebuilds the program of an edited spec; a block on its own stays one.
Program rebuild(const Program& like, const ModelSpec& edited);

/// The step that makes a value.
Step& maker(Program& program, ValueId value);
const Step& maker(const Program& program, ValueId value);

/// The step that makes the value becomes a function of its inputs; its weights are no longer read.
void replace_by_custom(Program& program, ValueId value, CustomParams params);
Step custom_step(CustomParams params);
/// Hands its input on.
CustomParams pass_through(std::string note);

/// Inserts a step right behind the one that makes `behind`. It makes a new value of the same shape,
/// which nobody reads yet.
ValueId insert_step(Program& program, ValueId behind, Step step);
/// Inserts a step that reads what `value` was so far (as its first input, before those it has) and
/// makes `value`: names and readers get the new numbers.
void insert_before(Program& program, ValueId value, Step step);
/// Inserts a step that reads `value` (as its first input) and whose result all readers of `value`
/// get. Names stay with `value`, but for those from `moved` on (in the order of sites).
ValueId insert_behind(Program& program, ValueId value, Step step, std::optional<Site> moved = {});
/// The step that makes `reader` reads `to` where it read `from`.
void reroute(Program& program, ValueId reader, ValueId from, ValueId to);

/// Takes weights out of the list that no step reads any more.
void drop_unread_weights(Program& program);

}  // namespace mainstem
