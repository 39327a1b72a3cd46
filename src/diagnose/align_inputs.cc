#include "diagnose/align_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "diagnose/align_program.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

using IdRows = std::vector<std::vector<int64_t>>;

/// Whole numbers as [B,T]; leading axes of size 1 are dropped.
IdRows read_ids(const Dump& dump, const DumpTensor& tensor) {
  Shape shape = tensor.shape;
  while (shape.size() > 2 && shape.front() == 1) shape.erase(shape.begin());
  if (shape.empty() || shape.size() > 2 || element_count(shape) == 0) {
    throw bad_input("shape of '" + tensor.name + "'", "[B,T] or [T]", to_string(tensor.shape))
        .in(dump.path());
  }
  const Numbers numbers = read_numbers(dump, tensor);
  if (!numbers.known.empty()) {
    throw bad_input("'" + tensor.name + "'", "every id", "an abridged list").in(dump.path());
  }
  const auto width = static_cast<size_t>(shape.back());
  IdRows rows(numbers.data.size() / width);
  constexpr double kMost = 0x1p53;  // a mask may be written in numbers with a point
  for (size_t i = 0; i < numbers.data.size(); ++i) {
    const double id = numbers.data[i];
    if (!(std::abs(id) <= kMost) || id != std::trunc(id)) {
      throw bad_input("'" + tensor.name + "'", "whole numbers", fmt::format("{}", id))
          .in(dump.path());
    }
    rows[i / width].push_back(static_cast<int64_t>(id));
  }
  return rows;
}

/// Of several the one that has a name of its own, before what some module was called with.
const DumpTensor* find_kind(const std::vector<InputTensor>& tensors, NameKind kind) {
  const DumpTensor* found = nullptr;
  for (const InputTensor& each : tensors) {
    if (each.kind != kind || each.tensor->occurrence > 0) continue;
    if (!is_module_input(each.tensor->name)) return each.tensor;
    if (found == nullptr) found = each.tensor;
  }
  return found;
}

std::string ids_text(const std::vector<int64_t>& ids) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(ids.size(), 8); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(ids[i]);
  }
  return text + (ids.size() > 8 ? ",…" : "");
}

void check_ids(const IdRows& rows, int64_t vocabulary, const std::string& where) {
  for (const auto& row : rows) {
    for (const int64_t id : row) {
      if (id >= 0 && id < vocabulary) continue;
      throw bad_input("token", "0 to " + std::to_string(vocabulary - 1), std::to_string(id))
          .in(where);
    }
  }
}

/// Zeros before and behind the ones of each row of a mask; nothing where they lie between.
struct Padding {
  std::vector<int64_t> left, right;
  bool holes = false;
};

Padding padding_of(const IdRows& mask) {
  Padding padding;
  for (const auto& row : mask) {
    const auto is_one = [](int64_t x) { return x != 0; };
    const auto first = std::find_if(row.begin(), row.end(), is_one);
    const auto last = std::find_if(row.rbegin(), row.rend(), is_one);
    padding.left.push_back(first - row.begin());
    padding.right.push_back(first == row.end() ? 0 : last - row.rbegin());
    if (first != row.end()) padding.holes |= !std::all_of(first, last.base(), is_one);
  }
  return padding;
}

class Reader {
 public:
  Reader(const Model& model, const Dump& dump, const DiffOptions& options,
         const std::vector<InputTensor>& tensors, const std::vector<Source>& sources)
      : model_(model),
        program_(model.program()),
        dump_(dump),
        options_(options),
        tensors_(tensors),
        sources_(sources) {}

  RunInputs run() {
    const bool two = program_.spec.encoder.has_value();
    main_ = ids(two ? NameKind::kEncoderTokens : NameKind::kTokens, options_.tokens, "--tokens",
                two ? Stack::kEncoder : Stack::kOnly);
    if (two && result_.incomparable.empty()) {
      encoder_ = std::move(main_);
      main_ = ids(NameKind::kTokens, options_.decoder_tokens, "--decoder-tokens", Stack::kDecoder);
    }
    if (!result_.incomparable.empty()) return std::move(result_);
    if (two && encoder_.size() != main_.size()) {
      throw bad_input("tokens of encoder and decoder", "equally many sequences",
                      std::to_string(encoder_.size()) + " and " + std::to_string(main_.size()))
          .in(dump_.path());
    }
    for (size_t b = 0; b < main_.size(); ++b) {
      SequenceInput input{.tokens = main_[b]};
      if (two) input.encoder_tokens = encoder_[b];
      result_.sequences.push_back(std::move(input));
    }
    result_.tokens = std::ssize(main_[0]);
    if (two) result_.encoder_tokens = std::ssize(encoder_[0]);
    read_masks();
    if (result_.incomparable.empty()) read_positions();
    if (result_.incomparable.empty()) read_types();
    return std::move(result_);
  }

