// Quantised blocks whose nibbles are read in another order. The bytes are rearranged so that the
// right reader gives what the wrong one gives of the file's bytes.

#include <fmt/format.h>

#include <cstring>

#include "diagnose/causes/channels.h"

namespace mainstem::causes {
namespace {

/// Where a format keeps its quants. A chunk of n bytes holds 2n elements, the low nibbles first.
struct NibbleLayout {
  DType dtype;
  int chunk_bytes, chunks, nibbles;
  int high = -1;             ///< byte offset of the fifth bits
  bool high_planes = false;  ///< bit e/32 of byte e%32; else bit e of one word
};
constexpr NibbleLayout kLayouts[] = {
    {DType::kQ4_0, 16, 1, 2},    {DType::kQ4_1, 16, 1, 4},  {DType::kQ5_0, 16, 1, 6, 2},
    {DType::kQ5_1, 16, 1, 8, 4}, {DType::kQ4_K, 32, 4, 16}, {DType::kQ5_K, 32, 4, 48, 16, true},
};

const NibbleLayout* layout_of(DType dtype) {
  for (const NibbleLayout& layout : kLayouts) {
    if (layout.dtype == dtype) return &layout;
  }
  return nullptr;
}

class Block {
 public:
  Block(const NibbleLayout& layout, uint8_t* bytes) : layout_(layout), bytes_(bytes) {}

  int get(int e) const {
    const int low = bytes_[byte(e)] >> shift(e) & 15;
    return layout_.high < 0 ? low : low | (bytes_[high_byte(e)] >> high_bit(e) & 1) << 4;
  }
  void set(int e, int value) {
    write(byte(e), shift(e), 15, value & 15);
    if (layout_.high >= 0) write(high_byte(e), high_bit(e), 1, value >> 4);
  }

 private:
  int byte(int e) const {
    const int n = layout_.chunk_bytes;
    return layout_.nibbles + e / (2 * n) * n + e % n;
  }
  int shift(int e) const { return e % (2 * layout_.chunk_bytes) < layout_.chunk_bytes ? 0 : 4; }
  int high_byte(int e) const { return layout_.high + (layout_.high_planes ? e % 32 : e / 8); }
  int high_bit(int e) const { return layout_.high_planes ? e / 32 : e % 8; }
  void write(int at, int bit, int mask, int value) {
    bytes_[at] = static_cast<uint8_t>((bytes_[at] & ~(mask << bit)) | value << bit);
  }

