// What a name means: looked up in the tables of NameTable, by the habits of each world.

#include <algorithm>
#include <array>

#include "diagnose/name_table.h"
#include "diagnose/name_text.h"

namespace mainstem {
namespace {

Meaning of_kind(NameKind kind) { return {.kind = kind, .parts = {}}; }

enum class Side : uint8_t { kOut, kSecond, kIn };
struct Ending {
  std::string_view text;
  Side side;
};
/// What hooks and debuggers write behind a module's path; longer ones first.
constexpr Ending kEndings[] = {{".inputs.kwargs.hidden_states", Side::kIn},
                               {".inputs.kwargs.input_ids", Side::kIn},
                               {".inputs.kwargs.input", Side::kIn},
                               {".inputs.kwargs.x", Side::kIn},
                               {".inputs.args.0", Side::kIn},
                               {".inputs.0", Side::kIn},
                               {".input.0", Side::kIn},
                               {".in.0", Side::kIn},
                               {".inputs", Side::kIn},
                               {".input", Side::kIn},
                               {".in", Side::kIn},
                               {".outputs.1", Side::kSecond},
                               {".output.1", Side::kSecond},
                               {".out.1", Side::kSecond},
                               {".outputs.0", Side::kOut},
                               {".output.0", Side::kOut},
                               {".out.0", Side::kOut},
                               {".outputs", Side::kOut},
                               {".output", Side::kOut},
                               {".out", Side::kOut}};

/// Towers of other kinds have blocks of their own.
bool is_foreign_tower(std::string_view prefix) {
  constexpr std::string_view kWords[] = {"vision", "visual", "image", "audio"};
  return std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view word) {
    return prefix.find(word) != std::string_view::npos;
  });
}

