#include "models/chat/methods.h"
#include "models/chat/operators.h"

namespace mainstem::chat {
namespace {

Value get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  expect_positional("dict.get", arguments, 1, 2);
  const Value* found = find(runtime, self.at<const Dict>(), arguments.positional[0]);
  if (found != nullptr) return *found;
  return arguments.positional.size() > 1 ? arguments.positional[1] : Value();
}

template <View::What What>
Value view(Runtime& runtime, const Value& self, const Arguments& arguments) {
  expect_positional("dict method", arguments, 0, 0);
  if (self.depth() + 1 >= runtime.limits().depth) runtime.list({self});
  return Value(Shared<const View>(std::make_shared<View>(View{What, self.shared<const Dict>()})));
}

Value copy(Runtime&, const Value& self, const Arguments& arguments) {
  expect_positional("method 'copy'", arguments, 0, 0);
  return self;
}

Value index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  expect_positional("list.index", arguments, 1, 1);
  for (size_t i = 0; i < self.items().size(); ++i) {
    if (equal(runtime, self.items()[i], arguments.positional[0])) {
      return Value(static_cast<int64_t>(i));
    }
  }
  throw bad_input("list.index", "a value that is in the list", "another");
}

Value count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  expect_positional("list.count", arguments, 1, 1);
  int64_t found = 0;
  for (const Value& item : self.items()) {
    found += equal(runtime, item, arguments.positional[0]) ? 1 : 0;
  }
  return Value(found);
}

}  // namespace

MethodFunction find_dict_method(std::string_view name) {
  if (name == "get") return get;
  if (name == "items") return view<View::What::kItems>;
  if (name == "keys") return view<View::What::kKeys>;
  if (name == "values") return view<View::What::kValues>;
  if (name == "copy") return copy;
  return nullptr;
}

MethodFunction find_list_method(std::string_view name) {
  if (name == "index") return index;
  if (name == "count") return count;
  if (name == "copy") return copy;
  return nullptr;
}

}  // namespace mainstem::chat