  const NibbleLayout& layout_;
  uint8_t* bytes_;
};

enum class Misread : uint8_t {
  kNeighbours,      ///< both nibbles of a byte are neighbours
  kHighFirst,       ///< the high nibbles are the first half
  kTwosComplement,  ///< a nibble is a signed number instead of one with 8 added
  kFirstBlockOnly,  ///< nothing is read behind the tensor's first block
};

void misread_block(const NibbleLayout& layout, Misread misread, uint8_t* bytes) {
  const int n = layout.chunk_bytes;
  Block block(layout, bytes);
  std::vector<int> right;
  for (int e = 0; e < 2 * n * layout.chunks; ++e) right.push_back(block.get(e));
  const auto right_at = [&](int e) { return right[static_cast<size_t>(e)]; };
  for (int e = 0; e < 2 * n * layout.chunks; ++e) {
    const int first = e / (2 * n) * 2 * n;
    const int at = e - first;
    int value = right_at(e);
    switch (misread) {
      case Misread::kNeighbours:
        value = right_at(first + at % 2 * n + at / 2);
        break;
      case Misread::kHighFirst:
        value = right_at(first + (at + n) % (2 * n));
        break;
      case Misread::kTwosComplement:
        value ^= 8;
        break;
      case Misread::kFirstBlockOnly:
        break;
    }
    block.set(e, value);
  }
}

/// What the wrong code does, and what is right.
std::pair<std::string_view, std::string_view> words_of(Misread misread) {
  constexpr std::string_view kHalves =
      "low nibbles are the first half of a block, high ones the second";
  switch (misread) {
    case Misread::kNeighbours:
      return {"the two nibbles of a byte are neighbours", kHalves};
    case Misread::kHighFirst:
      return {"high nibbles are the first half of a block", kHalves};
    case Misread::kTwosComplement:
      return {"a nibble is a signed number", "a nibble is a number with 8 added"};
    case Misread::kFirstBlockOnly:
      return {"nothing is read behind the first block", "every block is read"};
  }
  return {};
}

WeightSource misread_tensor(const WeightSource& source, Misread misread) {
  const NibbleLayout& layout = *layout_of(source.tensor.dtype());
  const auto bytes = static_cast<size_t>(source.tensor.bytes());
  auto copy = std::make_shared<AlignedBuffer>(bytes);
  std::memcpy(copy->data(), source.tensor.data(), bytes);
  const auto step = static_cast<size_t>(info(layout.dtype).block_bytes);
  // A block of zeros has the scale 0.
  if (misread == Misread::kFirstBlockOnly) std::memset(copy->data() + step, 0, bytes - step);
  for (size_t at = 0; misread != Misread::kFirstBlockOnly && at + step <= bytes; at += step) {
    misread_block(layout, misread, copy->as<uint8_t>() + at);
  }
  WeightSource result = source;
  result.tensor = TensorView(layout.dtype, source.tensor.shape(), copy->data());
  result.keep_alive = copy;
  return result;
}

struct Quantised {
  std::string name;
  WeightSource source;
  std::vector<ValueId> made;
};

/// A matrix without blocks, made of misread ones: column 32b + 2j + s holds what belongs in column
/// 32b + 16s + j. A product with it is the right one of its input in the other order.
struct Converted {
  ValueId made, input;
};

constexpr int64_t kColumns = 32;

void misread_columns(Program& program, const Converted& matrix) {
  const bool table = matrix.input == kNoId;
  const int64_t width = program.value(table ? matrix.made : matrix.input).width;
  std::vector<int64_t> order;
  for (int64_t c = 0; c < width; ++c) {
    const int64_t first = c / kColumns * kColumns, at = c % kColumns;
    constexpr int64_t kHalf = kColumns / 2;
    // A table's column takes another; a product's input goes to where its column went.
    order.push_back(first + (table ? at % 2 * kHalf + at / 2 : at % kHalf * 2 + at / kHalf));
  }
  Step step = custom_step(pick_channels("columns of misread blocks", std::move(order)));
  if (table) return insert_before(program, matrix.made, std::move(step));
  step.inputs = {matrix.input};
  const ValueId input = insert_step(program, matrix.input, std::move(step));
  reroute(program, matrix.made, matrix.input, input);
}

void converted_matrices(const Place& place, Forms& forms) {
  std::vector<Converted> matrices;
  for (Op op : {Op::kEmbedTokens, Op::kLinear}) {
    for (ValueId value : place.made_by(op)) {
      const auto source = source_of(place, value, 0);
      if (!source || layout_of(source->tensor.dtype()) != nullptr) continue;
      const Step& step = maker(place.program(), value);
      if (place.program().weight(step.weights[0]).shape.back() % kColumns != 0) continue;
      matrices.push_back({value, op == Op::kLinear ? step.inputs[0] : kNoId});
    }
  }
  const auto add = [&](const std::vector<Converted>& chosen, const std::string& which) {
    std::vector<ValueId> made;
    for (const Converted& each : chosen) made.push_back(each.made);
    forms.add({.yours = "columns of " + which + " in the order of misread 4-bit blocks of 32",
               .reference = "columns in the order of the model",
               .usual_place = "the converter that read 4-bit blocks: neighbours for halves",
               .fix = "Convert the weights again: low nibbles are the first half of a block."},
              place.shown(made), [chosen](Edited& edited, Numbers) {
                for (const Converted& each : chosen) misread_columns(edited.program, each);
              });
  };
  if (matrices.size() > 1) add(matrices, "every matrix");
  for (const Converted& each : matrices) add({each}, place.label(each.made));
}

}  // namespace

void weight_quant_layout(const Place& place, Forms& forms) {
  std::vector<Quantised> matrices;
  for (Op op : {Op::kEmbedTokens, Op::kLinear}) {
    for (ValueId value : place.made_by(op)) {
      const auto source = source_of(place, value, 0);
      if (!source || layout_of(source->tensor.dtype()) == nullptr) continue;
      const std::string& name =
          place.program().weight(maker(place.program(), value).weights[0]).name;
      bool known = false;
      for (Quantised& each : matrices) {
        if (each.name != name) continue;
        each.made.push_back(value);
        known = true;
      }
      if (!known) matrices.push_back({name, *source, {value}});
    }
  }
  const auto add = [&](const std::vector<Quantised>& chosen, Misread misread,
                       const std::string& which) {
    const std::string_view type = name(chosen.front().source.tensor.dtype());
    std::vector<ValueId> made;
    for (const Quantised& each : chosen) {
      made.insert(made.end(), each.made.begin(), each.made.end());
    }
    const auto [what, right] = words_of(misread);
    forms.add({.yours = fmt::format("{} in {} ({})", what, which, type),
               .reference = std::string(right),
               .usual_place = "the code that unpacks quantised blocks",
               .fix = "Unpack the block as its format says."},
              place.shown(made), [chosen, misread](Edited& edited, Numbers) {
                for (const Quantised& each : chosen) {
                  edited.weights[each.name] = misread_tensor(each.source, misread);
                }
              });
  };
  for (const Misread misread : {Misread::kNeighbours, Misread::kHighFirst, Misread::kTwosComplement,
                                Misread::kFirstBlockOnly}) {
    for (const NibbleLayout& layout : kLayouts) {
      if (misread == Misread::kTwosComplement && layout.dtype != DType::kQ4_0) continue;
      std::vector<Quantised> same;
      for (const Quantised& each : matrices) {
        if (each.source.tensor.dtype() == layout.dtype) same.push_back(each);
      }
      if (same.size() > 1) add(same, misread, "every matrix");
      for (const Quantised& each : same) add({each}, misread, place.label(each.made.front()));
    }
  }
  converted_matrices(place, forms);
}

}  // namespace mainstem::causes
