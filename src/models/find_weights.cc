#include <algorithm>

#include "mainstem/error.h"
#include "models/loaded_files.h"
#include "models/weight_layout.h"
#include "models/weight_names.h"

namespace mainstem {
namespace {

/// Up to eight names, and how many more there were.
class NameList {
 public:
  void add(const std::string& name) {
    if (++count_ <= 8) text_ += (text_.empty() ? "" : ", ") + name;
  }
  bool empty() const { return count_ == 0; }
  std::string text() const {
    return count_ > 8 ? text_ + " and " + std::to_string(count_ - 8) + " more" : text_;
  }

 private:
  std::string text_;
  int count_ = 0;
};

class Finder {
 public:
  Finder(const Program& program, const Family& family, bool gguf, const FindTensor& find,
         const std::string& file, std::set<std::string>& used)
      : program_(program), family_(family), gguf_(gguf), find_(find), file_(file), used_(used) {}

  WeightSources run() {
    WeightSources sources;
    for (const WeightInfo& weight : program_.weights) {
      WeightPlace place = find_place(family_, weight.name);
      place.blocks = static_cast<int64_t>(program_.spec.stack.blocks.size());
      const Layout layout = gguf_ ? place.row->gguf_layout : place.row->hf_layout;
      sources.emplace(weight.name, layout.rows == RowLayout::kPerHead
                                       ? stacked(weight, place)
                                       : source_of(weight, place, layout));
    }
    if (missing_.empty()) return sources;
    throw bad_input("tensors that the config asks for", "all of them", "no " + missing_.text())
        .in(file_);
  }

 private:
  FoundTensor find_any(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      FoundTensor found = find_(name);
      if (found.tensor == nullptr) continue;
      used_.insert(found.tensor->name);
      return found;
    }
    return {};
  }

  /// Null, and noted, where no file holds it.
  FoundTensor find(const WeightPlace& place, int64_t head = 0) {
    const auto names = names_of(gguf_ ? place.row->gguf : place.row->hf, place, head);
    FoundTensor found = find_any(names);
    if (found.tensor == nullptr) missing_.add(names.front());
    return found;
  }

  /// GGUF files may hold q, k and v in one matrix where others have three (Phi-2 of old
  /// converters); llama.cpp takes either.
  FoundTensor find_fused(const WeightPlace& place, const Layout& layout) {
    const bool attention = place.part == "q" || place.part == "k" || place.part == "v";
    if (!gguf_ || !attention || layout.rows != RowLayout::kAll) return {};
    return find_any(names_of("blk.{N}.attn_qkv", place));
  }

  const BlockSpec* block_of(const WeightPlace& place, const WeightInfo& weight) const {
    if (place.layer < 0) return nullptr;
    const bool in_encoder = weight.name.starts_with("encoder.");
    const StackSpec& stack = in_encoder ? *program_.spec.encoder : program_.spec.stack;
    return &stack.blocks[static_cast<size_t>(place.layer)];
  }

  WeightSource source_of(const WeightInfo& weight, const WeightPlace& place, Layout layout) {
    FoundTensor found = find_fused(place, layout);
    if (found.tensor != nullptr) {
      layout.rows = RowLayout::kQkv;
    } else {
      found = find(place);
    }
    WeightSource source;
    if (found.tensor == nullptr) return source;
    source.tensor = with_context(file_, [&] { return found.tensor->view(); });
    source.keep_alive = found.storage;
    source.stored_name = found.tensor->name;
    source.transposed = layout.transposed && source.tensor.shape().size() > 1;
    if (layout.rows == RowLayout::kAll) return source;

    const BlockSpec& block = *block_of(place, weight);
    const bool cross = place.part.starts_with("cross_");
    const AttentionSpec& attention = cross ? *block.cross_attention : block.attention;
    StoredRows rows = stored_rows(layout.rows, place.part,
                                  {.heads = attention.heads,
                                   .kv_heads = attention.kv_heads,
                                   .head_width = attention.head_width,
                                   .hidden = block.mlp.hidden});
    const TensorView& tensor = source.tensor;
    const bool along_row = source.transposed || tensor.shape().size() < 2;
    const int64_t have = along_row ? tensor.columns() : tensor.rows();
    if (rows.total > 0 && have != rows.total) {
      throw bad_input("shape of weight", std::to_string(rows.total) + " outputs",
                      to_string(tensor.shape()))
          .in(source.stored_name + ", " + file_);
    }
    source.row_order = std::move(rows.order);
    return source;
  }

  /// One stored vector [E] for each head, put together as [H, E].
  WeightSource stacked(const WeightInfo& weight, const WeightPlace& place) {
    const int64_t heads = weight.shape[0];
    const int64_t width = weight.shape[1];
    const auto whole = std::make_shared<Tensor>(DType::kF64, weight.shape);
    WeightSource source;
    for (int64_t head = 0; head < heads; ++head) {
      const FoundTensor found = find(place, head);
      if (found.tensor == nullptr) continue;
      const TensorView view = with_context(file_, [&] { return found.tensor->view(); });
      if (view.count() != width) {
        throw bad_input("shape of weight", to_string(Shape{width}), to_string(view.shape()))
            .in(found.tensor->name + ", " + file_);
      }
      const std::vector<double> values = to_f64(view);
      std::copy(values.begin(), values.end(), whole->data<double>() + head * width);
      if (head == 0) source.stored_name = found.tensor->name;
    }
    source.tensor = whole->view();
    source.keep_alive = whole;
    return source;
  }

  const Program& program_;
  const Family& family_;
  bool gguf_;
  const FindTensor& find_;
  const std::string& file_;
  std::set<std::string>& used_;
  NameList missing_;
};

bool matches_any(std::string_view name, const std::vector<std::string_view>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](std::string_view pattern) { return glob_match(pattern, name); });
}

}  // namespace

WeightSources find_weights(const Program& program, const Family& family, bool gguf,
                           const FindTensor& find, const std::string& file,
                           std::set<std::string>& used) {
  return Finder(program, family, gguf, find, file, used).run();
}

std::vector<std::string> unused_tensors(const std::vector<const StoredTensor*>& tensors,
                                        const std::set<std::string>& used, const Family& family,
                                        const std::string& file) {
  std::vector<std::string> ignored;
  NameList unknown;
  for (const StoredTensor* tensor : tensors) {
    if (used.contains(tensor->name)) continue;
    if (matches_any(tensor->name, family.ignored_tensors)) {
      ignored.push_back(tensor->name);
    } else {
      unknown.add(tensor->name);
    }
  }
  if (unknown.empty()) return ignored;
  throw bad_input("tensors", "only those that the config asks for", unknown.text()).in(file);
}

std::string list_families(bool gguf) {
  std::string text;
  for (const Family& family : families()) {
    for (std::string_view name : gguf ? family.gguf_archs : family.model_types) {
      text += (text.empty() ? "" : ", ") + std::string(name);
    }
  }
  return text;
}

}  // namespace mainstem