 private:
  IdRows ids(NameKind kind, const std::vector<int64_t>& given, const char* option, Stack stack) {
    const DumpTensor* tensor = find_kind(tensors_, kind);
    if (tensor != nullptr) {
      IdRows rows = read_ids(dump_, *tensor);
      check_ids(rows, program_.spec.vocab_size, "'" + tensor->name + "', " + dump_.path());
      for (const auto& row : rows) {
        if (given.empty() || row == given) continue;
        result_.incomparable = std::string(option) + " gives the tokens " + ids_text(given) +
                               ", but the dump was made with " + ids_text(row);
        break;
      }
      note_other_ids(kind, *tensor, rows);
      return rows;
    }
    if (!given.empty()) {
      check_ids({given}, program_.spec.vocab_size, option);
      return {given};
    }
    if (stack == Stack::kDecoder && model_.decoder_start_id()) {
      return IdRows(encoder_.size(), {*model_.decoder_start_id()});
    }
    IdRows found = recover(stack);
    if (found.empty()) {
      result_.incomparable = std::string(
                                 "the dump holds no tokens, and they cannot be told from "
                                 "its embeddings: give ") +
                             option;
    }
    return found;
  }

  void note_other_ids(NameKind kind, const DumpTensor& taken, const IdRows& rows) {
    for (const InputTensor& each : tensors_) {
      if (each.kind != kind || each.tensor == &taken || each.tensor->occurrence > 0) continue;
      if (read_ids(dump_, *each.tensor) == rows) continue;
      result_.notes.push_back("'" + each.tensor->name + "' holds other ids than '" + taken.name +
                              "', which were taken");
    }
  }

  /// The ids whose rows of the token table the embeddings are.
  IdRows recover(Stack stack) {
    const StackSpec& spec = stack == Stack::kEncoder ? *program_.spec.encoder : program_.spec.stack;
    for (const Site site : {Site::kTokenEmbed, Site::kEmbedSum, Site::kEmbed}) {
      const auto value = program_.find_value({site, -1, stack});
      if (!value || (site == Site::kEmbed && spec.embed_norm)) continue;
      if (program_.value(*value).width != spec.embed_width) continue;
      for (const Source& source : sources_) {
        if (source.part.targets[0].value != *value || source.tensor->occurrence > 0) continue;
        const Shape& shape = source.tensor->shape;
        const int64_t width = program_.value(*value).width;
        if (shape.empty() || shape.back() != width) continue;
        const Numbers numbers = read_numbers(dump_, *source.tensor);
        const int64_t batch = shape.size() == 3 ? shape[0] : 1;
        for (const double scale : {1.0, spec.embed_scale}) {
          const bool plain = site == Site::kTokenEmbed;
          IdRows found = ids_of(numbers, batch, width, scale, stack, plain);
          if (found.empty()) continue;
          result_.notes.push_back("the tokens were told from the rows of '" + source.tensor->name +
                                  "'");
          return found;
        }
      }
    }
    return {};
  }

  IdRows ids_of(Numbers numbers, int64_t batch, int64_t width, double scale, Stack stack,
                bool plain) {
    const auto count = static_cast<int64_t>(numbers.data.size()) / width;
    if (count == 0 || count % batch != 0) return {};
    const int64_t length = count / batch;
    if (!plain) subtract_others(numbers, length, width, stack);
    for (double& x : numbers.data) x /= scale;
    const std::vector<int64_t> found =
        nearest_ids(model_, stack, numbers, width, tolerance_of(ArithmeticType::kF16));
    if (std::find(found.begin(), found.end(), -1) != found.end()) return {};
    IdRows rows(static_cast<size_t>(batch));
    for (int64_t i = 0; i < count; ++i) {
      rows[static_cast<size_t>(i / length)].push_back(found[static_cast<size_t>(i)]);
    }
    return rows;
  }

