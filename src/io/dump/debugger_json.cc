// The JSON of transformers' model_addition_debugger_context (model_debugging_utils.py, 5.24): a
// tree of calls {module_path, inputs, outputs, children}, where a tensor is an object of shape,
// dtype and value. The value is the path of a safetensors file with the one tensor "data", or, with
// use_repr, the lines that Python prints for it.

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "io/dump/dump_reader.h"
#include "io/dump/printed_array.h"
#include "io/json.h"
#include "io/text.h"
#include "mainstem/error.h"
#include "mainstem/safetensors.h"

namespace mainstem {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxRank = 64;

struct NamedType {
  std::string_view name;
  DType dtype;
};
constexpr NamedType kTypes[] = {
    {"torch.float32", DType::kF32},        {"torch.float64", DType::kF64},
    {"torch.float16", DType::kF16},        {"torch.bfloat16", DType::kBF16},
    {"torch.int64", DType::kI64},          {"torch.int32", DType::kI32},
    {"torch.int16", DType::kI16},          {"torch.int8", DType::kI8},
    {"torch.uint8", DType::kU8},           {"torch.bool", DType::kBool},
    {"torch.uint16", DType::kU16},         {"torch.uint32", DType::kU32},
    {"torch.uint64", DType::kU64},         {"torch.float8_e4m3fn", DType::kF8E4M3},
    {"torch.float8_e5m2", DType::kF8E5M2},
};

// "torch.Size([1, 4, 8])"
Shape parse_size(std::string_view text) {
  constexpr std::string_view kBegin = "torch.Size([", kEnd = "])";
  const std::string shown = quote(text);
  const auto fail = [&] { throw bad_input("shape", "torch.Size([…])", shown); };
  if (!text.starts_with(kBegin) || !text.ends_with(kEnd)) fail();
  text = text.substr(kBegin.size(), text.size() - kBegin.size() - kEnd.size());
  Shape shape;
  while (!text.empty()) {
    if (shape.size() == kMaxRank) fail();
    int64_t dim = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc() || dim < 0) fail();
    shape.push_back(dim);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.starts_with(", ")) {
      text.remove_prefix(2);
    } else if (!text.empty()) {
      fail();
    }
  }
  element_count(shape);
  return shape;
}

// One tensor's file, "./NAME.safetensors", beside the JSON.
SafetensorsFile open_value_file(const std::filesystem::path& folder, std::string_view reference) {
  std::string_view file_name = reference;
  if (file_name.starts_with("./")) file_name.remove_prefix(2);
  if (file_name.empty() || file_name.find_first_of("/\\") != file_name.npos || file_name == "..") {
    throw bad_input("value", "a file beside the JSON", quote(reference));
  }
  if (folder.empty()) throw bad_input("value", "printed values", "a file");
  return SafetensorsFile::open(folder / file_name);
}

const StoredTensor& data_of(const SafetensorsFile& file, const DumpTensor& tensor) {
  const StoredTensor* stored = file.find("data");
  if (stored == nullptr || file.tensors().size() != 1) {
    throw bad_input("tensors", "one, called \"data\"", std::to_string(file.tensors().size()))
        .in(file.path());
  }
  if (!stored->dtype || *stored->dtype != tensor.dtype || stored->shape != tensor.shape) {
    throw bad_input(
        "tensor",
        std::string(name(tensor.dtype)) + " " + to_string(tensor.shape) + ", as the JSON says",
        std::string(stored->dtype_name) + " " + to_string(stored->shape))
        .in(file.path());
  }
  return *stored;
}

class DebuggerReader final : public DumpReader {
 public:
  Tensor read(const DumpTensor& tensor) const override {
    const SafetensorsFile file = open_value_file(folder, files[tensor.id]);
    const StoredTensor& stored = data_of(file, tensor);
    Tensor values(tensor.dtype, tensor.shape);
    std::copy_n(stored.data, stored.bytes, values.data<std::byte>());
    return values;
  }
  PrintedValues read_printed(const DumpTensor& tensor) const override { return printed[tensor.id]; }

  std::filesystem::path folder;
  std::vector<std::string> files;
  std::vector<PrintedValues> printed;
};

class DebuggerTree {
 public:
  DebuggerTree(size_t text_bytes, DebuggerReader& out, DumpContent& content)
      : budget_(text_bytes), out_(out), content_(content) {}

  void visit_call(const Json& call) {
    const auto path = call.find("module_path");
    if (!call.is_object() || path == call.end() || !path->is_string()) {
      throw bad_input("call", "an object with a module_path", call.type_name());
    }
    const std::string name = path->get<std::string>();
    for (const char* side : {"inputs", "outputs"}) {
      if (const auto value = call.find(side); value != call.end()) {
        visit_value(*value, name + "." + side);
      }
      // The outputs of a module come after what happens inside it.
      if (side == std::string_view("inputs")) visit_children(call);
    }
  }

