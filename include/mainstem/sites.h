#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem {

/// The named steps of a model, in the order they fire. The set is closed.
// clang-format off
enum class Site : uint8_t {
  kTokens, kTokenEmbed, kPosEmbed, kTypeEmbed, kEmbedSum, kEmbed,
  kResidPre, kAttnNorm, kQ, kK, kV, kQNorm, kKNorm, kQRot, kKRot, kKCache, kVCache,
  kScores, kPattern, kAttnMix, kAttnProj, kAttnOut, kAttnSum,
  kCrossResidPre, kCrossAttnNorm, kCrossQ, kCrossK, kCrossV, kCrossScores, kCrossPattern,
  kCrossAttnMix, kCrossAttnProj, kCrossAttnOut, kCrossAttnSum,
  kResidMid, kMlpNorm, kMlpGate, kMlpValue, kMlpPre, kMlpAct, kMlpHidden, kMlpProj, kMlpOut,
  kMlpSum, kResidPost,
  kFinalNorm, kHeadProj, kHeadAct, kHeadNorm, kHead, kLogits,
};
// clang-format on

/// The site's name without stack and block: "q_rot".
std::string_view name(Site site);
bool is_block_site(Site site);

/// Only encoder-decoder models prefix their sites.
enum class Stack : uint8_t { kOnly, kEncoder, kDecoder };

struct SiteId {
  Site site = Site::kTokens;
  int layer = -1;  ///< block index from 0; -1 outside blocks
  Stack stack = Stack::kOnly;
  bool operator==(const SiteId&) const = default;
};

/// "blocks.3.q_rot", "decoder.final_norm", "logits".
std::string to_string(const SiteId& id);
std::optional<SiteId> parse_site(std::string_view text);

/// Shell-style match of a whole name: `*` any text, `?` one character, `[ab]`, `[0-9]`, `[!a]`.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace mainstem
