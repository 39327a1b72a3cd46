#include <array>

#include "models/families/family.h"

namespace mainstem {

std::span<const Family> families() {
  static const std::array all = {llama_family()};
  return all;
}

}  // namespace mainstem
