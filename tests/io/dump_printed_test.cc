// Tensors that other programs printed (tests/generators/make_dumps.py).

#include <map>
#include <string>
#include <vector>

#include "io/dump_values.h"

namespace mainstem {
namespace {

using test::dump_path;
using test::expect_bad_input;
using test::expected_dumps;

Dump parse(const std::string& text, const std::string& name = "x.txt") {
  return Dump::from_bytes(test::as_bytes(text), name);
}

size_t count_of(const Dump& dump) { return dump.tensors().size(); }

// 1 to 6, or the first and last three.
int64_t shown(int64_t dim) { return std::min<int64_t>(dim, 6); }

void expect_llama(const std::string& name) {
  SCOPED_TRACE(name);
  const Dump dump = Dump::open(dump_path(name));
  EXPECT_EQ(dump.format(), DumpFormat::kLlamaText);
  const auto& expected = expected_dumps()["llama"];
  ASSERT_EQ(dump.tensors().size(), expected.size() + 1);
  const DumpTensor& tokens = dump.tensors()[0];
  EXPECT_EQ(tokens.name, "inp_tokens");
  EXPECT_EQ(to_f32(dump.read(tokens).view()), (std::vector<float>{1, 44, 3, 9, 7}));
  std::map<std::pair<std::string, std::string>, int> seen;
  for (size_t i = 0; i < expected.size(); ++i) {
    const DumpTensor& tensor = dump.tensors()[i + 1];
    const auto& node = expected[i];
    SCOPED_TRACE(tensor.name);
    EXPECT_EQ(tensor.name, node["name"].get<std::string>());
    EXPECT_EQ(mainstem::name(tensor.dtype), node["type"].get<std::string>());
    EXPECT_EQ(tensor.op, node["op"].get<std::string>());
    EXPECT_EQ(tensor.shape, node["shape"].get<Shape>());
    EXPECT_EQ(tensor.occurrence, (seen[{tensor.name, tensor.op}]++));
    ASSERT_EQ(tensor.operands.size(), node["operands"].size());
    for (size_t j = 0; j < tensor.operands.size(); ++j) {
      EXPECT_EQ(tensor.operands[j].name, node["operands"][j].get<std::string>());
    }
    std::vector<double> whole;
    for (const auto& value : node["values"]) whole.push_back(std::stod(value.get<std::string>()));
    EXPECT_TRUE(tensor.printed);
    const PrintedValues printed = dump.read_printed(tensor);
    EXPECT_EQ(
        static_cast<int64_t>(printed.values.size()),
        tensor.shape[0] * shown(tensor.shape[1]) * shown(tensor.shape[2]) * shown(tensor.shape[3]));
    test::expect_printed(printed, whole);
    EXPECT_FLOAT_EQ(printed.errors[0], 0.5e-4F);
    ASSERT_TRUE(tensor.sum.has_value());
    if (std::isfinite(*tensor.sum)) {
      EXPECT_NEAR(*tensor.sum, std::stod(node["sum"].get<std::string>()), 0.6e-6);
    }
  }
  ASSERT_EQ(dump.left_out().size(), 1u);
  EXPECT_THAT(dump.left_out()[0], testing::HasSubstr("\"q8_0\""));
}

TEST(DumpLlamaText, Newer) { expect_llama("llama_new.txt"); }
TEST(DumpLlamaText, Older) { expect_llama("llama_old.txt"); }

TEST(DumpLlamaText, NodesOfOneNameAreToldApart) {
  const Dump dump = Dump::open(dump_path("llama_new.txt"));
  std::vector<std::string> nodes;
  for (const DumpTensor& tensor : dump.tensors()) {
    if (tensor.name == "Qcur-0") {
      nodes.push_back(tensor.op + std::to_string(tensor.occurrence));
    }
  }
  EXPECT_EQ(nodes, (std::vector<std::string>{"MUL_MAT0", "ROPE0", "ROPE1"}));
  EXPECT_EQ(dump.find("Qcur-0")->op, "MUL_MAT");
}

TEST(DumpLlamaText, WindowsLineEndsAndMixedLogs) {
  std::string text;
  for (const char c : test::read_file(dump_path("llama_new.txt"))) {
    text += c == '\n' ? "\r\n" : std::string(1, c);
  }
  EXPECT_EQ(count_of(parse(text)), count_of(Dump::open(dump_path("llama_new.txt"))));
}

constexpr const char* kNode = "ggml_debug: a = (f32) ADD(b{2, 2, 1, 1}, }) = {2, 2, 1, 1}\n";

// The first version printed no sum and three values at most; its README is all there is of it.
TEST(DumpLlamaText, FirstValuesOnly) {
  const Dump dump = parse(
      "ggml_debug: inp_embd = (f32) GET_ROWS(token_embd.weight{2560, 51200, 1, 1}, "
      "inp_tokens{1, 1, 1, 1}}) = {2560, 1, 1, 1} \n[\n[\n[ -0.0181, 0.0272, 0.0272, "
      "...],\n],\n]\n");
  const PrintedValues printed = dump.read_printed(dump.tensors().at(0));
  EXPECT_EQ(printed.indices, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_FALSE(dump.tensors()[0].sum.has_value());
}

TEST(DumpLlamaText, NodesWithoutValues) {
  const Dump dump = parse(std::string(kNode) + "sum = 3.5\n" + kNode);
  ASSERT_EQ(dump.tensors().size(), 2u);
  EXPECT_TRUE(dump.read_printed(dump.tensors()[0]).values.empty());
  EXPECT_EQ(dump.tensors()[0].sum, 3.5);
}

TEST(DumpLlamaText, WrongCountsAndGarbage) {
  const auto block = [](const std::string& rows) { return kNode + ("[\n[\n" + rows + "],\n]\n"); };
  EXPECT_NO_THROW(parse(block("[1.0, 2.0],\n[3.0, 4.0],\n")));
  expect_bad_input({"2 items", "got 1", "\"a\"", "line 4", "x.txt"},
                   [&] { parse(block("[1.0],\n[3.0, 4.0],\n")); });
  expect_bad_input({"at most 2 items"}, [&] { parse(block("[1.0, 2.0, 3.0],\n[3.0, 4.0],\n")); });
  expect_bad_input({"2 items", "got 1"}, [&] { parse(block("[1.0, 2.0],\n")); });
  expect_bad_input({"fewer than 2"}, [&] { parse(block("[1.0, ..., 2.0],\n[3.0, 4.0],\n")); });
  expect_bad_input({"one \"...\""}, [&] { parse(block("[..., ..., 2.0],\n")); });
  expect_bad_input({"a number", "hello"}, [&] { parse(block("[1.0, hello],\n")); });
  expect_bad_input({"a number"}, [&] { parse(block("[1.0, 1.2.3],\n")); });
  expect_bad_input({"1 blocks", "one more", "\"a\""}, [&] {
    parse(block("[1.0, 2.0],\n[3.0, 4.0],\n") + "[\n[\n[1.0, 2.0],\n[3.0, 4.0],\n],\n]\n");
  });
  expect_bad_input({"sum", "a number"}, [] { parse(std::string(kNode) + "sum = x\n"); });
  for (const char* dims : {"{2, 2, 1}", "{2, 2, 1, 1, 1}", "{2, x, 1, 1}", "{-2, 2, 1, 1}", "{",
                           "{4611686018427387904, 4, 1, 1}"}) {
    expect_bad_input({"x.txt"},
                     [&] { parse(std::string("ggml_debug: a = (f32) ADD(}) = ") + dims + "\n"); });
  }
  expect_bad_input({"nodes with values", "none"},
                   [] { parse("ggml_debug: nothing\ncommon_debug_cb_eval: pass 1\n"); });
}

TEST(DumpLlamaText, EveryTruncationIsAnErrorOrWhole) {
  const std::string content = test::read_file(dump_path("llama_new.txt"));
  const size_t second = content.find("common_debug_cb_eval", content.find("common_debug_cb") + 1);
  for (size_t size = 0; size < second; ++size) {
    try {
      const Dump dump = parse(content.substr(0, size));
      // The tokens, the node's line alone, or all of its block.
      if (dump.tensors().size() < 2) continue;
      const size_t known = dump.read_printed(dump.tensors()[1]).values.size();
      EXPECT_TRUE(known == 0 || known == 30) << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    }
  }
}

TEST(DumpDebugger, FolderWithFiles) {
  const Dump dump = Dump::open(dump_path("debugger"));
  EXPECT_EQ(dump.format(), DumpFormat::kDebuggerJson);
  const auto& expected = expected_dumps()["debugger"];
  for (const auto& [name, tensor] : expected.items()) {
    ASSERT_NE(dump.find(name), nullptr) << name;
    test::expect_tensor(dump, *dump.find(name), tensor);
  }
  // In the order of the computation.
  EXPECT_EQ(dump.tensors().front().name, "Twice.inputs.args.0");
  EXPECT_EQ(dump.tensors().back().name, "Twice.wide.outputs");
  // Five tensors of the module's first call.
  ASSERT_EQ(dump.left_out().size(), 5u);
  EXPECT_THAT(dump.left_out()[0], testing::HasSubstr("\"Twice.inner.inputs.args.0\" was written"));
  // The file alone means the same.
  EXPECT_EQ(count_of(Dump::open(dump_path("debugger/Twice_debug_tree_FULL_TENSORS.json"))),
            dump.tensors().size());
}

TEST(DumpDebugger, PrintedTensors) {
  const Dump dump = Dump::open(dump_path("debugger_printed"));
  const auto& expected = expected_dumps()["debugger"];
  std::map<std::string, const DumpTensor*> last;
  for (const DumpTensor& tensor : dump.tensors()) last[tensor.name] = &tensor;
  for (const auto& [name, whole] : expected.items()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(last.contains(name));
    const DumpTensor& tensor = *last[name];
    EXPECT_EQ(tensor.occurrence, name.starts_with("Twice.inner") ? 1 : 0);
    EXPECT_EQ(tensor.shape, whole["shape"].get<Shape>());
    EXPECT_EQ(test::torch_name(tensor.dtype), whole["dtype"].get<std::string>());
    const PrintedValues printed = dump.read_printed(tensor);
    test::expect_printed(printed, whole["values"].get<std::vector<double>>());
    const bool abridged = name == "Twice.wide.outputs";
    EXPECT_EQ(printed.values.size(), abridged ? 18u : whole["values"].size());
  }
  expect_bad_input({"a printed one", "Twice.wide.outputs"},
                   [&] { dump.read(*dump.find("Twice.wide.outputs")); });
}

TEST(DumpDebugger, ASummaryHasNoValues) {
  expect_bad_input({"a summary", "FULL_TENSORS"},
                   [] { Dump::open(dump_path("debugger/Twice_debug_tree_SUMMARY.json")); });
}

std::string call_with(const std::string& value, const std::string& shape = "torch.Size([2])",
                      const std::string& dtype = "torch.float32") {
  return R"({"module_path":"M","outputs":{"shape":")" + shape + R"(","dtype":")" + dtype +
         R"(","value":)" + value + "}}";
}

