// Tokenizes many texts in one process, for parity scripts.
//
//   tokenize_tool MODEL [--drop-missing-bytes] [--no-special] [--special-is-text] < LINES
//
// Each line of input is a JSON string, or {"hex": "…"} for bytes that are not UTF-8. Each line of
// output is {"ids": […]}, in the same order, or {"error": "…"}.
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "mainstem/error.h"
#include "mainstem/tokenizer.h"

namespace {

std::string text_of(const nlohmann::json& line) {
  if (line.is_string()) return line.get<std::string>();
  const auto hex = line.at("hex").get<std::string>();
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: tokenize_tool MODEL [--drop-missing-bytes] [--no-special] "
                 "[--special-is-text] < LINES\n";
    return 2;
  }
  mainstem::EncodeOptions options;
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--drop-missing-bytes") options.missing_byte = mainstem::MissingByte::kDrop;
    if (flag == "--no-special") options.add_special = false;
    if (flag == "--special-is-text") options.parse_special = false;
  }
  std::ios::sync_with_stdio(false);
  try {
    const auto tokenizer = mainstem::Tokenizer::load(argv[1]);
    for (std::string line; std::getline(std::cin, line);) {
      nlohmann::json result;
      try {
        result["ids"] = tokenizer.encode(text_of(nlohmann::json::parse(line)), options);
      } catch (const mainstem::Error& error) {
        result["error"] = error.what();
      }
      std::cout << result.dump() << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 3;
  }
}