  // A module that is called again writes over its files: only the last call has its values.
  void drop_overwritten() {
    std::map<std::string_view, size_t> last;
    auto& tensors = content_.tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].printed) last[out_.files[tensors[i].id]] = i;
    }
    std::vector<DumpTensor> kept;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].printed && last[out_.files[tensors[i].id]] != i) {
        content_.left_out.push_back(quote(tensors[i].name) +
                                    " was written over by a later call of the same module");
      } else {
        kept.push_back(std::move(tensors[i]));
      }
    }
    tensors = std::move(kept);
  }

  bool met_summary() const { return met_summary_; }

 private:
  void visit_children(const Json& call) {
    const auto children = call.find("children");
    if (children == call.end()) return;
    if (!children->is_array()) throw bad_input("children", "a list of calls", "another value");
    for (const Json& child : *children) visit_call(child);
  }

  void visit_value(const Json& value, const std::string& name) {
    if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) {
        if (value[i].is_structured()) visit_value(value[i], below(name, std::to_string(i)));
      }
    } else if (is_tensor(value)) {
      with_context(quote(name), [&] { add_tensor(value, name); });
    } else if (value.is_object()) {
      for (const auto& [key, item] : value.items()) {
        if (item.is_structured()) visit_value(item, below(name, key));
      }
    }
  }

  static std::string below(std::string name, const std::string& part) {
    name += '.';
    name += part;
    return name;
  }

  static bool is_tensor(const Json& value) {
    const auto shape = value.is_object() ? value.find("shape") : value.end();
    const auto dtype = value.is_object() ? value.find("dtype") : value.end();
    return shape != value.end() && dtype != value.end() && shape->is_string() && dtype->is_string();
  }

  void add_tensor(const Json& json, const std::string& name) {
    const auto value = json.find("value");
    if (value == json.end()) {
      met_summary_ = true;
      return;
    }
    budget_.charge(2 * sizeof(DumpTensor) + 2 * name.size() + 256, "tensors");
    const std::string dtype = json["dtype"].get<std::string>();
    const auto* const known = std::find_if(std::begin(kTypes), std::end(kTypes),
                                           [&](const NamedType& t) { return t.name == dtype; });
    if (known == std::end(kTypes)) {
      content_.left_out.push_back(quote(name) + " has the type " + quote(dtype) +
                                  ", which is not read");
      return;
    }
    DumpTensor tensor;
    tensor.name = name;
    tensor.dtype = known->dtype;
    tensor.shape = parse_size(json["shape"].get<std::string>());
    if (value->is_string()) {
      tensor.id = out_.files.size();
      out_.files.push_back(value->get<std::string>());
      data_of(open_value_file(out_.folder, out_.files.back()), tensor);
    } else {
      tensor.printed = true;
      tensor.id = out_.printed.size();
      out_.printed.push_back(parse_printed(*value, tensor.shape));
    }
    content_.tensors.push_back(std::move(tensor));
  }

  // "tensor([[1.0000e+00, ..., 2.0000e+00]], dtype=torch.float16)", line by line.
  PrintedValues parse_printed(const Json& lines, const Shape& shape) {
    constexpr std::string_view kBegin = "tensor(";
    std::string text;
    for (const Json& line : lines) {
      if (!lines.is_array() || !line.is_string()) {
        throw bad_input("value", "a file or a list of lines", "another value");
      }
      text += line.get_ref<const std::string&>() + "\n";
    }
    const size_t begin = text.find(kBegin);
    if (begin == text.npos) throw bad_input("value", "tensor(…)", quote(text));
    PrintedValues values;
    if (element_count(shape) == 0) return values;  // "tensor([], size=(0, 8))"
    PrintedArrayParser parser(text, begin + kBegin.size(), budget_);
    parser.parse(shape, 0, values);
    const std::string_view rest = std::string_view(text).substr(parser.offset());
    const size_t next = rest.find_first_not_of(" \n");
    if (next == rest.npos || (rest[next] != ')' && rest[next] != ',')) {
      throw bad_input("printed values", "')' after them", quote(rest));
    }
    return values;
  }

  MemoryBudget budget_;
  DebuggerReader& out_;
  DumpContent& content_;
  bool met_summary_ = false;
};

}  // namespace

DumpContent open_debugger_json(const DumpFile& file) {
  const Json root = parse_json(file.text());
  if (!root.is_object() || !root.contains("module_path")) {
    throw bad_input("JSON", "the tree of transformers' model debugger (module_path, children)",
                    "other keys");
  }
  DumpContent content;
  content.format = DumpFormat::kDebuggerJson;
  auto reader = std::make_shared<DebuggerReader>();
  reader->folder = file.folder;
  DebuggerTree tree(file.bytes.size(), *reader, content);
  tree.visit_call(root);
  tree.drop_overwritten();
  if (content.tensors.empty() && tree.met_summary()) {
    throw bad_input("model debugger's JSON", "values", "a summary without any")
        .hint("give the file …_FULL_TENSORS.json, which lies beside it");
  }
  content.reader = std::move(reader);
  return content;
}

}  // namespace mainstem
