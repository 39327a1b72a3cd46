#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/families/family.h"

// What the readers of decoder-only families share: the numbers that every config has, under the
// names most configs use.

namespace mainstem {

/// Names of the common numbers in config.json ("a|b": either) and the config class's defaults.
struct DecoderWords {
  std::string_view width_key = "hidden_size";
  std::string_view hidden_key = "intermediate_size";
  std::string_view blocks_key = "num_hidden_layers";
  std::string_view heads_key = "num_attention_heads";
  std::string_view kv_heads_key = "num_key_value_heads";  ///< empty: K = H
  std::string_view head_width_key = "head_dim";           ///< empty: E = D/H
  std::string_view context_key = "max_position_embeddings";
  std::string_view vocab_key = "vocab_size";
  int64_t vocab = 32000, width = 4096, hidden = 11008, blocks = 32, heads = 32, context = 2048;
  int64_t kv_heads = 0;    ///< 0: K = H
  int64_t head_width = 0;  ///< 0: E = D/H
};

/// Sizes of a decoder with `block` as it stands (norm, MLP and the rest are the family's to set).
struct Decoder {
  int64_t vocab = 0, width = 0, blocks = 0, context = 0;
  BlockSpec block;
  HeadSpec head;
};

Decoder read_decoder(ConfigReader& config, const DecoderWords& words);
/// The same from "ARCH.embedding_length" and its neighbours; biases of the projections as the
/// first block has them (a GGUF file says them in no other way).
Decoder read_decoder(GgufWords& words);

/// All blocks alike, embedding and stream of one width, E^-0.5 where the score scale is not yet
/// set, and the blocks' norm as the last norm.
ModelSpec decoder_spec(const Decoder& decoder);

/// q, k, v and the output projection alike.
void set_attention_bias(AttentionSpec& attention, bool bias);

/// The row itself and window - 1 keys before it.
void set_window(AttentionSpec& attention, int64_t window);
/// Qwen's windows: where use_sliding_window is set, on blocks from max_window_layers on.
void set_late_windows(ConfigReader& config, ModelSpec& spec);
/// Absent: the default; null: none.
double soft_cap(ConfigReader& config, std::string_view key, double default_cap);

/// RMSNorm with the eps of `key`.
NormSpec rms_norm(ConfigReader& config, double default_eps, std::string_view key = "rms_norm_eps");
NormSpec layer_norm(ConfigReader& config, std::string_view key, double default_eps = 1e-5);
NormSpec rms_norm(GgufWords& words);
NormSpec layer_norm(GgufWords& words);

/// Whether the class that wrote the files ("architectures") has an output matrix; true where the
/// config names none.
bool class_has_head(ConfigReader& config);
/// tie_word_embeddings; a head in the file wins over the flag, as in the reference.
bool reads_tied(ConfigReader& config, bool default_value, const HasTensor& has_tensor,
                std::string_view head_tensor = "lm_head.weight");
/// Both: no head where the class has none, else a linear one, tied or not.
void read_head(ConfigReader& config, HeadSpec& head, bool tied_by_default,
               const HasTensor& has_tensor);

/// Which blocks slide: `layer_types` where present, else what `otherwise` says of each.
std::vector<bool> sliding_blocks(ConfigReader& config, int64_t blocks,
                                 const std::function<bool(int64_t)>& otherwise);

/// The same from a GGUF file: a flag for each block, or a number n, for which every n-th block sees
/// everything; `pattern` is the n of files that say nothing.
std::vector<bool> sliding_blocks(GgufWords& words, int64_t blocks, int64_t pattern);

/// The weight names of Llama and the many families that took them over; `gguf_qk` is how their
/// GGUF converter lays the rows of q and k.
std::vector<WeightRow> llama_rows(Layout gguf_qk = {});
/// The same with a norm before and after each sub-layer, as Gemma 2 and 3 name them.
std::vector<WeightRow> sandwich_rows();
/// `rows`, where those of `more` replace rows of the same own name and the others are added.
std::vector<WeightRow> with_rows(std::vector<WeightRow> rows, const std::vector<WeightRow>& more);

}  // namespace mainstem
