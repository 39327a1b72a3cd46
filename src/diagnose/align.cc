#include "diagnose/align.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "diagnose/align_pass.h"
#include "io/dump/dump_slices.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

/// The value is one of the wanted blocks', or what they read.
bool in_layers(const Program& program, ValueId value,
               const std::optional<std::pair<int, int>>& layers) {
  if (!layers) return true;
  const auto blocks = static_cast<int>(program.spec.stack.blocks.size());
  for (const NamedValue& named : program.sites) {
    if (named.value != value) continue;
    if (is_block_site(named.site.site)) {
      if (named.site.layer >= layers->first && named.site.layer < layers->second) return true;
      continue;
    }
    const bool before = named.site.site <= Site::kEmbed;
    if (before ? layers->first == 0 : layers->second >= blocks) return true;
  }
  return false;
}

/// The precision that the dump's numbers have, whatever type they are stored in.
ArithmeticType precision_of(const Dump& dump, const std::vector<Source>& sources,
                            const DiffOptions& options) {
  if (options.dtype && *options.dtype != ArithmeticType::kF64) return *options.dtype;
  if (dump.format() == DumpFormat::kLlamaText) return ArithmeticType::kQ8Act;
  ArithmeticType found = ArithmeticType::kF64;
  for (const Source& source : sources) {
    switch (source.tensor->dtype) {
      case DType::kBF16:
        return ArithmeticType::kBF16;
      case DType::kF16:
        found = std::max(found, ArithmeticType::kF16);
        break;
      case DType::kF32:
        found = std::max(found, ArithmeticType::kF32);
        break;
      default:
        break;
    }
  }
  if (found != ArithmeticType::kF32) return found;
  // Lower precision is often stored in float32.
  bool bf16 = true, f16 = true;
  for (const Source& source : sources) {
    if (source.tensor->printed || source.tensor->dtype != DType::kF32) continue;
    const Tensor tensor = dump.read(*source.tensor);
    for (const float x : tensor.as<float>()) {
      if (std::isnan(x)) continue;
      bf16 = bf16 && bf16_to_f32(f32_to_bf16(x)) == x;
      f16 = f16 && f16_to_f32(f32_to_f16(x)) == x;
      if (!bf16 && !f16) break;
    }
    // One step in lower precision is enough for all behind it.
    if (bf16) return ArithmeticType::kBF16;
    if (f16) return ArithmeticType::kF16;
    bf16 = f16 = true;
  }
  return found;
}

class Aligner {
 public:
  Aligner(const Model& model, const Dump& dump, const DiffOptions& options)
      : model_(model),
        program_(model.program()),
        options_(options),
        names_(model, options.names),
        dump_(with_slices(dump)) {}

  Aligned run() {
    find_names();
    if (sources_.empty()) {
      result_.incomparable = nothing_known();
      return std::move(result_);
    }
    RunInputs inputs = read_inputs(model_, dump_, options_, inputs_, sources_);
    result_.notes.insert(result_.notes.end(), inputs.notes.begin(), inputs.notes.end());
    if (!inputs.incomparable.empty()) {
      result_.incomparable = inputs.incomparable;
      return std::move(result_);
    }
    check_shapes(inputs);
    if (sources_.empty()) {
      result_.incomparable = nothing_known();
      return std::move(result_);
    }
    const ArithmeticType type = precision_of(dump_, sources_, options_);
    AlignPass pass(model_, dump_, options_, sources_, inputs, type);
    choose(pass);
    deliver(pass, inputs);
    find_other_tokens(inputs, type);
    result_.inputs = std::move(inputs.sequences);
    return std::move(result_);
  }

 private:
  /// The dump with each tensor that holds the values of several blocks taken apart.
  Dump with_slices(const Dump& dump) {
    std::vector<StackedTensor> stacked;
    for (size_t i = 0; i < dump.tensors().size(); ++i) {
      const DumpTensor& tensor = dump.tensors()[i];
      std::vector<std::string> slices =
          with_context(dump.path(), [&] { return names_.slices(tensor); });
      if (slices.empty()) continue;
      result_.notes.push_back(
          fmt::format("'{}' holds {} values along its first axis, read as {} to {}", tensor.name,
                      slices.size(), slices.front(), slices.back()));
      slices_.insert(slices.begin(), slices.end());
      stacked.push_back({.tensor = i, .names = std::move(slices)});
    }
    return stacked.empty() ? dump : take_apart(dump, stacked);
  }

