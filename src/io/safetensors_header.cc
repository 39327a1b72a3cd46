#include "io/safetensors_header.h"

#include <limits>
#include <utility>

#include "io/json.h"
#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

constexpr size_t kMaxRank = 64;
constexpr size_t kMaxUnknownTypes = 64;

// Where in the fixed structure the parser stands.
enum class Place { kStart, kNames, kEntry, kMetadata, kShape, kOffsets, kDone };
enum class Field { kNone, kDtype, kShape, kOffsets };

class HeaderHandler : public JsonHandler {
 public:
  HeaderHandler(SafetensorsHeader& header, MemoryBudget& budget)
      : header_(header), budget_(budget) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(int64_t value) override { return unexpected(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { return unexpected(quote(text)); }

  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::kShape) {
      Shape& shape = entry().shape;
      if (value > uint64_t{std::numeric_limits<int64_t>::max()}) {
        throw fault("shape", "dimensions below 2^63", std::to_string(value));
      }
      if (shape.size() == kMaxRank) throw fault("shape", "at most 64 dimensions", "more");
      shape.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::kOffsets) {
      if (offsets_ == 2) throw fault("data_offsets", "two numbers", "more");
      (offsets_++ == 0 ? entry().begin : entry().end) = value;
    } else {
      unexpected(std::to_string(value));
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      budget_.charge(sizeof(std::string) + value.size(), "__metadata__");
      *metadata_value_ = std::move(value);
    } else if (place_ == Place::kEntry && field_ == Field::kDtype) {
      set_dtype(value);
    } else {
      unexpected(quote(value));
    }
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kNames;
    } else if (place_ == Place::kNames) {
      place_ = in_metadata_ ? Place::kMetadata : Place::kEntry;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(std::string& name) override {
    if (place_ == Place::kNames) {
      begin_entry(name);
    } else if (place_ == Place::kMetadata) {
      budget_.charge(160 + name.size(), "__metadata__");
      const auto [at, added] = header_.metadata.try_emplace(std::move(name));
      if (!added) throw bad_input("__metadata__", "each key once", quote(at->first) + " twice");
      metadata_value_ = &at->second;
    } else {
      begin_field(name);
    }
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kEntry && field_ == Field::kShape) {
      budget_.charge(3 * kMaxRank * sizeof(int64_t) / 8, "shape");
      place_ = Place::kShape;
      seen_shape_ = true;
    } else if (place_ == Place::kEntry && field_ == Field::kOffsets) {
      place_ = Place::kOffsets;
      seen_offsets_ = true;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_ != 2) {
      throw fault("data_offsets", "two numbers", std::to_string(offsets_));
    }
    place_ = Place::kEntry;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kEntry) {
      if (!seen_dtype_) throw fault("entry", "a key dtype", "none");
      if (!seen_shape_) throw fault("entry", "a key shape", "none");
      if (!seen_offsets_) throw fault("entry", "a key data_offsets", "none");
      entry().shape.shrink_to_fit();
    }
    in_metadata_ = false;
    place_ = place_ == Place::kNames ? Place::kDone : Place::kNames;
    return true;
  }

 private:
  SafetensorsEntry& entry() { return header_.entries.back(); }

  void set_dtype(const std::string& name) {
    seen_dtype_ = true;
    entry().type = find_safetensors_type(name);
    if (entry().type != nullptr) {
      entry().dtype_name = entry().type->name;
      return;
    }
    auto& unknown = *header_.unknown_types;
    budget_.charge(name.size(), "dtype");
    entry().dtype_name = *unknown.insert(name).first;
    if (unknown.size() > kMaxUnknownTypes) {
      throw fault("dtype", "at most 64 types that are unknown", quote(name));
    }
  }

  Error fault(const char* what, std::string expected, std::string got) {
    return bad_input(what, std::move(expected), std::move(got)).in(quote(entry().name));
  }

  bool unexpected(const std::string& got) {
    switch (place_) {
      case Place::kStart:
      case Place::kDone:
        throw bad_input("header", "a JSON object", got);
      case Place::kNames:
        if (in_metadata_) throw bad_input("__metadata__", "an object", got);
        throw fault("entry", "an object", got);
      case Place::kMetadata:
        throw bad_input("__metadata__", "text values", got);
      case Place::kShape:
        throw fault("shape", "numbers that are not negative", got);
      case Place::kOffsets:
        throw fault("data_offsets", "numbers that are not negative", got);
      case Place::kEntry:
        throw fault(field_name(), field_ == Field::kDtype ? "a text" : "an array", got);
    }
    return false;
  }

  const char* field_name() const {
    switch (field_) {
      case Field::kNone:
        return "entry";
      case Field::kDtype:
        return "dtype";
      case Field::kShape:
        return "shape";
      case Field::kOffsets:
        return "data_offsets";
    }
    return "entry";
  }

  void begin_entry(std::string& name) {
    if (name == "__metadata__") {
      if (seen_metadata_) throw bad_input("header", "one __metadata__", "two");
      seen_metadata_ = in_metadata_ = true;
      return;
    }
    // The vector of entries may hold its old and new memory while it grows.
    budget_.charge(3 * sizeof(SafetensorsEntry) + name.size() + 64, "header");
    header_.entries.emplace_back().name = std::move(name);
    field_ = Field::kNone;
    offsets_ = 0;
    seen_dtype_ = seen_shape_ = seen_offsets_ = false;
  }

  void begin_field(const std::string& name) {
    bool twice = false;
    if (name == "dtype") {
      field_ = Field::kDtype;
      twice = seen_dtype_;
    } else if (name == "shape") {
      field_ = Field::kShape;
      twice = seen_shape_;
    } else if (name == "data_offsets") {
      field_ = Field::kOffsets;
      twice = seen_offsets_;
    } else {
      throw fault("entry", "the keys dtype, shape and data_offsets", quote(name));
    }
    if (twice) throw fault("entry", "each key once", quote(name) + " twice");
  }

  SafetensorsHeader& header_;
  MemoryBudget& budget_;
  Place place_ = Place::kStart;
  Field field_ = Field::kNone;
  std::string* metadata_value_ = nullptr;
  int offsets_ = 0;
  bool in_metadata_ = false, seen_metadata_ = false;
  bool seen_dtype_ = false, seen_shape_ = false, seen_offsets_ = false;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text) {
  SafetensorsHeader header;
  header.unknown_types = std::make_shared<std::set<std::string, std::less<>>>();
  MemoryBudget budget(text.size());
  HeaderHandler handler(header, budget);
  JsonLimits limits;
  limits.max_bytes = text.size();  // the caller has compared it with its own limit
  limits.max_depth = 4;            // one more than the structure, which the handler knows better
  parse_json_events(text, limits, budget, handler);
  return header;
}

}  // namespace mainstem
