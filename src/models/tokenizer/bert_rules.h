#pragma once

#include <string>

#include "models/tokenizer/unicode.h"

// What BERT's rules take for punctuation, marks and control characters in tokenizers 0.23.3: its
// tables are of Unicode 8, and ids of a model that it was trained with follow them.

namespace mainstem::tokenizer {

/// Nonspacing marks, which strip_accents takes away.
const CodePointSet& bert_marks();
/// What clean_text takes away: Cc but \t, \n and \r, Cf, Co and U+FFFD.
const CodePointSet& bert_control();
/// Every character of Unicode's punctuation and of ASCII's (with $, +, <, =, >, ^, `, |, ~) alone,
/// as a pattern.
const std::string& bert_punctuation_pattern();

/// The blocks of ideographs that get spaces around them.
bool is_bert_ideograph(uint32_t code_point);

}  // namespace mainstem::tokenizer