  /// A name of the map that is written otherwise in the dump leaves its value unjudged.
  void note_missing_names() {
    std::vector<std::string> missing;
    for (const NameLine& line : names_.lines()) {
      const bool any = std::any_of(line.names.begin(), line.names.end(), [&](const auto& name) {
        return dump_.find(name.first) != nullptr;
      });
      if (!any) missing.push_back("'" + line.theirs + "'");
    }
    if (missing.empty()) return;
    constexpr size_t kMost = 4;
    const size_t shown = std::min(missing.size(), kMost);
    std::string text = fmt::format(
        "{}", fmt::join(missing.begin(), missing.begin() + static_cast<int64_t>(shown), ", "));
    if (shown < missing.size()) text += fmt::format(" and {} others", missing.size() - shown);
    result_.notes.push_back("the name map speaks of " + text + ", which the dump does not hold");
  }

  void find_names() {
    note_missing_names();
    std::vector<std::string> later;
    std::set<std::pair<std::string, ValueId>> seen;
    for (const DumpTensor& tensor : dump_.tensors()) {
      Meaning meaning = names_.find(tensor);
      if (meaning.kind == NameKind::kPassing) continue;
      if (meaning.kind == NameKind::kUnknown) {
        note_unmapped(tensor.name);
        continue;
      }
      if (meaning.kind != NameKind::kValues) {
        inputs_.push_back({&tensor, meaning.kind});
        continue;
      }
      // Nodes of several blocks may bear one name, and are told apart by their operands.
      const bool first = seen.emplace(tensor.name, meaning.parts[0].targets[0].value).second;
      if (tensor.occurrence > 0 && !first) {
        if (std::find(later.begin(), later.end(), tensor.name) == later.end()) {
          later.push_back(tensor.name);
        }
        continue;
      }
      // That something is as long as the model is deep does not make it so many values.
      const bool loose = slices_.contains(tensor.name) && !names_.is_given(tensor.name);
      for (NamePart& part : meaning.parts) {
        for (Target& target : part.targets) target.loose |= loose;
        const auto outside = [&](const Target& target) {
          return !in_layers(program_, target.value, options_.layers);
        };
        // What else a name may stand for counts only where the first thing does.
        if (outside(part.targets[0])) part.targets.clear();
        std::erase_if(part.targets, outside);
        outside_layers_ |= part.targets.empty();
        if (!part.targets.empty()) sources_.push_back({&tensor, std::move(part)});
      }
    }
    if (later.empty()) return;
    const std::string others =
        later.size() > 1 ? fmt::format(" and {} others were", later.size() - 1) : " was";
    result_.notes.push_back("'" + later.front() + "'" + others +
                            " written more than once; only the first call was read");
  }

