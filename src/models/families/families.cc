#include <array>

#include "models/families/family.h"

namespace mainstem {

// The build lists the files of this folder: each defines one family.
#define MAINSTEM_FAMILY(name) Family name##_family();
#include "family_list.inc"
#undef MAINSTEM_FAMILY

std::span<const Family> families() {
  static const std::array all = {
#define MAINSTEM_FAMILY(name) name##_family(),
#include "family_list.inc"
#undef MAINSTEM_FAMILY
  };
  return all;
}

}  // namespace mainstem