  /// Takes off what is added to the token rows: positions and types.
  void subtract_others(Numbers& numbers, int64_t length, int64_t width, Stack stack) {
    std::vector<ValueId> wanted;
    std::vector<SiteId> sites;
    for (const Site site : {Site::kPosEmbed, Site::kTypeEmbed}) {
      if (const auto value = program_.find_value({site, -1, stack})) {
        wanted.push_back(*value);
        sites.push_back({site, -1, stack});
      }
    }
    if (sites.empty()) return;
    auto bound = std::make_shared<BoundProgram>(cut_behind(program_, wanted), model_.weights());
    SequenceInput input;
    const std::vector<int64_t> zeros(static_cast<size_t>(length), 0);
    input.tokens = zeros;
    if (program_.spec.encoder) input.encoder_tokens = zeros;
    for (const TracedValue& traced :
         trace(bound, {&input, 1}, sites, Compute::kF64, options_.threads)) {
      const auto values = traced.value.as<double>();
      const auto period = static_cast<size_t>(length * width);
      for (size_t i = 0; i < numbers.data.size(); ++i) numbers.data[i] -= values[i % period];
    }
  }

  /// A companion of the tokens, of the same shape or of one row for all sequences.
  std::optional<IdRows> companion(NameKind kind, int64_t length) {
    const DumpTensor* tensor = find_kind(tensors_, kind);
    if (tensor == nullptr) return std::nullopt;
    IdRows rows = read_ids(dump_, *tensor);
    if (rows.size() == 1) rows.resize(result_.sequences.size(), rows[0]);
    const bool longer = std::ssize(rows[0]) > length;
    if (rows.size() == result_.sequences.size() && std::ssize(rows[0]) == length) return rows;
    if (kind == NameKind::kKeyMask && longer) {
      result_.incomparable = "'" + tensor->name + "' covers " + std::to_string(rows[0].size()) +
                             " keys for " + std::to_string(length) +
                             " tokens: passes that continue a cache are not compared";
      return std::nullopt;
    }
    throw bad_input("shape of '" + tensor->name + "'",
                    "[" + std::to_string(result_.batch()) + ", " + std::to_string(length) + "]",
                    to_string(tensor->shape))
        .in(dump_.path());
  }

  void read_masks() {
    const bool two = program_.spec.encoder.has_value();
    result_.right_padding.assign(result_.sequences.size(), 0);
    if (two) read_mask(NameKind::kEncoderKeyMask, result_.encoder_tokens, true);
    read_mask(NameKind::kKeyMask, result_.tokens, false);
  }

  void read_mask(NameKind kind, int64_t length, bool encoder) {
    if (!result_.incomparable.empty()) return;
    const auto mask = companion(kind, length);
    if (!mask) return;
    const Padding padding = padding_of(*mask);
    const StackSpec& stack = encoder ? *program_.spec.encoder : program_.spec.stack;
    const bool causal = std::none_of(
        stack.blocks.begin(), stack.blocks.end(),
        [](const BlockSpec& block) { return block.attention.mask == MaskKind::kFull; });
    const bool right =
        std::any_of(padding.right.begin(), padding.right.end(), [](int64_t n) { return n > 0; });
    if (padding.holes || (right && !causal)) {
      result_.incomparable =
          padding.holes ? "the dump's mask hides tokens between others, which is not understood"
                        : "the dump's tokens are padded behind, which only a causal model can be "
                          "compared with: pad before them, or dump each text alone";
      return;
    }
    for (size_t b = 0; b < result_.sequences.size(); ++b) {
      auto& sequence = result_.sequences[b];
      (encoder ? sequence.encoder_left_padding : sequence.left_padding) = padding.left[b];
      if (!encoder) result_.right_padding[b] = padding.right[b];
    }
  }

  void read_positions() {
    const auto rows = companion(NameKind::kPositions, result_.tokens);
    if (!rows) return;
    for (size_t b = 0; b < rows->size(); ++b) {
      auto& sequence = result_.sequences[b];
      bool counted = true;
      std::vector<int64_t> positions = (*rows)[b];
      for (int64_t t = 0; t < result_.tokens; ++t) {
        int64_t& position = positions[static_cast<size_t>(t)];
        if (result_.is_padding(Rows::kMain, static_cast<int64_t>(b), t)) {
          position = std::max<int64_t>(t - sequence.left_padding, 0);
        }
        counted &= position == std::max<int64_t>(t - sequence.left_padding, 0);
        if (position < 0) {
          throw bad_input("position", "0 or more", std::to_string(position)).in(dump_.path());
        }
      }
      if (!counted) sequence.positions = std::move(positions);
    }
  }

