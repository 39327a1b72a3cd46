// Lists the tensors of a file for tests/parity/io_parity.py, and rewrites files.
//
//   io_tool list FILE|FOLDER       one line per tensor: name, dtype, shape, CRC-32 of its bytes
//   io_tool meta FILE.gguf         one line per metadata entry
//   io_tool copy IN OUT            to .safetensors or .npz, by the name of OUT

#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "mainstem/error.h"
#include "mainstem/gguf.h"
#include "mainstem/npz.h"
#include "mainstem/safetensors.h"

namespace {

using namespace mainstem;

void print_line(const std::string& name, std::string_view dtype, const Shape& shape,
                const std::byte* data, uint64_t bytes) {
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(data), bytes);
  std::printf("%s\t%.*s\t%s\t%08lx\n", name.c_str(), static_cast<int>(dtype.size()), dtype.data(),
              to_string(shape).c_str(), crc);
}

void print_stored(const StoredTensor& tensor) {
  print_line(tensor.name, tensor.dtype_name, tensor.shape, tensor.data, tensor.bytes);
}

void print_tensor(const std::string& label, const Tensor& tensor) {
  const TensorView& view = tensor.view();
  print_line(label, name(view.dtype()), view.shape(), view.data(),
             static_cast<uint64_t>(view.bytes()));
}

void list(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    const auto folder = open_safetensors_folder(path);
    for (const StoredTensor* tensor : folder.tensors()) print_stored(*tensor);
  } else if (path.extension() == ".safetensors") {
    const auto file = SafetensorsFile::open(path);
    for (const StoredTensor& tensor : file.tensors()) print_stored(tensor);
  } else if (path.extension() == ".gguf") {
    const auto file = GgufFile::open(path);
    for (const StoredTensor& tensor : file.tensors()) print_stored(tensor);
  } else if (path.extension() == ".npz") {
    const auto file = NpzFile::open(path);
    for (const std::string& member : file.names()) print_tensor(member, file.read(member));
  } else {
    print_tensor(path.stem().string(), read_npy(path));
  }
}

void print_metadata(const std::filesystem::path& path) {
  const auto file = GgufFile::open(path);
  for (const GgufEntry& entry : file.metadata()) {
    const auto crc =
        crc32_z(0, reinterpret_cast<const Bytef*>(entry.bytes.data()), entry.bytes.size());
    std::printf("%s\t%s\t%s\t%llu\t%08lx\n", std::string(entry.key).c_str(),
                std::string(name(entry.type)).c_str(),
                std::string(name(entry.element_type)).c_str(),
                static_cast<unsigned long long>(entry.count), crc);
  }
}

void write_by_name(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  if (path.extension() == ".npz") {
    write_npz(path, tensors);
  } else if (path.extension() == ".npy") {
    write_npy(path, tensors.at(0).view);
  } else {
    write_safetensors(path, tensors, metadata);
  }
}

void copy(const std::filesystem::path& in, const std::filesystem::path& out) {
  std::vector<NamedTensor> tensors;
  if (in.extension() == ".safetensors") {
    const auto file = SafetensorsFile::open(in);
    for (const auto& tensor : file.tensors()) tensors.push_back({tensor.name, tensor.view()});
    write_by_name(out, tensors, {file.metadata().begin(), file.metadata().end()});
  } else if (in.extension() == ".npz") {
    const auto file = NpzFile::open(in);
    std::vector<Tensor> values;
    for (const std::string& member : file.names()) {
      values.push_back(file.read(member));
      tensors.push_back({member, values.back().view()});
    }
    write_by_name(out, tensors, {});
  } else {
    const Tensor value = read_npy(in);
    tensors.push_back({in.stem().string(), value.view()});
    write_by_name(out, tensors, {});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  try {
    if (args.size() == 2 && args[0] == "list") {
      list(args[1]);
    } else if (args.size() == 2 && args[0] == "meta") {
      print_metadata(args[1]);
    } else if (args.size() == 3 && args[0] == "copy") {
      copy(args[1], args[2]);
    } else {
      std::fputs("usage: io_tool list FILE | meta FILE | copy IN OUT\n", stderr);
      return 2;
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
