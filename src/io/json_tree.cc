#include "io/json_tree.h"

#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {

using Json = nlohmann::json;

bool JsonTreeBuilder::number_float(number_float_t value, const std::string&) { return put(value); }

bool JsonTreeBuilder::string(std::string& value) {
  budget_.charge(48 + value.size(), name_);
  return put(std::move(value));
}

bool JsonTreeBuilder::start_object(size_t) { return open(Json::object()); }
bool JsonTreeBuilder::start_array(size_t) { return open(Json::array()); }

bool JsonTreeBuilder::key(std::string& name) {
  budget_.charge(112 + name.size(), name_);
  auto& object = open_.back()->get_ref<Json::object_t&>();
  const auto [place, added] = object.try_emplace(std::move(name));
  if (!added) throw bad_input("JSON key", "each key once", quote(place->first) + " twice");
  member_ = &place->second;
  return true;
}

bool JsonTreeBuilder::open(Json empty) {
  budget_.charge(64, name_);
  open_.push_back(add(std::move(empty)));
  return true;
}

bool JsonTreeBuilder::close() {
  open_.pop_back();
  return true;
}

}  // namespace mainstem
