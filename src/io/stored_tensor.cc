#include "mainstem/stored_tensor.h"

#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {

TensorView StoredTensor::view() const {
  if (!dtype) {
    throw bad_input("dtype", "a type that can be read", std::string(dtype_name))
        .in(quote(name))
        .in(std::string(file));
  }
  return {*dtype, shape, data};
}

}  // namespace mainstem