  void read_types() {
    if (program_.spec.stack.token_types == 0) return;
    const auto rows = companion(NameKind::kTokenTypes, result_.tokens);
    if (!rows) return;
    for (size_t b = 0; b < rows->size(); ++b) {
      for (const int64_t type : (*rows)[b]) {
        if (type >= 0 && type < program_.spec.stack.token_types) continue;
        throw bad_input("token type", "0 to " + std::to_string(program_.spec.stack.token_types - 1),
                        std::to_string(type))
            .in(dump_.path());
      }
      result_.sequences[b].token_types = (*rows)[b];
    }
  }

  const Model& model_;
  const Program& program_;
  const Dump& dump_;
  const DiffOptions& options_;
  const std::vector<InputTensor>& tensors_;
  const std::vector<Source>& sources_;
  IdRows main_, encoder_;
  RunInputs result_;
};

}  // namespace

RunSizes RunInputs::sizes(const Program& program, ValueId value) const {
  const Value& each = program.value(value);
  const Step& made = program.step(each.producer);
  RunSizes sizes{
      .batch = batch(), .tokens = each.rows == Rows::kEncoder ? encoder_tokens : tokens, .keys = 0};
  sizes.keys = sizes.tokens;
  if (const auto* params = std::get_if<AttentionParams>(&made.params)) {
    if (params->cross) sizes.keys = encoder_tokens;
  }
  return sizes;
}

bool RunInputs::is_padding(Rows rows, int64_t sequence, int64_t token) const {
  const auto b = static_cast<size_t>(sequence);
  if (rows == Rows::kEncoder) return token < sequences[b].encoder_left_padding;
  return token < sequences[b].left_padding || token >= tokens - right_padding[b];
}

bool is_module_input(const std::string& name) {
  return name.ends_with(".input") || name.find(".inputs.") != std::string::npos;
}

RunInputs read_inputs(const Model& model, const Dump& dump, const DiffOptions& options,
                      const std::vector<InputTensor>& tensors, const std::vector<Source>& sources) {
  return Reader(model, dump, options, tensors, sources).run();
}

std::vector<int64_t> nearest_ids(const Model& model, Stack stack, const Numbers& rows,
                                 int64_t width, double tolerance) {
  const Program& program = model.program();
  const auto value = program.find_value({Site::kTokenEmbed, -1, stack});
  const Step& embed = program.step(program.value(*value).producer);
  const WeightSource& source = model.weights().at(program.weight(embed.weights[0]).name);
  const auto columns = static_cast<size_t>(width);
  const size_t count = rows.data.size() / columns;
  std::vector<int64_t> ids(count, -1);
  std::vector<double> best(count);
  const auto known = [&](size_t at) { return rows.known.empty() || rows.known[at] != 0; };
  for (size_t n = 0; n < count; ++n) {
    double square = 0;
    for (size_t i = n * columns; i < (n + 1) * columns; ++i) {
      if (known(i)) square += rows.data[i] * rows.data[i];
    }
    best[n] = square * tolerance * tolerance;
  }
  std::vector<double> table(columns);
  for (int64_t id = 0; id < program.weight(embed.weights[0]).shape[0]; ++id) {
    read_row(source.tensor, id, table.data());
    for (size_t n = 0; n < count; ++n) {
      double square = 0;
      for (size_t i = 0; i < columns && square <= best[n]; ++i) {
        const size_t at = n * columns + i;
        if (!known(at)) continue;
        const double error = rows.errors.empty() ? 0 : static_cast<double>(rows.errors[at]);
        const double off = std::max(0.0, std::abs(rows.data[at] - table[i]) - error);
        square += std::isfinite(off) ? off * off : INFINITY;
      }
      if (!(square <= best[n]) || (ids[n] >= 0 && square == best[n])) continue;
      best[n] = square;
      ids[n] = id;
    }
  }
  return ids;
}

double tolerance_of(ArithmeticType type) {
  switch (type) {
    case ArithmeticType::kF64:
      return 1e-5;  // norms and rotary tables of programs in double are often in single
    case ArithmeticType::kF32:
      return 2e-4;
    case ArithmeticType::kF16:
      return 1e-2;
    case ArithmeticType::kBF16:
      return 4e-2;
    case ArithmeticType::kQ8Act:
      return 6e-2;
  }
  return 0;
}

}  // namespace mainstem
