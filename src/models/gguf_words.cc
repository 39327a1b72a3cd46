#include "models/gguf_words.h"

#include "mainstem/error.h"

namespace mainstem {

GgufWords::GgufWords(const GgufFile& file, FindTensor find_tensor)
    : file_(file),
      arch_(file.need_string("general.architecture")),
      find_tensor_(std::move(find_tensor)) {}

std::string GgufWords::with_arch(std::string_view key) const {
  return arch_ + "." + std::string(key);
}

std::string GgufWords::full(std::string_view key) {
  std::string name = with_arch(key);
  used_.insert(name);
  return name;
}

bool GgufWords::is_list(std::string_view key) const {
  const GgufEntry* entry = file_.entry(with_arch(key));
  return entry != nullptr && entry->type == GgufType::kArray;
}

std::vector<double> GgufWords::take_values(std::string_view tensor, int64_t count) {
  const StoredTensor* found = find(tensor);
  const std::string what(tensor);
  const std::string expected = std::to_string(count) + " values";
  if (found == nullptr) throw bad_input(what, expected, "none").in(path());
  const TensorView view = with_context(path(), [&] { return found->view(); });
  if (view.count() != count) {
    throw bad_input(what, expected, std::to_string(view.count())).in(path());
  }
  taken_.insert(what);
  return to_f64(view);
}

std::optional<std::vector<int64_t>> GgufWords::get_per_block(std::string_view key, int64_t blocks) {
  const std::string name = full(key);
  const GgufEntry* entry = file_.entry(name);
  if (entry == nullptr) return std::nullopt;
  const auto count = static_cast<size_t>(blocks);
  std::vector<int64_t> values;
  if (entry->type != GgufType::kArray) {
    const bool flag = entry->type == GgufType::kBool;
    values.assign(count, flag ? int64_t{*file_.get_bool(name)} : *file_.get_int(name));
  } else if (entry->element_type == GgufType::kBool) {
    const std::vector<bool> flags = *file_.get_bools(name);
    values.assign(flags.begin(), flags.end());
  } else {
    values = *file_.get_ints(name);
  }
  if (values.size() != count) {
    fail(key, "one value for each of the " + std::to_string(blocks) + " blocks",
         std::to_string(values.size()));
  }
  return values;
}

void GgufWords::ignore(std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) full(key);
}

void GgufWords::finish() const {
  std::string unknown;
  for (const GgufEntry& entry : file_.metadata()) {
    if (!entry.key.starts_with(arch_ + ".") || used_.contains(entry.key)) continue;
    unknown += (unknown.empty() ? "" : ", ") + std::string(entry.key);
  }
  if (!unknown.empty()) {
    throw bad_input("metadata keys", "only keys that are used or known to be harmless", unknown)
        .in(path());
  }
}

void GgufWords::fail(std::string_view key, const std::string& expected,
                     const std::string& found) const {
  throw bad_input(with_arch(key), expected, found).in(path());
}

}  // namespace mainstem