bool passes_through(std::string_view op) {
  constexpr std::string_view kOps[] = {"RESHAPE",  "VIEW",     "PERMUTE",  "TRANSPOSE",     "CPY",
                                       "CONT",     "DUP",      "SCALE",    "TANH",          "NORM",
                                       "RMS_NORM", "SET_ROWS", "GET_ROWS", "FLASH_ATTN_EXT"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

bool is_whole(DType dtype) { return !info(dtype).is_float; }

}  // namespace

Meaning NameTable::find(const DumpTensor& tensor) const {
  if (const auto given = given_.find(tensor.name); given != given_.end()) return given->second;
  if (const auto own = names_.find(tensor.name); own != names_.end()) return own->second;
  if (Meaning found = find_input(tensor); found.kind != NameKind::kUnknown) return found;
  if (Meaning found = find_node(tensor); found.kind != NameKind::kUnknown) return found;
  if (Meaning found = find_output(tensor.name); found.kind != NameKind::kUnknown) return found;
  return find_in_modules(tensor.name);
}

const NameTable::Module* NameTable::find_module(std::string_view path) const {
  std::string_view rest = path;
  while (true) {
    const std::string_view prefix = path.substr(0, path.size() - rest.size());
    if (has_number(prefix) || is_foreign_tower(prefix)) return nullptr;
    if (const auto found = modules_.find(rest); found != modules_.end()) return &found->second;
    if (const auto core = cores_.find(rest); core != cores_.end()) {
      return &modules_.find(core->second)->second;
    }
    const size_t dot = rest.find('.');
    if (dot == std::string_view::npos) return nullptr;
    rest.remove_prefix(dot + 1);
  }
}

Meaning NameTable::find_in_modules(std::string_view name) const {
  if (const Module* module = find_module(name)) {
    if (module->out.kind != NameKind::kUnknown) return module->out;
  }
  for (const Ending& ending : kEndings) {
    if (!name.ends_with(ending.text)) continue;
    const Module* module = find_module(name.substr(0, name.size() - ending.text.size()));
    if (module == nullptr) continue;
    switch (ending.side) {
      case Side::kOut:
        return module->out;
      case Side::kSecond:
        return module->second;
      case Side::kIn:
        return module->in;
    }
  }
  return {};
}

Meaning NameTable::find_input(const DumpTensor& tensor) const {
  const std::string_view name = tensor.name;
  if (tensor.shape.size() > 4 || !is_whole(tensor.dtype)) {
    // A mask may be written in numbers with a point.
    const std::string_view last = last_component(name);
    if (tensor.shape.size() > 2 || (last != "attention_mask" && last != "key_mask")) return {};
  }
  const bool two = program_.spec.encoder.has_value();
  const std::string_view last = last_component(name);
  const NameKind first = two ? NameKind::kEncoderTokens : NameKind::kTokens;
  const NameKind first_mask = two ? NameKind::kEncoderKeyMask : NameKind::kKeyMask;
  const std::string_view stack = last_component(parent(name));
  const bool in_number = has_number(parent(name));
  struct Row {
    std::string_view name;
    NameKind kind;
  };
  const Row rows[] = {{"tokens", first},
                      {"input_ids", first},
                      {"inp_tokens", first},
                      {"encoder_input_ids", NameKind::kEncoderTokens},
                      {"decoder_input_ids", NameKind::kTokens},
                      {"decoder_tokens", NameKind::kTokens},
                      {"encoder_tokens", NameKind::kEncoderTokens},
                      {"attention_mask", first_mask},
                      {"key_mask", first_mask},
                      {"decoder_attention_mask", NameKind::kKeyMask},
                      {"positions", NameKind::kPositions},
                      {"position_ids", NameKind::kPositions},
                      {"decoder_position_ids", NameKind::kPositions},
                      {"inp_pos", NameKind::kPositions},
                      {"token_types", NameKind::kTokenTypes},
                      {"token_type_ids", NameKind::kTokenTypes}};
  for (const Row& row : rows) {
    if (row.name != last || in_number || tensor.shape.size() > 2) continue;
    if (two && stack == "decoder") {
      if (row.kind == NameKind::kEncoderTokens) return of_kind(NameKind::kTokens);
      if (row.kind == NameKind::kEncoderKeyMask) return of_kind(NameKind::kKeyMask);
    }
    if (two && stack == "encoder" && row.kind == NameKind::kPositions) {
      return of_kind(NameKind::kPassing);
    }
    return of_kind(row.kind);
  }
  // The module debugger: what the whole model was called with.
  constexpr std::string_view kFirst = ".inputs.args.0";
  if (name.ends_with(kFirst) && tensor.shape.size() <= 2) {
    const std::string_view module = name.substr(0, name.size() - kFirst.size());
    if (module.find('.') == std::string_view::npos) return of_kind(first);
  }
  return {};
}

Meaning NameTable::by_operands(const DumpTensor& tensor) const {
  const std::string_view op = tensor.op;
  if (op != "MUL_MAT" && op != "GET_ROWS" && op != "MUL" && op != "ADD") return {};
  // Token rows of a batch of ids and embeddings, which llama.cpp prepares beside those of ids
  // alone.
  constexpr std::string_view kMixed = "inp_mixed_";
  for (const DumpOperand& operand : tensor.operands) {
    if (operand.name.starts_with(kMixed)) return of_kind(NameKind::kPassing);
  }
  for (const DumpOperand& operand : tensor.operands) {
    if (op == "MUL_MAT") {
      const auto head = node_weights_.find("MUL_MAT " + operand.name);
      if (head != node_weights_.end()) return head->second;
    }
    const auto found = node_weights_.find(operand.name);
    if (found != node_weights_.end()) return found->second;
  }
  return {};
}

Meaning NameTable::find_node(const DumpTensor& tensor) const {
  std::string_view base = tensor.name;
  std::string_view op = tensor.op;
  const bool is_graph = !op.empty();
  if (const size_t mark = base.find('#'); mark != std::string_view::npos) {
    op = base.substr(mark + 1);
    base = base.substr(0, mark);
  }
  Meaning meaning = is_graph ? by_operands(tensor) : Meaning{};
  if (meaning.kind == NameKind::kUnknown) {
    if (base.find(" (") != std::string_view::npos) return of_kind(NameKind::kPassing);
    const auto found = nodes_.find(base);
    if (found == nodes_.end()) {
      return is_graph && passes_through(op) ? of_kind(NameKind::kPassing) : Meaning{};
    }
    std::vector<Target> targets, of_any_op;
    for (const Node& node : found->second) {
      if (op.empty() || node.op == op) targets.push_back(node.target);
      if (node.op.empty()) of_any_op.push_back(node.target);
    }
    if (targets.empty() && op != "NORM" && op != "RMS_NORM") targets = std::move(of_any_op);
    if (targets.empty()) return of_kind(NameKind::kPassing);
    meaning = meaning_of(std::move(targets));
  }
  for (NamePart& part : meaning.parts) {
    std::vector<Target> targets;
    for (const Target& target : part.targets) {
      const Target paired{.value = target.value, .convention = Convention::kPairedRows};
      const bool both = paired_.contains(target.value) && target.convention == Convention::kNone;
      if (both && is_graph) targets.push_back(paired);
      targets.push_back(target);
      if (both && !is_graph) targets.push_back(paired);
    }
    part.targets = std::move(targets);
  }
  return meaning;
}

}  // namespace mainstem
