#pragma once

// Dumps of tiny models as bytes of a fuzzer describe them: which values, under whose names, in
// which layout and type, and what was done to their numbers. The format of the bytes stands at
// read_header() and add_record(); tools/make_fuzz_corpus.py writes seeds in it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "diagnose/foreign_names.h"
#include "diagnose/name_lines.h"
#include "fuzz_model.h"
#include "made_tensor.h"
#include "mainstem/diff.h"
#include "mainstem/dump.h"

namespace mainstem::fuzz {

class MadeDump {
 public:
  explicit MadeDump(std::span<const std::byte> bytes) : in_(bytes) {
    read_header();
    while (!in_.empty() && tensors_.size() < kMaxTensors) add_record();
  }

  const Model& model() const { return of_->model; }
  const DiffOptions& options() const { return options_; }
  const std::vector<MadeTensor>& tensors() const { return tensors_; }
  bool is_text() const { return is_text_; }
  /// The tokens are said rightly, and nothing but the values is odd.
  bool plain() const { return tokens_said_ && !odd_; }

  /// The dump stays valid as long as this object lives.
  Dump open() {
    if (is_text_) {
      text_ = as_text(tensors_);
      return Dump::from_bytes(std::as_bytes(std::span(text_)), "input.txt");
    }
    std::vector<NamedTensor> named;
    for (const MadeTensor& tensor : tensors_) {
      stored_.push_back(store(tensor));
      named.push_back({tensor.name, stored_.back().view()});
    }
    return Dump::from_tensors(named, "input");
  }

 private:
  static constexpr size_t kMaxTensors = 24;
  static constexpr int64_t kMaxElements = 4096;

  // model | batch and tokens | bits: tokens in the options, wrong ones, layers, text, type (3 bits)
  void read_header() {
    of_ = &fuzz_model(in_.byte());
    const uint8_t size = in_.byte();
    batch_ = 1 + size % 3;
    tokens_count_ = 1 + size / 3 % 6;
    const uint8_t bits = in_.byte();
    is_text_ = (bits & 8) != 0;
    if (is_text_) batch_ = 1;
    options_.threads = 1;
    const auto inputs = of_->inputs(batch_, tokens_count_);
    if ((bits & 1) != 0) {
      options_.tokens = inputs[0].tokens;
      if (model().spec().encoder) {
        options_.decoder_tokens = inputs[0].tokens;
        options_.tokens = inputs[0].encoder_tokens;
      }
      tokens_said_ = batch_ == 1;
    }
    if ((bits & 2) != 0) {
      options_.tokens.push_back(static_cast<int8_t>(in_.byte()));
      odd_ = true;
    }
    if ((bits & 4) != 0) {
      const int from = static_cast<int8_t>(in_.byte());
      options_.layers = {from, from + static_cast<int8_t>(in_.byte())};
      odd_ = true;
    }
    constexpr ArithmeticType kTypes[] = {ArithmeticType::kF64, ArithmeticType::kF32,
                                         ArithmeticType::kBF16, ArithmeticType::kF16,
                                         ArithmeticType::kQ8Act};
    const size_t type = bits / 16 % 8;
    if (type > 0) options_.dtype = kTypes[(type - 1) % std::size(kTypes)];
  }

  // whose name | which value | layout | type | numbers | edits
  void add_record() {
    const std::vector<TracedValue>& values = of_->values(batch_, tokens_count_);
    const uint8_t naming = in_.byte();
    const size_t index = (in_.byte() + 256 * (naming / 128)) % values.size();
    MadeTensor tensor;
    if (naming % 16 == 7) {
      add_inputs(tensor);
    } else {
      const TracedValue& value = values[index];
      tensor.name = name_of(naming % 16, value.site);
      tensor.shape = value.value.shape();
      tensor.data = to_f64(value.value.view());
      if (naming % 16 == 0) tensor.faithful = value.site;
      if (is_tokens(tensor)) tensor.dtype = DType::kI64;
      if (naming % 16 == 12) stack(tensor);
      const bool fused = (naming & 64) != 0;
      for (size_t more = 1; fused && more < 3 && index + more < values.size(); ++more) {
        join(tensor, values[index + more].value);
      }
      constexpr const char* kEndings[] = {"", ".input", ".output.0", ".output.1"};
      if (const size_t ending = naming / 16 % 4; ending != 0) {
        tensor.name += kEndings[ending];
        tensor.faithful.reset();
      }
    }
    lay_out(tensor);
    choose_type(tensor);
    change_numbers(tensor);
    if (is_text_) add_operation(tensor);
    if (is_tokens(tensor)) {
      const bool right = tensor.whole && tensor.faithful->stack == Stack::kOnly;
      tokens_said_ |= right;
      odd_ |= !right;
    }
    tensors_.push_back(std::move(tensor));
  }

