#include "models/tokenizer/pretokenizer.h"

#include <algorithm>
#include <utility>

namespace mainstem::tokenizer {
namespace {

using Piece = SplitText::Piece;

struct Span {
  size_t begin, end;
  bool match;
};

/// `spans` covers one piece without gaps; what is left of it goes to `out`.
void apply_behavior(SplitBehavior behavior, const std::vector<Span>& spans,
                    std::vector<Piece>& out) {
  const size_t first = out.size();
  switch (behavior) {
    case SplitBehavior::kIsolated:
      for (const Span& span : spans) out.push_back({span.begin, span.end});
      return;
    case SplitBehavior::kRemoved:
      for (const Span& span : spans) {
        if (!span.match) out.push_back({span.begin, span.end});
      }
      return;
    case SplitBehavior::kContiguous:
    case SplitBehavior::kMergedWithPrevious: {
      bool previous = false;
      for (const Span& span : spans) {
        const bool join = behavior == SplitBehavior::kContiguous ? span.match == previous
                                                                 : span.match && !previous;
        if (join && out.size() > first) {
          out.back().end = span.end;
        } else {
          out.push_back({span.begin, span.end});
        }
        previous = span.match;
      }
      return;
    }
    case SplitBehavior::kMergedWithNext: {
      bool next = false;
      for (size_t i = spans.size(); i-- > 0;) {
        if (spans[i].match && !next && out.size() > first) {
          out.back().begin = spans[i].begin;
        } else {
          out.push_back({spans[i].begin, spans[i].end});
        }
        next = spans[i].match;
      }
      std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
      return;
    }
  }
}

}  // namespace

/// The text with its kinds. Pieces count in units: code points, after kToBytes bytes.
struct PreTokenizer::State {
  SplitText& result;
  std::string kinds;  // one per unit
  bool units_are_bytes;
};

PreTokenizer::PreTokenizer(std::vector<SplitStage> stages) {
  SetPool pool;
  std::vector<PatternParts> parts;
  parts.reserve(stages.size());
  pool.add(CodePointSet::single(' '));
  for (const SplitStage& stage : stages) {
    parts.push_back(stage.kind == SplitStage::Kind::kSplit ? read_pattern(stage.pattern, pool)
                                                           : PatternParts{});
    if (!stage.mark.empty()) pool.add(CodePointSet::single(decode_utf8(stage.mark).code_point));
  }
  kinds_ = std::make_unique<KindTable>(pool);
  for (size_t i = 0; i < stages.size(); ++i) {
    Compiled& compiled = stages_.emplace_back();
    if (stages[i].kind == SplitStage::Kind::kSplit) {
      compiled.pattern = std::make_unique<Pattern>(parts[i], *kinds_, stages[i].pattern);
    }
    compiled.stage = std::move(stages[i]);
  }
}

void PreTokenizer::split(std::string_view text, bool at_start, Matcher& matcher,
                         SplitText& result) const {
  result.text.assign(text);
  result.pieces.clear();
  if (text.empty()) return;
  if (stages_.empty()) {
    result.pieces.push_back({0, text.size()});
    return;
  }

  State state{result, {}, true};
  state.kinds.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const DecodedCodePoint next = decode_utf8(text.substr(at));
    state.kinds.push_back(static_cast<char>((*kinds_)[next.code_point]));
    at += next.length;
  }
  state.units_are_bytes = state.kinds.size() == text.size();
  result.pieces.push_back({0, state.kinds.size()});

  for (const Compiled& compiled : stages_) {
    switch (compiled.stage.kind) {
      case SplitStage::Kind::kPrefixSpace:
        insert_spaces(state);
        break;
      case SplitStage::Kind::kToBytes:
        use_bytes(state);
        break;
      case SplitStage::Kind::kMarkSpaces:
        mark_spaces(compiled.stage, at_start, state);
        break;
      case SplitStage::Kind::kSplit:
        split_by(compiled, matcher, state);
        break;
    }
  }
  if (!state.units_are_bytes) use_bytes(state);
}