TEST(DumpDebugger, HostileValues) {
  const auto read = [](const std::string& text) { return parse(text, "x.json"); };
  EXPECT_EQ(count_of(read(call_with(R"x(["tensor([1.0, 2.0], dtype=torch.float16)"])x"))), 1u);
  EXPECT_EQ(count_of(read(call_with(R"x(["tensor([], size=(0, 3))"])x", "torch.Size([0, 3])"))),
            1u);
  EXPECT_EQ(count_of(read(call_with(R"x(["tensor(1.0)"])x", "torch.Size([])"))), 1u);
  EXPECT_EQ(read(call_with("[]", "torch.Size([1])", "torch.complex64")).left_out().size(), 1u);
  expect_bad_input({"2 items", "got 1", "M.outputs", "x.json"},
                   [&] { read(call_with(R"x(["tensor([1.0])"])x")); });
  expect_bad_input({"')' after"}, [&] { read(call_with(R"x(["tensor([1.0, 2.0]]"])x")); });
  expect_bad_input({"tensor("}, [&] { read(call_with(R"x(["[1.0, 2.0]"])x")); });
  expect_bad_input({"a list of lines"}, [&] { read(call_with("7")); });
  expect_bad_input({"tensor("}, [&] { read(call_with("null")); });
  expect_bad_input({"printed values", "a file"}, [&] { read(call_with(R"("./a.safetensors")")); });
  for (const char* shape : {"[2]", "torch.Size([2", "torch.Size([-1])", "torch.Size([2,3])",
                            "torch.Size([4611686018427387904, 4])", "torch.Size([x])"}) {
    expect_bad_input({"x.json"}, [&] { read(call_with("[]", shape)); });
  }
  expect_bad_input({"other keys"}, [&] { read("{}"); });
  expect_bad_input({"module_path"},
                   [&] { read(R"({"module_path":"M","children":[{"inputs":{}}]})"); });
  expect_bad_input({"a list of calls"}, [&] { read(R"({"module_path":"M","children":{}})"); });
}

TEST(DumpDebugger, FilesOutsideTheFolderOrNotAsTheJsonSays) {
  const test::TempDir folder;
  const auto open = [&](const std::string& value) {
    test::write_file(folder / "M_debug_tree_FULL_TENSORS.json", call_with("\"" + value + "\""));
    Dump::open(folder.path());
  };
  const auto put = [&](const char* header) {
    test::write_file(folder / "a.safetensors", test::safetensors_with(header, 8));
  };
  put(R"({"data":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})");
  EXPECT_NO_THROW(open("./a.safetensors"));
  for (const char* outside :
       {"/etc/passwd", "../a.safetensors", "./b/a.safetensors", "", "./..", "..\\\\a"}) {
    expect_bad_input({"beside the JSON"}, [&] { open(outside); });
  }
  expect_bad_input({"b.safetensors"}, [&] { open("./b.safetensors"); });
  put(R"({"data":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})");
  expect_bad_input({"f32 [2], as the JSON says", "[1, 2]"}, [&] { open("./a.safetensors"); });
  put(R"({"other":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})");
  expect_bad_input({"called \"data\""}, [&] { open("./a.safetensors"); });
}

}  // namespace
}  // namespace mainstem
