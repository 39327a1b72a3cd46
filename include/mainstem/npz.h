#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainstem/stored_tensor.h"

namespace mainstem {

/// Reads a `.npy` file of format 1 to 3 (numpy.lib.format). Types: bool, integers, f2, f4, f8, and
/// V2, which ml_dtypes writes for bfloat16. Big-endian values and Fortran order are converted, so
/// the result is row-major in native order. Objects, texts, complex and structured types are an
/// Error (nothing in a file is executed), as are missing and surplus bytes. Every Error is
/// kBadInput.
///
///     Tensor logits = read_npy("logits.npy");
Tensor read_npy(const std::filesystem::path& path);
/// The same over bytes in memory.
Tensor parse_npy(std::span<const std::byte> bytes);

/// Writes format 1.0, data at a multiple of 64 bytes, row-major. bfloat16 becomes '<V2'. The file
/// appears under its name only when complete. Quantised and fp8 types are an Error (kUsage).
void write_npy(const std::filesystem::path& path, const TensorView& tensor);

struct NpzOptions {
  /// Bytes that all compressed members may have together when unpacked.
  uint64_t max_inflated_bytes = uint64_t{4} << 30;
};

/// An `.npz` file: a zip archive of `.npy` members, stored or deflated, zip64 or not. The directory
/// is checked at open (sizes, overlaps, ratio); members are read one at a time, with their CRC.
///
///     auto file = NpzFile::open("dump.npz");
///     for (const std::string& name : file.names()) use(name, file.read(name));
class NpzFile {
 public:
  static NpzFile open(const std::filesystem::path& path, const NpzOptions& options = {});
  /// The same over bytes in memory, which the caller keeps alive. `name` is for messages.
  static NpzFile from_bytes(std::span<const std::byte> bytes, std::string name,
                            const NpzOptions& options = {});

  /// Array names without ".npy", in the order of the archive. Other members are left out.
  const std::vector<std::string>& names() const { return names_; }
  bool has(std::string_view name) const;
  /// An Error where there is no such array.
  Tensor read(std::string_view name) const;
  const std::string& path() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
  std::vector<std::string> names_;
};

/// Writes an archive of stored members that numpy.load reads; zip64 where sizes ask for it. The
/// file appears under its name only when complete.
void write_npz(const std::filesystem::path& path, std::span<const NamedTensor> tensors);

/// Writes the same archive member by member, for values that do not fit in memory together.
/// Without finish() no file appears. Errors of write(): a name that is empty, not UTF-8 or written
/// before, a type that numpy does not have (kUsage); a disk that refuses (kBadInput).
///
///     NpzWriter writer("trace.npz");
///     writer.write("blocks.0.q", view);
///     writer.finish();
class NpzWriter {
 public:
  explicit NpzWriter(const std::filesystem::path& path);
  ~NpzWriter();
  NpzWriter(NpzWriter&&) noexcept;
  NpzWriter& operator=(NpzWriter&&) noexcept;

  void write(std::string_view name, const TensorView& view);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mainstem
