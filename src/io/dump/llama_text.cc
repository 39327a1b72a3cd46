// The text of llama.cpp's examples/eval-callback: since its first version (ggml_debug, in
// eval-callback.cpp) and as common/debug.cpp writes it since 2026 (common_debug_cb_eval). A node is
//
//     common_debug_cb_eval:  Qcur-0 = (f32)  MUL_MAT(blk.0.attn_q.weight{64, 64, 1, 1}, …}) = {64,
//     5, 1, 1}
//         [
//             [
//                 [      0.1234,      -0.5678,       1.0000,    ...,       0.1000,       0.2000,
//                 0.3000  ],
//                 ...
//             ],
//         ]
//         sum = 12.345678
//
// with one bracketed block (and sum) for each index of the fourth dimension.

#include <algorithm>
#include <charconv>
#include <utility>

#include "io/dump/dump_reader.h"
#include "io/dump/printed_array.h"
#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

constexpr std::string_view kMarkers[] = {"common_debug_cb_eval: ", "ggml_debug: "};
constexpr std::string_view kTokenCount = "number of input tokens = ";
constexpr std::string_view kSum = "sum = ";

struct GgmlType {
  std::string_view name;
  DType dtype;
};
// Those that the callback prints the values of.
constexpr GgmlType kTypes[] = {
    {"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}, {"i64", DType::kI64},
    {"i32", DType::kI32}, {"i16", DType::kI16}, {"i8", DType::kI8},
};

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool parse_int(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// "{64, 5, 1, 1}" without its braces, fastest first, into a row-major shape.
bool parse_dims(std::string_view text, Shape& shape) {
  shape.clear();
  while (shape.size() < 4) {
    const size_t comma = text.find(',');
    int64_t dim = 0;
    if (!parse_int(trimmed(text.substr(0, comma)), dim) || dim < 0) return false;
    shape.insert(shape.begin(), dim);
    if (comma == text.npos) return shape.size() == 4;
    text.remove_prefix(comma + 1);
  }
  return false;
}

// "a{64, 64, 1, 1}, b{…}". llama.cpp cuts long ones off; what is not whole is left out.
std::vector<DumpOperand> parse_operands(std::string_view text) {
  std::vector<DumpOperand> operands;
  for (;;) {
    const size_t open = text.find('{'), close = text.find('}');
    if (open == text.npos || close == text.npos || close < open) return operands;
    DumpOperand operand;
    operand.name = text.substr(0, open);
    if (!parse_dims(text.substr(open + 1, close - open - 1), operand.shape)) return operands;
    operands.push_back(std::move(operand));
    text.remove_prefix(close + 1);
    if (text.starts_with(", ")) text.remove_prefix(2);
  }
}

// What follows the marker in a node's line, or an empty view where the line is none.
std::string_view node_text(std::string_view line) {
  for (const std::string_view marker : kMarkers) {
    const size_t at = line.find(marker);
    if (at == line.npos) continue;
    const std::string_view rest = line.substr(at + marker.size());
    if (rest.find(" = (") != rest.npos) return rest;
  }
  return {};
}

class LlamaTextReader final : public DumpReader {
 public:
  Tensor read(const DumpTensor& tensor) const override {
    Tensor result(tensor.dtype, tensor.shape);  // of the token ids, the only unabridged ones
    std::copy(tokens.begin(), tokens.end(), result.data<int32_t>());
    return result;
  }
  PrintedValues read_printed(const DumpTensor& tensor) const override { return values[tensor.id]; }

  std::vector<PrintedValues> values;
  std::vector<int32_t> tokens;
};

class LlamaTextParser {
 public:
  LlamaTextParser(std::string_view text, LlamaTextReader& out, DumpContent& content)
      : text_(text), budget_(text.size()), out_(out), content_(content) {}

  void parse() {
    while (at_ < text_.size()) {
      const size_t begin = at_;
      const std::string_view line = take_line();
      const std::string_view node = node_text(line);
      if (!node.empty()) {
        close_node();
        open_node(trimmed(node), begin);
      } else if (in_node_ && trimmed(line) == "[") {
        parse_block(begin);
      } else if (in_node_ && trimmed(line).starts_with(kSum)) {
        parse_sum(trimmed(line));
      } else if (const size_t found = line.find(kTokenCount); found != line.npos) {
        parse_tokens(line.substr(found + kTokenCount.size()));
      }
    }
    close_node();
  }

 private:
  std::string_view take_line() {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = std::min(end + 1, text_.size());
    return line;
  }
  DumpTensor& node() { return content_.tensors.back(); }

  // "Qcur-0 = (f32)    MUL_MAT(…}) = {64, 5, 1, 1}"
  void open_node(std::string_view text, size_t begin) {
    const size_t type_at = text.find(" = (");
    const size_t type_end = text.find(')', type_at);
    const size_t dims_at = text.rfind("}) = {");
    const size_t arguments = type_end == text.npos ? text.npos : text.find('(', type_end);
    Shape shape;
    const bool right = type_end != text.npos && dims_at != text.npos && arguments < dims_at &&
                       text.ends_with('}') &&
                       parse_dims(text.substr(dims_at + 6, text.size() - dims_at - 7), shape);
    if (!right) {
      throw bad_input("node", "NAME = (TYPE) OP(…}) = {four dimensions}", quote(text, 160))
          .in(line_of(text_, begin));
    }
    element_count(shape);
    budget_.charge(sizeof(DumpTensor) + 2 * text.size() + 512, "nodes");
    in_node_ = true;
    blocks_ = 0;
    DumpTensor& tensor = content_.tensors.emplace_back();
    tensor.name = trimmed(text.substr(0, type_at));
    tensor.op = trimmed(text.substr(type_end + 1, arguments - type_end - 1));
    tensor.operands = parse_operands(text.substr(arguments + 1, dims_at + 1 - arguments - 1));
    tensor.shape = std::move(shape);
    tensor.printed = true;
    tensor.id = out_.values.size();
    type_ = text.substr(type_at + 4, type_end - type_at - 4);
    out_.values.emplace_back();
  }

  void parse_block(size_t begin) {
    const Shape& shape = node().shape;
    if (blocks_ == shape[0]) {
      throw bad_input("printed values", std::to_string(shape[0]) + " blocks", "one more")
          .in(quote(node().name))
          .in(line_of(text_, begin));
    }
    const auto inner = std::span(shape).subspan(1);
    PrintedArrayParser parser(text_, begin, budget_);
    with_context(quote(node().name),
                 [&] { parser.parse(inner, blocks_ * element_count(inner), out_.values.back()); });
    ++blocks_;
    at_ = parser.offset();
    take_line();
  }

  void parse_sum(std::string_view line) {
    double sum = 0;
    line.remove_prefix(kSum.size());
    // Anything but a number is no sum: "-nan(ind)" of Windows is one all the same.
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), sum);
    if (error != std::errc() || (end != line.data() + line.size() && *end != '(')) {
      throw bad_input("sum", "a number", quote(line)).in(quote(node().name));
    }
    node().sum = sum;
  }

  // What was printed of the node is whole; a type without values is left out.
  void close_node() {
    if (!in_node_) return;
    in_node_ = false;
    DumpTensor& tensor = node();
    if (blocks_ != 0 && blocks_ != tensor.shape[0]) {
      throw bad_input("printed values", std::to_string(tensor.shape[0]) + " blocks",
                      std::to_string(blocks_) + ": the text is truncated")
          .in(quote(tensor.name));
    }
    const auto* const known = std::find_if(std::begin(kTypes), std::end(kTypes),
                                           [&](const GgmlType& t) { return t.name == type_; });
    if (known != std::end(kTypes)) {
      tensor.dtype = known->dtype;
      return;
    }
    content_.left_out.push_back(quote(tensor.name) + " has the type " + quote(type_) +
                                ", which is not printed");
    content_.tensors.pop_back();
    out_.values.pop_back();
  }

  // The count, then one line for each id, perhaps behind the time and level of a log.
  void parse_tokens(std::string_view count_text) {
    int64_t count = 0;
    if (!parse_int(trimmed(count_text), count) || count <= 0) return;
    std::vector<int32_t> tokens;
    while (static_cast<int64_t>(tokens.size()) < count && at_ < text_.size()) {
      const std::string_view line = trimmed(take_line());
      int64_t id = 0;
      const size_t space = line.find_last_of(" \t");
      if (!parse_int(space == line.npos ? line : line.substr(space + 1), id)) return;
      if (id < 0 || id > INT32_MAX) return;
      tokens.push_back(static_cast<int32_t>(id));
    }
    if (static_cast<int64_t>(tokens.size()) != count || !out_.tokens.empty()) return;
    close_node();
    out_.tokens = std::move(tokens);
    DumpTensor& tensor = content_.tensors.emplace_back();
    tensor.name = "inp_tokens";  // as llama.cpp calls the graph's leaf
    tensor.dtype = DType::kI32;
    tensor.shape = {count};
  }

  std::string_view text_;
  size_t at_ = 0;
  MemoryBudget budget_;
  LlamaTextReader& out_;
  DumpContent& content_;
  bool in_node_ = false;
  std::string_view type_;
  int64_t blocks_ = 0;  // of the node
};

}  // namespace

bool is_llama_text(std::string_view text) {
  return std::any_of(std::begin(kMarkers), std::end(kMarkers),
                     [&](std::string_view marker) { return text.find(marker) != text.npos; });
}

DumpContent open_llama_text(const DumpFile& file) {
  DumpContent content;
  content.format = DumpFormat::kLlamaText;
  auto reader = std::make_shared<LlamaTextReader>();
  LlamaTextParser(file.text(), *reader, content).parse();
  if (content.tensors.empty()) {
    throw bad_input("text of llama.cpp's eval-callback", "nodes with values", "none")
        .hint("run llama-eval-callback without a filter on its output");
  }
  content.reader = std::move(reader);
  return content;
}

}  // namespace mainstem
