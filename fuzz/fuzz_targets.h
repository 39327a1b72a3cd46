#pragma once

// What each fuzz target does with its input; tests/io/fuzz_corpus_test.cc runs the kept corpora
// through the same functions. An Error of kind bad input is the expected answer to a bad file;
// anything else ends the program.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "io/dump/dump_reader.h"
#include "io/dump/torch_walk.h"
#include "io/json.h"
#include "mainstem/dump.h"
#include "mainstem/error.h"
#include "mainstem/gguf.h"
#include "mainstem/npz.h"
#include "mainstem/safetensors.h"

namespace mainstem::fuzz {

template <typename Body>
void expect_answer(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput) std::abort();
  }
}

/// Touches every byte that a view claims.
inline void touch(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const std::byte b : bytes) sum += std::to_integer<unsigned>(b);
  volatile unsigned sink = sum;
  (void)sink;
}

inline void touch(const StoredTensor& tensor) {
  touch({tensor.data, static_cast<size_t>(tensor.bytes)});
  if (!tensor.readable()) return;
  const TensorView view = tensor.view();
  if (static_cast<uint64_t>(view.bytes()) != tensor.bytes) std::abort();
  (void)first_non_finite(view);
}

inline void run_safetensors(std::span<const std::byte> input) {
  for (const bool allow_trailing : {false, true}) {
    expect_answer([&] {
      SafetensorsOptions options;
      options.allow_trailing = allow_trailing;
      const auto file = SafetensorsFile::from_bytes(input, "input", options);
      for (const StoredTensor& tensor : file.tensors()) {
        touch(tensor);
        if (file.find(tensor.name) != &tensor) std::abort();
      }
    });
  }
}

inline void run_gguf(std::span<const std::byte> input) {
  for (const bool allow_trailing : {false, true}) {
    expect_answer([&] {
      GgufOptions options;
      options.allow_trailing = allow_trailing;
      const auto file = GgufFile::from_bytes(input, "input", options);
      for (const StoredTensor& tensor : file.tensors()) {
        touch(tensor);
        if (file.find(tensor.name) != &tensor) std::abort();
      }
      for (const GgufEntry& entry : file.metadata()) {
        touch(entry.bytes);
        if (file.entry(entry.key) != &entry) std::abort();
        expect_answer([&] { (void)file.get_int(entry.key); });
        expect_answer([&] { (void)file.get_float(entry.key); });
        expect_answer([&] { (void)file.get_bool(entry.key); });
        expect_answer([&] { (void)file.get_string(entry.key); });
        expect_answer([&] { (void)file.get_strings(entry.key); });
        expect_answer([&] { (void)file.get_ints(entry.key); });
        expect_answer([&] { (void)file.get_i32s(entry.key); });
        expect_answer([&] { (void)file.get_floats(entry.key); });
        expect_answer([&] { (void)file.get_bools(entry.key); });
      }
    });
  }
}

/// The input is an archive, and taken as an array too.
inline void run_npz(std::span<const std::byte> input) {
  expect_answer([&] {
    NpzOptions options;
    options.max_inflated_bytes = uint64_t{16} << 20;
    const auto file = NpzFile::from_bytes(input, "input", options);
    for (const auto& name : file.names()) {
      expect_answer([&] { (void)first_non_finite(file.read(name).view()); });
    }
  });
  expect_answer([&] { (void)first_non_finite(parse_npy(input).view()); });
}

/// Every value of the first tensors.
inline void touch(const Dump& dump) {
  size_t left = 64;
  for (const DumpTensor& tensor : dump.tensors()) {
    if (left-- == 0) break;
    if (dump.find(tensor.name)->name != tensor.name) std::abort();
    expect_answer([&] {
      if (!tensor.printed) {
        const Tensor values = dump.read(tensor);
        if (values.shape() != tensor.shape || values.dtype() != tensor.dtype) std::abort();
        (void)first_non_finite(values.view());
        return;
      }
      const int64_t count = element_count(tensor.shape);
      int64_t before = -1;
      for (const int64_t index : dump.read_printed(tensor).indices) {
        if (index <= before || index >= count) std::abort();
        before = index;
      }
    });
  }
}

/// A whole dump of any format.
inline void run_dump(std::span<const std::byte> input) {
  expect_answer([&] {
    DumpOptions options;
    options.max_inflated_bytes = uint64_t{16} << 20;
    touch(Dump::from_bytes(input, "input", options));
  });
}

/// The pickle of a torch.save alone, whose storages are not looked for.
inline void run_pickle(std::span<const std::byte> input) {
  expect_answer([&] {
    MemoryBudget budget(input.size());
    TorchWorld world;
    Pickle pickle(input, world, budget);
    const PickleRef root = pickle.load();
    DumpContent content;
    const auto leaves = collect_tensors(pickle, world, root, "input", budget, content);
    if (leaves.size() != content.tensors.size()) std::abort();
  });
}

/// Text, taken for what llama.cpp and the model debugger print.
inline void run_printed_text(std::span<const std::byte> input) {
  const DumpFile file{.bytes = input, .path = "input", .stem = "input", .mapped = {}, .folder = {}};
  const auto run = [&](DumpContent (*open)(const DumpFile&)) {
    expect_answer([&] {
      const DumpContent content = open(file);
      for (const DumpTensor& tensor : content.tensors) {
        if (!tensor.printed) continue;
        const int64_t count = element_count(tensor.shape);
        for (const int64_t index : content.reader->read_printed(tensor).indices) {
          if (index < 0 || index >= count) std::abort();
        }
      }
    });
  };
  run(open_llama_text);
  run(open_debugger_json);
}

inline void run_json(std::span<const std::byte> input) {
  expect_answer([&] {
    const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
    const nlohmann::json value = parse_json(text);
    // What was accepted is JSON for the library's own parser, and survives a round trip.
    if (nlohmann::json::parse(text) != value) std::abort();
    if (parse_json(value.dump()) != value) std::abort();
  });
}

}  // namespace mainstem::fuzz
