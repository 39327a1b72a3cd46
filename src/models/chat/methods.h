#pragma once

#include <string_view>

#include "models/chat/arguments.h"
#include "models/chat/value.h"

namespace mainstem::chat {

using MethodFunction = Value (*)(Runtime&, const Value& self, const Arguments&);

/// Methods of strings that are supported; null for others.
MethodFunction find_string_method(std::string_view name);
/// The same of dicts, and of lists and tuples.
MethodFunction find_dict_method(std::string_view name);
MethodFunction find_list_method(std::string_view name);

/// What a filter and a method share.
Value replace_text(Runtime& runtime, std::string_view text, std::string_view old,
                   std::string_view with, int64_t count, bool markup = false);
Value join_texts(Runtime& runtime, const Items& items, std::string_view separator,
                 bool markup = false);

}  // namespace mainstem::chat
