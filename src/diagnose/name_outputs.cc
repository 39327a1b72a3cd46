// Names of what transformers' models and ONNX's return.

#include "diagnose/name_table.h"
#include "diagnose/name_text.h"
#include "mainstem/error.h"

namespace mainstem {

Meaning NameTable::hidden_state(int64_t n, Stack stack) const {
  const int64_t blocks = blocks_of(program_, stack);
  if (n < blocks) {
    const SiteId before{Site::kResidPre, static_cast<int>(n), stack};
    return meaning_of({{.value = *program_.find_value(before), .site = before}});
  }
  // The last may be taken before or after what stands behind the blocks.
  std::vector<Target> targets;
  for (const Site site : {Site::kFinalNorm, Site::kHeadProj}) {
    if (site == Site::kHeadProj && program_.spec.head.projection_width == 0) continue;
    if (const auto id = value(site, -1, stack)) targets.push_back({.value = *id});
  }
  targets.push_back({.value = *value(Site::kResidPost, static_cast<int>(blocks) - 1, stack)});
  return meaning_of(std::move(targets));
}

/// What transformers' outputs hold for every block.
struct NameTable::OutputList {
  std::string_view word;
  Stack stack;
  Site site;
  int64_t length;
};

std::vector<NameTable::OutputList> NameTable::output_lists() const {
  const bool two = program_.spec.encoder.has_value();
  std::vector<OutputList> lists;
  const auto add = [&](std::string_view word, Stack stack, Site site) {
    // The stream is there once more, behind the last block.
    const int64_t more = site == Site::kResidPre ? 1 : 0;
    lists.push_back({word, stack, site, blocks_of(program_, stack) + more});
  };
  const Stack main = two ? Stack::kDecoder : Stack::kOnly;
  add("hidden_states", main, Site::kResidPre);
  add("decoder_hidden_states", main, Site::kResidPre);
  add("attentions", main, Site::kPattern);
  add("decoder_attentions", main, Site::kPattern);
  add("cross_attentions", main, Site::kCrossPattern);
  if (two) {
    add("encoder_hidden_states", Stack::kEncoder, Site::kResidPre);
    add("encoder_attentions", Stack::kEncoder, Site::kPattern);
  }
  return lists;
}

std::vector<std::string> NameTable::slices(const DumpTensor& tensor) const {
  if (tensor.printed || tensor.shape.empty()) return {};
  const auto numbered = [&](int64_t count) {
    std::vector<std::string> names;
    for (int64_t n = 0; n < count; ++n) names.push_back(tensor.name + '.' + std::to_string(n));
    return names;
  };
  for (const NameLine& line : lines_) {
    if (line.theirs != tensor.name) continue;
    if (line.stacked == 0) return {};
    if (tensor.shape[0] != line.stacked) {
      throw bad_input("shape of '" + tensor.name + "' (" + line.ours + ")",
                      "the " + std::to_string(line.stacked) + " blocks along the first axis",
                      to_string(tensor.shape));
    }
    return numbered(line.stacked);
  }
  if (has_number(tensor.name)) return {};
  for (const OutputList& list : output_lists()) {
    if (last_component(tensor.name) == list.word && tensor.shape[0] == list.length) {
      return numbered(list.length);
    }
  }
  return {};
}

Meaning NameTable::kept_for_next_pass(std::string_view name) const {
  struct Part {
    std::string_view word;
    Site site;
  };
  constexpr Part kParts[] = {{"0", Site::kKCache},           {"1", Site::kVCache},
                             {"2", Site::kCrossK},           {"3", Site::kCrossV},
                             {"key", Site::kKCache},         {"value", Site::kVCache},
                             {"decoder.key", Site::kKCache}, {"decoder.value", Site::kVCache},
                             {"encoder.key", Site::kCrossK}, {"encoder.value", Site::kCrossV}};
  constexpr std::string_view kLists[] = {"past_key_values", "present", "present_key_values"};
  const Stack stack = program_.spec.encoder ? Stack::kDecoder : Stack::kOnly;
  for (const Part& part : kParts) {
    if (name.size() <= part.word.size() || !name.ends_with(part.word)) continue;
    if (name[name.size() - part.word.size() - 1] != '.') continue;
    const std::string_view entry = name.substr(0, name.size() - part.word.size() - 1);
    for (const std::string_view list : kLists) {
      const auto n = number_behind(entry, list);
      if (!n || *n >= blocks_of(program_, stack)) continue;
      const auto own = names_.find(to_string(SiteId{part.site, static_cast<int>(*n), stack}));
      if (own == names_.end()) return {};
      Meaning meaning = own->second;
      // A window may have been cut off, and what a pass was given is there under such names, too.
      for (Target& target : meaning.parts[0].targets) target.loose = true;
      return meaning;
    }
  }
  return {};
}

Meaning NameTable::find_output(std::string_view name) const {
  const bool two = program_.spec.encoder.has_value();
  const Stack main = two ? Stack::kDecoder : Stack::kOnly;
  const std::string_view last = last_component(name);
  if (last == "logits" && !has_number(name)) {
    if (const auto id = value(Site::kLogits, -1, Stack::kOnly)) return meaning_of({{.value = *id}});
  }
  for (const OutputList& list : output_lists()) {
    const auto n = number_behind(name, list.word);
    if (!n || *n >= list.length) continue;
    if (list.site == Site::kResidPre) return hidden_state(*n, list.stack);
    if (const auto id = value(list.site, static_cast<int>(*n), list.stack)) {
      return meaning_of({{.value = *id, .loose = true}});
    }
  }
  if (has_number(name)) return kept_for_next_pass(name);
  if (last == "last_hidden_state") return hidden_state(blocks_of(program_, main), main);
  if (last == "encoder_last_hidden_state" && two) {
    return hidden_state(blocks_of(program_, Stack::kEncoder), Stack::kEncoder);
  }
  return {};
}

}  // namespace mainstem