  void note_unmapped(const std::string& name) {
    auto& names = result_.unmapped;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  std::string nothing_known() const {
    if (outside_layers_) return "the dump holds nothing of the blocks that were asked for";
    const auto& tensors = dump_.tensors();
    if (tensors.empty()) return "the dump holds no tensors";
    std::string text = "no tensor of the dump has a name that stands for a step of this model";
    for (size_t i = 0; i < std::min<size_t>(tensors.size(), 4); ++i) {
      text += (i == 0 ? ": " : ", ") + tensors[i].name;
    }
    if (tensors.size() > 4) text += ", …";
    return text + "; --map FILE says what names stand for";
  }

  /// Leaves the targets that a tensor's shape allows; an Error where it allows none.
  void check_shapes(const RunInputs& inputs) {
    std::vector<Source> fitting;
    for (Source& source : sources_) {
      const Target first = source.part.targets[0];
      const bool loose = first.loose;
      std::erase_if(source.part.targets, [&](const Target& target) {
        const RunSizes sizes = inputs.sizes(program_, target.value);
        if (!source.part.columns.empty()) {
          return fused_layouts(sizes, source.part.width, source.tensor->shape).empty();
        }
        return layouts(program_.value(target.value), sizes, source.tensor->shape,
                       heads_of(program_, target.value))
            .empty();
      });
      if (!source.part.targets.empty()) {
        fitting.push_back(std::move(source));
        continue;
      }
      if (loose) {
        note_unmapped(source.tensor->name);
        continue;
      }
      const RunSizes sizes = inputs.sizes(program_, first.value);
      const std::string expected =
          source.part.columns.empty()
              ? shape_text(program_.value(first.value), sizes)
              : "[B,T,C] = " + to_string(Shape{sizes.batch, sizes.tokens, source.part.width});
      throw bad_input("shape of '" + source.tensor->name + "' (" +
                          to_string(first_site(program_, first.value)) + ")",
                      expected, to_string(source.tensor->shape))
          .in(dump_.path())
          .hint(fmt::format("B and T are those of the ids, [{}, {}]", sizes.batch, sizes.tokens));
    }
    sources_ = std::move(fitting);
  }

  void choose(AlignPass& pass) {
    Freedom freedom;
    freedom.targets.resize(sources_.size());
    pass.run(freedom);
    const std::set<ConventionGroup> wrong = pass.unconfirmed();
    if (pass.open().empty() && wrong.empty()) return;
    // Once more, with what was found, and by the names alone where nothing was.
    freedom.conventions.emplace();
    for (const auto& [value, chosen] : pass.chosen()) {
      freedom.targets[chosen.source] = chosen.target;
      if (!chosen.tried) continue;
      const ConventionGroup group = group_of(chosen.convention, first_site(program_, value), value);
      if (!wrong.contains(group)) freedom.conventions->insert(group);
    }
    for (const size_t source : pass.open()) freedom.targets[source] = 0;
    pass.run(freedom);
  }

  void deliver(AlignPass& pass, const RunInputs& inputs) {
    std::map<std::pair<Convention, Site>, std::vector<SiteId>> undone;
    std::set<ValueId> given;
    for (const NamedValue& named : program_.sites) {
      const auto found = pass.chosen().find(named.value);
      if (found == pass.chosen().end()) continue;
      const auto [begin, end] = pass.others().equal_range(named.value);
      if (begin != end) {
        // Each name on its own, since they hold different numbers.
        if (found->second.site == named.site) deliver_value(named, found->second, inputs);
        for (auto other = begin; other != end; ++other) {
          if (other->second.site == named.site) deliver_value(named, other->second, inputs);
        }
        continue;
      }
      if (!given.insert(named.value).second) continue;
      deliver_value(named, found->second, inputs);
      if (found->second.convention != Convention::kNone) {
        undone[{found->second.convention, named.site.site}].push_back(named.site);
      }
    }
    for (const auto& [what, sites] : undone) {
      const std::string where = sites.size() == 1 || sites[0].layer < 0
                                    ? to_string(sites[0])
                                    : "blocks.*." + std::string(name(what.second));
      result_.notes.push_back(describe(what.first, where));
    }
    result_.notes.insert(result_.notes.end(), pass.notes().begin(), pass.notes().end());
  }

  void deliver_value(const NamedValue& named, Chosen& chosen, const RunInputs& inputs) {
    const DumpTensor& tensor = *sources_[chosen.source].tensor;
    AlignedValue value{.site = named.site, .name = tensor.name, .dtype = tensor.dtype};
    value.shape = shape_of(program_.value(named.value), inputs.sizes(program_, named.value));
    value.data = std::move(chosen.numbers.data);
    value.known = std::move(chosen.numbers.known);
    value.printed_error = std::move(chosen.numbers.errors);
    const Step& made = program_.step(program_.value(named.value).producer);
    const auto* attention = std::get_if<AttentionParams>(&made.params);
    value.up_to_row_constant =
        chosen.convention == Convention::kRowConstant ||
        (attention != nullptr && named.value == made.scores && !attention->alibi_slopes.empty());
    value.only_read = options_.layers && is_block_site(named.site.site) &&
                      named.site.layer < options_.layers->first;
    hide_right_padding(value, named.value, inputs);
    result_.values.push_back(std::move(value));
  }

  /// Rows behind the text are computed with the reference, but what the user's hold is not known.
  void hide_right_padding(AlignedValue& value, ValueId id, const RunInputs& inputs) const {
    const bool any = std::any_of(inputs.right_padding.begin(), inputs.right_padding.end(),
                                 [](int64_t n) { return n > 0; });
    if (!any || program_.value(id).rows == Rows::kEncoder) return;
    const auto& dims = program_.value(id).dims;
    size_t axis = 1;
    while (dims[axis].letter != 'T' && axis + 1 < dims.size()) ++axis;
    if (dims[axis].letter != 'T') return;
    if (value.known.empty()) value.known.assign(value.data.size(), 1);
    int64_t inner = 1;
    for (size_t i = axis + 1; i < dims.size(); ++i) inner *= value.shape[i];
    for (size_t i = 0; i < value.data.size(); ++i) {
      const auto flat = static_cast<int64_t>(i);
      const int64_t t = flat / inner % value.shape[axis];
      const auto b = static_cast<size_t>(flat / (std::ssize(value.data) / value.shape[0]));
      if (t >= inputs.tokens - inputs.right_padding[b]) value.known[i] = 0;
    }
  }

  /// Whether the embeddings are rows of other ids than the pass was given.
  void find_other_tokens(const RunInputs& inputs, ArithmeticType type) {
    for (const AlignedValue& value : result_.values) {
      const SiteId& site = value.site;
      if (site.site != Site::kTokenEmbed && site.site != Site::kEmbed) continue;
      const bool encoder = site.stack == Stack::kEncoder;
      const StackSpec& stack = encoder ? *program_.spec.encoder : program_.spec.stack;
      const bool sum = site.site == Site::kEmbed;
      const bool has_more = stack.positions != PositionKind::kNone || stack.token_types > 0 ||
                            stack.embed_norm || stack.embed_width != stack.width;
      if (sum && has_more) continue;
      Numbers rows{.data = value.data, .known = value.known, .errors = value.printed_error};
      if (sum) {
        for (double& x : rows.data) x /= stack.embed_scale;
        for (float& error : rows.errors) error /= static_cast<float>(stack.embed_scale);
      }
      const std::vector<int64_t> ids =
          nearest_ids(model_, site.stack, rows, stack.embed_width, tolerance_of(type));
      for (size_t i = 0; i < ids.size(); ++i) {
        const auto b = static_cast<int64_t>(i) / value.shape[1];
        const auto t = static_cast<int64_t>(i) % value.shape[1];
        const SequenceInput& input = inputs.sequences[static_cast<size_t>(b)];
        const int64_t given =
            (encoder ? input.encoder_tokens : input.tokens)[static_cast<size_t>(t)];
        if (inputs.is_padding(encoder ? Rows::kEncoder : Rows::kMain, b, t)) continue;
        // Rows that are equal, and rows that are not known at all, tell nothing.
        if (ids[i] < 0 || ids[i] == given || equal_rows(site.stack, ids[i], given)) continue;
        if (!is_known(value, i * static_cast<size_t>(stack.embed_width))) continue;
        result_.tokens_differ = true;
      }
      return;
    }
  }

  static bool is_known(const AlignedValue& value, size_t at) {
    return value.known.empty() || value.known[at] != 0;
  }

  bool equal_rows(Stack stack, int64_t a, int64_t b) const {
    const auto value = program_.find_value({Site::kTokenEmbed, -1, stack});
    const Step& embed = program_.step(program_.value(*value).producer);
    const TensorView& table = model_.weights().at(program_.weight(embed.weights[0]).name).tensor;
    std::vector<double> first(static_cast<size_t>(table.columns())), second = first;
    read_row(table, a, first.data());
    read_row(table, b, second.data());
    return first == second;
  }

  const Model& model_;
  const Program& program_;
  const DiffOptions& options_;
  NameTable names_;
  Aligned result_;
  std::set<std::string> slices_;  ///< names that were not in the dump as it was
  Dump dump_;
  std::vector<Source> sources_;
  std::vector<InputTensor> inputs_;
  bool outside_layers_ = false;  ///< some names stand for steps of other blocks
};

/// Blocks that were asked for and are not there would leave nothing to judge, or too little.
void check_layers(const Program& program, const std::optional<std::pair<int, int>>& layers) {
  if (!layers) return;
  int blocks = 0;
  for (const NamedValue& named : program.sites) blocks = std::max(blocks, named.site.layer + 1);
  const auto& [begin, end] = *layers;
  if (begin >= 0 && begin < end && end <= blocks) return;
  throw usage_error("layers", fmt::format("A:B within 0:{}, half-open", blocks),
                    fmt::format("{}:{}", begin, end));
}

}  // namespace

Aligned align(const Model& model, const Dump& dump, const DiffOptions& options) {
  check_layers(model.program(), options.layers);
  return Aligner(model, dump, options).run();
}

}  // namespace mainstem