  static bool is_tokens(const MadeTensor& tensor) {
    return tensor.faithful && tensor.faithful->site == Site::kTokens;
  }

  std::string name_of(size_t naming, const SiteId& site) {
    const Program& program = model().program();
    const std::string& family = model().family();
    const auto foreign = [&](Naming whose) {
      return foreign_name(whose, program, family, *program.find_value(site), site);
    };
    const auto more = [&](MoreNames kind) {
      const auto names = more_names(kind, family, site);
      const size_t which = in_.byte();
      return names.empty() ? to_string(site) : names[which % names.size()];
    };
    switch (naming) {
      case 1:
        return foreign(Naming::kHuggingFace);
      case 2:
        return foreign(Naming::kTransformerLens);
      case 3:
        return foreign(Naming::kGgml);
      case 4:
        return more(MoreNames::kBridge);
      case 5:
        return more(MoreNames::kHooks);
      case 6:
        return more(MoreNames::kNodes);
      case 8:
        return in_.text();
      case 9:  // a name of the caller's own
        options_.names.emplace_back("x" + std::to_string(tensors_.size()), to_string(site));
        odd_ = true;
        return options_.names.back().first;
      case 10: {
        std::string name = in_.text();
        options_.names.emplace_back(name, in_.text());
        odd_ = true;
        return name;
      }
      case 11: {  // the same for every block
        const std::string own = "x" + std::to_string(tensors_.size()) + '.';
        std::string every = to_string(site);
        const size_t at = every.find("blocks.");
        if (at == std::string::npos) return every;
        every.replace(at + 7, every.find('.', at + 7) - at - 7, 1, kAnyBlock);
        options_.names.emplace_back(own + kAnyBlock, every);
        odd_ = true;
        return own + std::to_string(site.layer);
      }
      case 12:  // of all blocks; stack() makes one of them
        return site.site == Site::kPattern ? "attentions" : "hidden_states";
      default:
        return to_string(site);
    }
  }

  /// As often as the stream is there, one below the other.
  void stack(MadeTensor& tensor) {
    const auto blocks = std::ssize(model().spec().stack.blocks);
    const int64_t count = tensor.name == "attentions" ? blocks : blocks + 1;
    const std::vector<double> one = tensor.data;
    for (int64_t n = 1; n < count; ++n) {
      tensor.data.insert(tensor.data.end(), one.begin(), one.end());
    }
    tensor.shape.insert(tensor.shape.begin(), count);
    tensor.faithful.reset();
  }

  void add_inputs(MadeTensor& tensor) {
    constexpr const char* kNames[] = {"input_ids",         "tokens",
                                      "decoder_input_ids", "attention_mask",
                                      "position_ids",      "token_type_ids",
                                      "inp_tokens",        "encoder_input_ids",
                                      "key_mask",          "decoder_attention_mask"};
    const size_t which = in_.below(std::size(kNames));
    tensor.name = kNames[which];
    // The tokens, ones, zeros or counted.
    const uint8_t what = in_.byte();
    const bool encoder = what % 8 == 1;
    int64_t length = tokens_count_;
    for (const SequenceInput& input : of_->inputs(batch_, tokens_count_)) {
      const auto& ids =
          encoder && !input.encoder_tokens.empty() ? input.encoder_tokens : input.tokens;
      length = std::ssize(ids);
      for (int64_t t = 0; t < length; ++t) {
        const auto id = static_cast<double>(ids[static_cast<size_t>(t)]);
        tensor.data.push_back(what % 8 < 2    ? id
                              : what % 8 == 2 ? 1
                              : what % 8 == 3 ? 0
                              : what % 8 == 4 ? t >= what / 8 % 4 ? 1 : 0
                                              : static_cast<double>(t + what / 8));
      }
    }
    tensor.shape = {batch_, length};
    tensor.dtype = DType::kI64;
    // The first two names are the encoder's of a model that has one.
    const bool right = which < 2 && !model().spec().encoder && what % 8 == 0;
    if (right) tensor.faithful = SiteId{Site::kTokens, -1, Stack::kOnly};
    odd_ |= !right;
  }