void PreTokenizer::split_by(const Compiled& compiled, Matcher& matcher, State& state) const {
  const bool invert = compiled.stage.invert;
  std::vector<Span> spans;
  std::vector<Piece> next_pieces;
  for (const Piece& piece : state.result.pieces) {
    const auto subject = std::string_view(state.kinds).substr(piece.begin, piece.end - piece.begin);
    spans.clear();
    size_t done = 0;
    size_t from = 0;
    size_t begin = 0;
    size_t end = 0;
    while (from < subject.size() && matcher.find(*compiled.pattern, subject, from, begin, end)) {
      from = std::max(end, from + 1);
      if (end == begin) {
        from = std::max(from, begin + 1);
        continue;
      }
      if (begin > done) spans.push_back({piece.begin + done, piece.begin + begin, invert});
      spans.push_back({piece.begin + begin, piece.begin + end, !invert});
      done = end;
    }
    if (done < subject.size()) spans.push_back({piece.begin + done, piece.end, invert});
    apply_behavior(compiled.stage.behavior, spans, next_pieces);
  }
  state.result.pieces.swap(next_pieces);
}

void PreTokenizer::insert_spaces(State& state) const {
  // Pieces are in order; the new text holds them one after another, what was removed is gone.
  std::string text;
  std::string kinds;
  size_t at_byte = 0;
  size_t at_unit = 0;
  const std::string_view old = state.result.text;
  const auto advance_to = [&](size_t unit) {
    while (at_unit < unit) {
      at_byte += state.units_are_bytes ? 1 : decode_utf8(old.substr(at_byte)).length;
      ++at_unit;
    }
  };
  for (Piece& piece : state.result.pieces) {
    advance_to(piece.begin);
    const size_t first_byte = at_byte;
    advance_to(piece.end);
    const size_t begin = kinds.size();
    if (old[first_byte] != ' ') {
      text += ' ';
      kinds += static_cast<char>((*kinds_)[' ']);
    }
    text += old.substr(first_byte, at_byte - first_byte);
    kinds += std::string_view(state.kinds).substr(piece.begin, piece.end - piece.begin);
    piece = {begin, kinds.size()};
  }
  state.result.text = std::move(text);
  state.kinds = std::move(kinds);
}

void PreTokenizer::mark_spaces(const SplitStage& stage, bool at_start, State& state) const {
  const std::string_view old = state.result.text;
  const auto kind_of_mark = static_cast<char>((*kinds_)[decode_utf8(stage.mark).code_point]);
  std::string text;
  std::string kinds;
  const auto add_mark = [&] {
    text += stage.mark;
    kinds += kind_of_mark;
  };
  size_t at_byte = 0;
  size_t at_unit = 0;
  const auto next_length = [&] { return decode_utf8(old.substr(at_byte)).length; };
  for (Piece& piece : state.result.pieces) {
    for (; at_unit < piece.begin; ++at_unit) at_byte += next_length();
    const size_t begin = kinds.size();
    const bool prepend =
        stage.prepend == SplitStage::Prepend::kAlways ||
        (stage.prepend == SplitStage::Prepend::kFirst && at_start && piece.begin == 0);
    const std::string_view rest = old.substr(at_byte);
    if (prepend && !rest.starts_with(' ') && !rest.starts_with(stage.mark)) add_mark();
    for (; at_unit < piece.end; ++at_unit) {
      const size_t length = next_length();
      if (old[at_byte] == ' ') {
        add_mark();
      } else {
        text += old.substr(at_byte, length);
        kinds += state.kinds[at_unit];
      }
      at_byte += length;
    }
    piece = {begin, kinds.size()};
  }
  state.units_are_bytes = kinds.size() == text.size();
  state.result.text = std::move(text);
  state.kinds = std::move(kinds);
}

void PreTokenizer::use_bytes(State& state) const {
  const std::string_view text = state.result.text;
  if (!state.units_are_bytes) {
    size_t at_byte = 0;
    size_t at_unit = 0;
    const auto bytes_of = [&](size_t unit) {
      for (; at_unit < unit; ++at_unit) at_byte += decode_utf8(text.substr(at_byte)).length;
      return at_byte;
    };
    for (Piece& piece : state.result.pieces) {
      const size_t begin = bytes_of(piece.begin);
      piece = {begin, bytes_of(piece.end)};
    }
    state.units_are_bytes = true;
  }
  static const std::array<uint32_t, 256> kCharacters = byte_characters();
  state.kinds.clear();
  for (const char byte : text) {
    state.kinds += static_cast<char>((*kinds_)[kCharacters[static_cast<uint8_t>(byte)]]);
  }
}

}  // namespace mainstem::tokenizer
