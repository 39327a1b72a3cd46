#pragma once

#include <vector>

#include "models/decoder_reader.h"

// GPT-2's words and names, which GPT-3 style models share.

namespace mainstem {

ModelSpec read_gpt2(ConfigReader& config, const HasTensor& has_tensor);
/// The fixed parts of the block and the learned positions.
ModelSpec gpt2_spec(Decoder decoder, int64_t position_rows);
std::vector<WeightRow> gpt2_rows();

}  // namespace mainstem
