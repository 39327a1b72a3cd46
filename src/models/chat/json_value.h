#pragma once

#include <string_view>

#include "models/chat/runtime.h"
#include "models/chat/value.h"

namespace mainstem::chat {

/// A JSON document as a value, members in their order; of equal keys the last counts, as in Python.
/// `what` is for messages. Errors are usage errors: the caller gives this text.
Value value_of_json(Runtime& runtime, std::string_view text, const char* what);

}  // namespace mainstem::chat
