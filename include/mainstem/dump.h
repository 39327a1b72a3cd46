#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainstem/stored_tensor.h"
#include "mainstem/tensor.h"

namespace mainstem {

/// What a dump was written by; told from the content, never from the file's name.
enum class DumpFormat : uint8_t {
  kSafetensors,
  kNpz,
  kNpy,           ///< one array
  kNpyFolder,     ///< a folder of them
  kTorch,         ///< torch.save
  kLlamaText,     ///< what llama.cpp's eval-callback example prints
  kDebuggerJson,  ///< transformers' model_addition_debugger_context
  kTensors,       ///< no file: tensors that the caller has in memory
};
/// "safetensors", "npz", …
std::string_view name(DumpFormat format);

/// An operand of a node of llama.cpp.
struct DumpOperand {
  std::string name;
  Shape shape;  ///< turned round as the node's own
};

/// One value of a dump, before it is read.
struct DumpTensor {
  std::string name;           ///< as found, levels joined by '.'
  DType dtype = DType::kF32;  ///< as stored, or as the program that printed it says
  Shape shape;                ///< row-major, outermost first
  /// How many tensors before this one have the same name and op: a module that was called again,
  /// or a second forward pass.
  int occurrence = 0;
  /// Only some elements may be known, and rounded: Dump::read_printed instead of read.
  bool printed = false;

  // Of llama.cpp's text only.
  std::string op;  ///< "MUL_MAT"; llama.cpp gives several nodes one name
  std::vector<DumpOperand> operands;
  /// Sum of all elements in float32; of the printed ones only where llama.cpp is older than
  /// August 2025.
  std::optional<double> sum;

  size_t id = 0;  ///< for Dump
};

/// The elements of an abridged and rounded tensor that are known.
struct PrintedValues {
  std::vector<int64_t> indices;  ///< into the flat row-major tensor, ascending
  std::vector<double> values;
  std::vector<float> errors;  ///< half a unit of the last digit printed; 0 for whole numbers
};

struct DumpOptions {
  /// Bytes that all compressed arrays of an .npz may have together when unpacked.
  uint64_t max_inflated_bytes = uint64_t{4} << 30;
};

/// The activations that somebody else's program wrote down. Names are kept as they are; what they
/// mean is not decided here. Structure, types and sizes are checked when the dump is opened; values
/// are read one tensor at a time, so that memory is bounded by the largest. Files stay mapped while
/// the Dump or a copy lives. Nothing in a dump is ever executed. Every Error is kBadInput.
///
/// Formats: safetensors; `.npz`, `.npy` and folders of `.npy`; `.pt` files of torch.save (zip and
/// the older form) with tensors in dicts, lists and tuples; the text of llama.cpp's eval-callback
/// example, old and new; the JSON of transformers' model debugger with its files or its printed
/// tensors. docs/dumps.md says what is read of each and what is refused.
///
///     auto dump = Dump::open("activations.pt");
///     for (const DumpTensor& tensor : dump.tensors()) compare(tensor.name, dump.read(tensor));
class Dump {
 public:
  static Dump open(const std::filesystem::path& path, const DumpOptions& options = {});
  /// The same over bytes in memory, which the caller keeps alive. `name` is for messages, and names
  /// a lone array. Files that the dump refers to are an Error here.
  static Dump from_bytes(std::span<const std::byte> bytes, const std::string& name,
                         const DumpOptions& options = {});
  /// Values that the program at hand holds itself. They are viewed, and must outlive the dump and
  /// its copies; a name may come several times. `name` is for messages.
  static Dump from_tensors(std::span<const NamedTensor> tensors, const std::string& name);

  DumpFormat format() const { return format_; }
  /// In the order of the file, which for text and JSON is that of the computation.
  const std::vector<DumpTensor>& tensors() const& { return tensors_; }
  /// A loop over the tensors of a temporary would outlive it.
  const std::vector<DumpTensor>& tensors() const&& = delete;
  /// The first of that name; nullptr where there is none.
  const DumpTensor* find(std::string_view name) const;

  /// All values, contiguous and in native order. An Error for printed tensors, and where the bytes
  /// are damaged.
  Tensor read(const DumpTensor& tensor) const;
  /// The known elements of a printed tensor.
  PrintedValues read_printed(const DumpTensor& tensor) const;

  /// What is in the file but is not read, one sentence each: a type without values here, a tensor
  /// that a later call has overwritten.
  const std::vector<std::string>& left_out() const { return left_out_; }
  const std::string& path() const { return path_; }

 private:
  friend struct DumpAccess;
  Dump() = default;

  std::string path_;
  DumpFormat format_ = DumpFormat::kSafetensors;
  std::vector<DumpTensor> tensors_;
  std::vector<uint32_t> by_name_;
  std::vector<std::string> left_out_;
  std::shared_ptr<const class DumpReader> reader_;
};

}  // namespace mainstem