  /// Another value's channels behind those of the tensor.
  static void join(MadeTensor& tensor, const Tensor& other) {
    tensor.faithful.reset();
    const std::vector<double> behind = to_f64(other.view());
    if (tensor.shape.size() < 2 || other.shape().size() < 2) return;
    const int64_t rows = tensor.shape[0] * tensor.shape[1];
    if (other.shape()[0] * other.shape()[1] != rows || rows == 0) return;
    const auto one = tensor.data.size() / static_cast<size_t>(rows);
    const auto two = behind.size() / static_cast<size_t>(rows);
    std::vector<double> data;
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
      data.insert(data.end(), tensor.data.begin() + static_cast<std::ptrdiff_t>(row * one),
                  tensor.data.begin() + static_cast<std::ptrdiff_t>((row + 1) * one));
      data.insert(data.end(), behind.begin() + static_cast<std::ptrdiff_t>(row * two),
                  behind.begin() + static_cast<std::ptrdiff_t>((row + 1) * two));
    }
    tensor.shape = {tensor.shape[0], tensor.shape[1], static_cast<int64_t>(one + two)};
    tensor.data = std::move(data);
  }

  void lay_out(MadeTensor& tensor) {
    Shape& shape = tensor.shape;
    const uint8_t layout = in_.byte();
    if (layout != 0) tensor.faithful.reset();
    switch (layout % 12) {
      case 0:
        break;
      case 1:  // without a batch
        if (!shape.empty() && shape[0] == 1) shape.erase(shape.begin());
        break;
      case 2:  // two axes as one
        if (shape.size() > 1) {
          const size_t axis = layout / 12U % (shape.size() - 1);
          shape[axis] *= shape[axis + 1];
          shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
        }
        break;
      case 3:
        if (shape.size() > 1) transpose(tensor, layout / 12U % (shape.size() - 1));
        break;
      case 4:  // the last tokens only
        if (shape.size() > 2 && shape[0] == 1 && shape[1] > 1) {
          const auto row = static_cast<std::ptrdiff_t>(std::ssize(tensor.data) / shape[1]);
          tensor.data.erase(tensor.data.begin(), tensor.data.begin() + row);
          --shape[1];
        }
        break;
      case 5:
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(layout / 12U % (shape.size() + 1)),
                     1);
        break;
      case 6:
        shape = {std::ssize(tensor.data)};
        break;
      case 7:  // a sequence more, or one that is not there
        if (!shape.empty() && shape[0] > 0) {
          const auto row = tensor.data.size() / static_cast<size_t>(shape[0]);
          const std::vector<double> first(tensor.data.begin(),
                                          tensor.data.begin() + static_cast<std::ptrdiff_t>(row));
          tensor.data.insert(tensor.data.end(), first.begin(), first.end());
          ++shape[0];
        }
        break;
      case 8:  // heads of keys and values once for each query head, padded keys
        if (!shape.empty() && shape.back() > 0) widen(tensor, layout / 12U % 2 == 0);
        break;
      case 9:
        shape = {};
        tensor.data.resize(1);
        break;
      case 10:
        if (!shape.empty()) shape[layout / 12U % shape.size()] = 0;
        tensor.data.resize(static_cast<size_t>(element_count(shape)));
        break;
      default: {  // any shape
        Shape free(in_.below(6));
        int64_t count = 1;
        for (int64_t& dim : free) {
          dim = static_cast<int64_t>(in_.below(20));
          while (count * dim > kMaxElements) dim /= 2;
          count *= dim;
        }
        std::vector<double> data(static_cast<size_t>(count));
        for (size_t i = 0; i < data.size() && !tensor.data.empty(); ++i) {
          data[i] = tensor.data[i % tensor.data.size()];
        }
        shape = std::move(free);
        tensor.data = std::move(data);
        break;
      }
    }
  }

  /// Exchanges an axis and the next.
  static void transpose(MadeTensor& tensor, size_t axis) {
    Shape& shape = tensor.shape;
    const auto size = [&](size_t begin, size_t end) {
      return element_count(std::span(shape).subspan(begin, end - begin));
    };
    const int64_t outer = size(0, axis), one = shape[axis], two = shape[axis + 1];
    const int64_t inner = size(axis + 2, shape.size());
    std::vector<double> data;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t b = 0; b < two; ++b) {
        for (int64_t a = 0; a < one; ++a) {
          const auto from =
              tensor.data.begin() + static_cast<std::ptrdiff_t>(((o * one + a) * two + b) * inner);
          data.insert(data.end(), from, from + static_cast<std::ptrdiff_t>(inner));
        }
      }
    }
    std::swap(shape[axis], shape[axis + 1]);
    tensor.data = std::move(data);
  }

  static void widen(MadeTensor& tensor, bool heads) {
    Shape& shape = tensor.shape;
    if (std::ssize(tensor.data) * 2 > kMaxElements) return;
    const size_t axis = heads && shape.size() > 2 ? 2 : shape.size() - 1;
    const auto inner = static_cast<size_t>(
        element_count(std::span(shape).subspan(axis + (axis + 1 < shape.size() ? 1 : 0))));
    std::vector<double> data;
    for (size_t at = 0; inner > 0 && at < tensor.data.size(); at += inner) {
      for (int copy = 0; copy < 2; ++copy) {
        data.insert(data.end(), tensor.data.begin() + static_cast<std::ptrdiff_t>(at),
                    tensor.data.begin() + static_cast<std::ptrdiff_t>(at + inner));
      }
    }
    shape[axis] *= 2;
    tensor.data = std::move(data);
  }

  void choose_type(MadeTensor& tensor) {
    constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16,
                                DType::kI64, DType::kI32, DType::kU8,  DType::kBool};
    const uint8_t type = in_.byte();
    if (type == 0 || is_text_) return;  // as it is
    const DType before = tensor.dtype;
    tensor.dtype = kTypes[(type - 1) % std::size(kTypes)];
    if (!info(tensor.dtype).is_float && tensor.dtype != before) tensor.whole = false;
  }

  // 0: as computed; 1: none but the edits; 2: times a number; 3: shifted by one channel
  void change_numbers(MadeTensor& tensor) {
    const uint8_t what = in_.byte();
    const size_t count = tensor.data.size();
    tensor.whole &= what % 4 == 0;
    if (what % 4 == 1) std::fill(tensor.data.begin(), tensor.data.end(), 0.0);
    if (what % 4 == 2) {
      for (double& x : tensor.data) x *= std::ldexp(1.0 + what / 128, what / 4 % 32 - 16);
    }
    if (what % 4 == 3 && count > 1) {
      std::rotate(tensor.data.begin(), tensor.data.begin() + 1, tensor.data.end());
    }
    constexpr double kInf = std::numeric_limits<double>::infinity();
    constexpr double kNumbers[] = {std::numeric_limits<double>::quiet_NaN(),
                                   kInf,
                                   -kInf,
                                   0,
                                   -0.0,
                                   1e300,
                                   -1e300,
                                   5e-324,
                                   1e38,
                                   65504,
                                   -1,
                                   1e18,
                                   -9.3e18,
                                   2e-45,
                                   0.5,
                                   1e-8};
    for (size_t edits = in_.below(4); edits > 0; --edits) {
      const size_t at = in_.byte() + size_t{256} * in_.below(16);
      const uint8_t number = in_.byte();
      if (count == 0) continue;
      double& x = tensor.data[at % count];
      x = number < 128 ? kNumbers[number % 16] : x * (number - 190) / 16.0;
      tensor.whole = false;
      tensor.not_finite |= !std::isfinite(x);
    }
  }

  void add_operation(MadeTensor& tensor) {
    constexpr const char* kOps[] = {"MUL_MAT", "ADD",      "MUL",      "GET_ROWS",
                                    "ROPE",    "SOFT_MAX", "RMS_NORM", "NORM",
                                    "VIEW",    "RESHAPE",  "PERMUTE",  "CONT",
                                    "SCALE",   "GLU",      "UNARY",    "FLASH_ATTN_EXT"};
    tensor.op = kOps[in_.below(std::size(kOps))];
    const auto& weights = model().weights();
    const size_t which = in_.below(weights.size() + 1);
    if (which < weights.size()) {
      tensor.operands.push_back(
          std::next(weights.begin(), static_cast<std::ptrdiff_t>(which))->second.stored_name);
    } else {
      tensor.operands.push_back(in_.text());
    }
  }

  ByteStream in_;
  FuzzModel* of_ = nullptr;
  int64_t batch_ = 1, tokens_count_ = 1;
  bool is_text_ = false, tokens_said_ = false, odd_ = false;
  DiffOptions options_;
  std::vector<MadeTensor> tensors_;
  std::vector<Tensor> stored_;
  std::string text_;
};

}  // namespace mainstem::fuzz
