#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace mainstem {
class GgufFile;
}

namespace mainstem::chat {

/// What a model's files say about conversations.
struct ChatFiles {
  std::map<std::string, std::string> templates;       ///< by name; the main one is "default"
  std::map<std::string, std::string> special_tokens;  ///< "bos_token" and the like
};

/// A folder, a file in it, or a .gguf file; empty where there is nothing.
ChatFiles read_chat_files(const std::filesystem::path& folder_or_file);
ChatFiles chat_files_of(const GgufFile& file);

}  // namespace mainstem::chat
