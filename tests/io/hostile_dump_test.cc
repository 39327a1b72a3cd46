// Pickles that PyTorch never wrote. Nothing in them may run, hang, or take memory that the file
// does not account for.

#include <chrono>
#include <string>

#include "io/test_files.h"
#include "io/zip_builder.h"
#include "mainstem/dump.h"

namespace mainstem {
namespace {

using test::Bytes;
using test::expect_bad_input;
using test::ZipPart;

std::string text(const std::string& value) {
  return Bytes().raw("X").u32(static_cast<uint32_t>(value.size())).raw(value).str();
}
std::string integer(int64_t value) { return Bytes().raw("\x8a\x08").put(value).str(); }
std::string tuple(const std::vector<std::string>& items) {
  std::string result = "(";
  for (const std::string& item : items) result += item;
  return result + "t";
}
std::string ints(const std::vector<int64_t>& values) {
  std::vector<std::string> items;
  for (const int64_t value : values) items.push_back(integer(value));
  return tuple(items);
}
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string call(const std::string& callable, const std::string& arguments) {
  return callable + arguments + "R";
}

const std::string kV2 = global("torch._utils", "_rebuild_tensor_v2");
const std::string kFloats = global("torch", "FloatStorage");
const std::string kNoHooks = "}";

std::string storage_of(const std::string& type = kFloats, int64_t count = 6,
                       const std::string& key = "0") {
  return tuple({text("storage"), type, text(key), text("cpu"), integer(count)}) + "Q";
}

struct TensorParts {
  std::string storage = storage_of();
  int64_t offset = 0;
  std::vector<int64_t> size = {2, 3}, stride = {3, 1};
};

std::string tensor(const TensorParts& parts = {}) {
  return call(kV2, tuple({parts.storage, integer(parts.offset), ints(parts.size),
                          ints(parts.stride), "\x89", kNoHooks}));
}

std::string dict_of(const std::string& value) { return "}" + text("a") + value + "s"; }

/// A pickle in an archive with one storage of 24 bytes.
std::string archive(const std::string& body, std::vector<ZipPart> parts = {}) {
  if (parts.empty()) parts.push_back({.name = "x/data/0", .content = std::string(24, '\1')});
  parts.insert(parts.begin(), {.name = "x/data.pkl", .content = "\x80\x02" + body + "."});
  return test::zip_archive(parts);
}

Dump open(const std::string& content) { return Dump::from_bytes(test::as_bytes(content), "x.pt"); }

void expect_refused(const std::string& body, std::initializer_list<std::string_view> parts) {
  const std::string content = archive(body);
  expect_bad_input(parts, [&] { open(content); });
}

TEST(HostileDump, WhatTheBuilderMakesIsRead) {
  const std::string content = archive(dict_of(tensor()));
  const Dump dump = open(content);
  ASSERT_EQ(dump.tensors().size(), 1u);
  EXPECT_EQ(dump.tensors()[0].shape, (Shape{2, 3}));
  EXPECT_EQ(dump.read(dump.tensors()[0]).count(), 6);
}

TEST(HostileDump, CodeIsNamedAndNeverRuns) {
  const test::TempDir folder;
  const std::string witness = (folder / "ran").string();
  for (const char* module : {"os", "posix", "nt", "subprocess", "builtins", "torch.hub"}) {
    for (const char* name : {"system", "eval", "load"}) {
      expect_refused(call(global(module, name), tuple({text("touch " + witness)})),
                     {"pickle global", std::string(module) + "." + name, "x/data.pkl", "x.pt"});
    }
  }
  // By the newer opcode, as an object of a class, by extension and by persistent id.
  expect_refused(text("os") + text("system") + "\x93", {"os.system"});
  expect_refused(call(global("transformers.modeling_outputs", "ModelOutput"), ")"),
                 {"ModelOutput", "dict(output)"});
  for (const char* opcode : {"i", "o", "\x82", "\x83", "\x84", "\x92", "P", "\x97", "\x98", "z"}) {
    expect_refused(std::string(")(") + opcode + "os\nsystem\n)", {"pickle opcode"});
  }
  expect_refused(text("nothing") + ")R", {"pickle call", "a text"});
  expect_refused(tuple({text("module"), kFloats}) + "Q", {"persistent id"});
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(HostileDump, TheOlderFormLoadsNothingElseEither) {
  const auto refuse = [](const std::string& content, std::initializer_list<std::string_view> p) {
    expect_bad_input(p, [&] { open(content); });
  };
  refuse("\x80\x02" + call(global("os", "system"), ")") + ".", {"os.system", "pickle 1"});
  refuse("\x80\x04}.", {"magic number", "a dict", "numpy.savez"});
  const std::string magic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  refuse(magic + "\x80\x02M\x01\x02.", {"1001"});
  const std::string head = magic + "\x80\x02M\xe9\x03.";
  refuse(head + "\x80\x02}" + text("little_endian") + "\x89s.", {"big-endian"});
  const std::string facts = head + "\x80\x02}.";
  const std::string object = facts + "\x80\x02" + dict_of(tensor()) + ".";
  refuse(facts + "\x80\x02" + call(global("os", "system"), ")") + ".", {"os.system", "pickle 4"});
  refuse(object + "\x80\x02].", {"storage keys", "none for \"0\""});
  refuse(object + "\x80\x02](" + text("1") + "e.", {"storage keys", "\"1\""});
  const std::string keys = object + "\x80\x02](" + text("0") + "e.";
  refuse(keys + Bytes().u64(7).raw(std::string(28, 'x')).str(), {"6 elements", "7"});
  refuse(keys + Bytes().u64(6).raw(std::string(23, 'x')).str(), {"24 bytes"});
  refuse(keys + Bytes().u64(6).raw(std::string(25, 'x')).str(), {"1 more bytes"});
  const std::string good = keys + Bytes().u64(6).raw(std::string(24, 'x')).str();
  EXPECT_EQ(open(good).format(), DumpFormat::kTorch);
}

TEST(HostileDump, StorageAndExtent) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  expect_refused(dict_of(tensor({.size = {2, 4}})), {"tensor extent", "[2, 4]"});
  expect_refused(dict_of(tensor({.offset = 1})), {"tensor extent"});
  expect_refused(dict_of(tensor({.offset = -1})), {"tensor offset"});
  expect_refused(dict_of(tensor({.size = {-2, 3}})), {"tensor size"});
  expect_refused(dict_of(tensor({.stride = {3, -1}})), {"tensor stride"});
  expect_refused(dict_of(tensor({.stride = {3}})), {"tensor stride", "2 of them"});
  expect_refused(dict_of(tensor({.size = {kHuge, 4}})), {"x.pt"});
  expect_refused(dict_of(tensor({.size = {3, 3}, .stride = {kHuge, kHuge}})), {"x.pt"});
  expect_refused(dict_of(tensor({.offset = kHuge, .stride = {kHuge, 1}})), {"x.pt"});
  expect_refused(dict_of(tensor({.size = std::vector<int64_t>(65, 1)})), {"64 dimensions"});
  // Elements that share memory may not cost what the file does not hold.
  expect_refused(dict_of(tensor({.size = {int64_t{1} << 40}, .stride = {0}})),
                 {"expanded tensor", "4398046511104"});
  expect_refused(dict_of(tensor({.storage = storage_of(kFloats, 7)})), {"28 bytes", "24"});
  expect_refused(dict_of(tensor({.storage = storage_of(kFloats, kHuge)})), {"x.pt"});
  expect_refused(dict_of(tensor({.storage = storage_of(kFloats, 6, "1")})), {"x/data/1", "none"});
  expect_refused(dict_of(tensor({.storage = storage_of(global("torch", "Size"))})),
                 {"storage class"});
  expect_refused(dict_of(tensor({.storage = "K\1"})), {"a storage"});
  expect_refused(
      "(" + tensor() + tensor({.storage = storage_of(global("torch", "IntStorage"))}) + "t",
      {"one type and size"});
  expect_refused(
      dict_of(tensor({.storage = storage_of(global("torch.storage", "UntypedStorage"))})),
      {"a typed storage"});
  const std::string flipped = call(kV2, tuple({storage_of(), integer(0), ints({6}), ints({1}),
                                               "\x89", kNoHooks, "}" + text("neg") + "\x88s"}));
  expect_refused(flipped, {"metadata"});
  const std::string packed =
      archive(dict_of(tensor()),
              {{.name = "x/data/0", .content = std::string(24, '\1'), .compress = true}});
  expect_bad_input({"a compressed one"}, [&] { open(packed); });
}

TEST(HostileDump, OpcodesWithoutWhatTheyNeed) {
  for (const char* body : {"",
                           "0",
                           "1",
                           "2",
                           "s",
                           "u",
                           "a",
                           "e",
                           "t",
                           "\x85",
                           "\x86",
                           "\x87",
                           "R",
                           "b",
                           "Q",
                           "\x93",
                           "q\1",
                           "\x94",
                           "h\1",
                           "j\1\1\1\1",
                           "(",
                           "NN",
                           "(0u",
                           "]}a0s",
                           "}NNNu",
                           "}(Nu",
                           "NNa",
                           "K",
                           "X\xff\xff\xff\xff",
                           "Ix\n",
                           "L9x",
                           "I99999999999999999999\n",
                           "\x80\x06",
                           "Nb",
                           "G1234",
                           "\x8d\xff"}) {
    expect_refused(body, {"x/data.pkl"});
  }
  const std::string longer = archive("N.N");
  expect_bad_input({"an end after its value"}, [&] { open(longer); });
}

TEST(HostileDump, ContainersThatHoldThemselvesOrExplode) {
  expect_refused("]q\1h\1a", {"holds itself"});
  expect_refused("}q\1" + text("a") + "h\1s", {"holds itself"});
  expect_refused(std::string(100, ']') + std::string(99, 'a'), {"a depth of at most 64"});
  // 2^50 tensors: each list holds the one before it twice.
  std::string bomb = "](" + tensor() + "eq\1";
  for (int i = 0; i < 50; ++i) bomb += "](h\1h\1eq\1";
  std::string lists = archive("(" + bomb + "t");
  const auto begin = std::chrono::steady_clock::now();
  expect_bad_input({"x.pt"}, [&] { open(lists); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(HostileDump, NamesMustBeText) {
  expect_refused("}" + text("\xff") + tensor() + "s", {"valid UTF-8"});
  const std::string content = archive("}(N" + tensor() + "K\7" + tensor() + "u");
  const Dump dump = open(content);
  ASSERT_EQ(dump.tensors().size(), 1u);
  EXPECT_EQ(dump.tensors()[0].name, "7");
  ASSERT_EQ(dump.left_out().size(), 1u);
  EXPECT_THAT(dump.left_out()[0], testing::HasSubstr("None"));
}

}  // namespace
}  // namespace mainstem
