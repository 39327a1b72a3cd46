#include "models/tokenizer/decoder.h"

#include <algorithm>
#include <utility>

#include "mainstem/error.h"

namespace mainstem::tokenizer {
namespace {

using Step = DecoderSpec::Step;

/// Every `from` becomes `to`. Error if the text becomes longer than `most`.
void replace_all(std::string& text, std::string_view from, std::string_view to, size_t most) {
  if (from.empty() || text.find(from) == std::string::npos) return;
  std::string result;
  const auto append = [&](std::string_view part) {
    if (part.size() > most - std::min(most, result.size())) {
      throw bad_input("decoder", "rules that make a token at most 64 times as long", "longer ones");
    }
    result += part;
  };
  const std::string_view old = text;
  size_t done = 0;
  for (size_t at = 0; (at = old.find(from, done)) != old.npos; done = at + from.size()) {
    append(old.substr(done, at - done));
    append(to);
  }
  append(old.substr(done));
  text = std::move(result);
}

void strip_token(const Step& step, std::string& text) {
  if (step.from.empty()) return;
  size_t begin = 0;
  for (size_t i = 0; i < step.left && std::string_view(text).substr(begin).starts_with(step.from);
       ++i) {
    begin += step.from.size();
  }
  text.erase(0, begin);
  for (size_t i = 0; i < step.right && text.ends_with(step.from); ++i) {
    text.resize(text.size() - step.from.size());
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// The rules of tokenizers' WordPiece decoder, which looks at one token at a time.
std::string clean_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to, text.size());
  return text;
}

void append_plain(const DecoderSpec& spec, std::string_view text, std::string_view translated,
                  JoinState& state, std::string& out) {
  if (state.first && !spec.lead.empty() && text.starts_with(spec.lead) && !translated.empty()) {
    translated.remove_prefix(1);
  }
  while (state.stripping && state.stripped < spec.strip_count && !translated.empty()) {
    if (translated[0] != spec.strip) {
      state.stripping = false;
      break;
    }
    translated.remove_prefix(1);
    ++state.stripped;
  }
  out += translated;
}

void append_word_piece(const DecoderSpec& spec, std::string_view text, const JoinState& state,
                       std::string& out) {
  std::string piece;
  if (!state.first) {
    if (!spec.prefix.empty() && text.starts_with(spec.prefix)) {
      text.remove_prefix(spec.prefix.size());
    } else {
      piece = " ";
    }
  }
  piece += text;
  out += spec.cleanup ? clean_up(std::move(piece)) : piece;
}

}  // namespace

std::optional<uint8_t> byte_of_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const int high = hex_digit(text[3]);
  const int low = hex_digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

std::string byte_token(uint8_t byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

std::string translate_token(std::string_view text, const std::vector<Step>& steps) {
  std::string result(text);
  const size_t most = 64 * text.size() + 64;
  for (const Step& step : steps) {
    switch (step.kind) {
      case Step::Kind::kReplace:
        replace_all(result, step.from, step.to, most);
        break;
      case Step::Kind::kBytes:
        if (const auto byte = byte_of_token(result)) return {static_cast<char>(*byte)};
        break;
      case Step::Kind::kStrip:
        strip_token(step, result);
        break;
    }
  }
  return result;
}

void append_token(const DecoderSpec& spec, std::string_view text, std::string_view translated,
                  JoinState& state, std::string& out) {
  switch (spec.join) {
    case DecoderSpec::Join::kPlain:
      append_plain(spec, text, translated, state, out);
      break;
    case DecoderSpec::Join::kWordPiece:
      append_word_piece(spec, translated, state, out);
      break;
    case DecoderSpec::Join::kSpaces:
      if (!state.first) out += ' ';
      out += translated;
      break;
  }
  state.first = false;
}

}  // namespace mainstem::tokenizer
