#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "mainstem/gguf.h"
#include "models/tokenizer/pipeline.h"
#include "models/tokenizer/side_files.h"

namespace mainstem::tokenizer {

std::shared_ptr<const Pipeline> from_gguf(const GgufFile& file);
std::shared_ptr<const Pipeline> from_tokenizer_json(std::string_view text, const SideFiles& side);

/// A vocab.txt of a BERT model.
std::shared_ptr<const Pipeline> from_vocab_txt(std::string_view text, const SideFiles& side);
/// A tokenizer.model of sentencepiece; its pieces' places are the ids.
std::shared_ptr<const Pipeline> from_sentencepiece(std::string_view bytes, const SideFiles& side);
/// The source.spm (or target.spm) of a Marian model with the ids of its vocab.json.
std::shared_ptr<const Pipeline> from_marian(std::string_view model, std::string_view vocabulary,
                                            const SideFiles& side);

}  // namespace mainstem::tokenizer
