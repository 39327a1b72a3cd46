#pragma once

#include "cli/run_command.h"

namespace mainstem::cli_test {

/// The tiny Llama of the golden data in a folder of its own, which a test may spoil.
class TinyLlama {
 public:
  TinyLlama() {
    for (const char* name : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(test_file("golden/tiny_llama/") + name, scratch_ / name);
    }
  }
  std::string path() const { return (scratch_ / "").string(); }
  std::string file(const std::string& name) const { return (scratch_ / name).string(); }

 private:
  Scratch scratch_;
};

}  // namespace mainstem::cli_test
