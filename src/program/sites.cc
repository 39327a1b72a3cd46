#include "mainstem/sites.h"

#include <array>
#include <charconv>

namespace mainstem {
namespace {

struct SiteRow {
  Site site;
  std::string_view name;
  bool in_block;
};

constexpr std::array kSiteRows = {
    SiteRow{Site::kTokens, "tokens", false},
    SiteRow{Site::kTokenEmbed, "token_embed", false},
    SiteRow{Site::kPosEmbed, "pos_embed", false},
    SiteRow{Site::kTypeEmbed, "type_embed", false},
    SiteRow{Site::kEmbedSum, "embed_sum", false},
    SiteRow{Site::kEmbed, "embed", false},
    SiteRow{Site::kResidPre, "resid_pre", true},
    SiteRow{Site::kAttnNorm, "attn_norm", true},
    SiteRow{Site::kQ, "q", true},
    SiteRow{Site::kK, "k", true},
    SiteRow{Site::kV, "v", true},
    SiteRow{Site::kQNorm, "q_norm", true},
    SiteRow{Site::kKNorm, "k_norm", true},
    SiteRow{Site::kQRot, "q_rot", true},
    SiteRow{Site::kKRot, "k_rot", true},
    SiteRow{Site::kKCache, "k_cache", true},
    SiteRow{Site::kVCache, "v_cache", true},
    SiteRow{Site::kScores, "scores", true},
    SiteRow{Site::kPattern, "pattern", true},
    SiteRow{Site::kAttnMix, "attn_mix", true},
    SiteRow{Site::kAttnProj, "attn_proj", true},
    SiteRow{Site::kAttnOut, "attn_out", true},
    SiteRow{Site::kAttnSum, "attn_sum", true},
    SiteRow{Site::kCrossResidPre, "cross_resid_pre", true},
    SiteRow{Site::kCrossAttnNorm, "cross_attn_norm", true},
    SiteRow{Site::kCrossQ, "cross_q", true},
    SiteRow{Site::kCrossK, "cross_k", true},
    SiteRow{Site::kCrossV, "cross_v", true},
    SiteRow{Site::kCrossScores, "cross_scores", true},
    SiteRow{Site::kCrossPattern, "cross_pattern", true},
    SiteRow{Site::kCrossAttnMix, "cross_attn_mix", true},
    SiteRow{Site::kCrossAttnProj, "cross_attn_proj", true},
    SiteRow{Site::kCrossAttnOut, "cross_attn_out", true},
    SiteRow{Site::kCrossAttnSum, "cross_attn_sum", true},
    SiteRow{Site::kResidMid, "resid_mid", true},
    SiteRow{Site::kMlpNorm, "mlp_norm", true},
    SiteRow{Site::kMlpGate, "mlp_gate", true},
    SiteRow{Site::kMlpValue, "mlp_value", true},
    SiteRow{Site::kMlpPre, "mlp_pre", true},
    SiteRow{Site::kMlpAct, "mlp_act", true},
    SiteRow{Site::kMlpHidden, "mlp_hidden", true},
    SiteRow{Site::kMlpProj, "mlp_proj", true},
    SiteRow{Site::kMlpOut, "mlp_out", true},
    SiteRow{Site::kMlpSum, "mlp_sum", true},
    SiteRow{Site::kResidPost, "resid_post", true},
    SiteRow{Site::kFinalNorm, "final_norm", false},
    SiteRow{Site::kHeadProj, "head_proj", false},
    SiteRow{Site::kHeadAct, "head_act", false},
    SiteRow{Site::kHeadNorm, "head_norm", false},
    SiteRow{Site::kHead, "head", false},
    SiteRow{Site::kLogits, "logits", false},
};

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < kSiteRows.size(); ++i) {
    if (static_cast<size_t>(kSiteRows[i].site) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order(), "a site's row stands at its own number");

const SiteRow& row(Site site) { return kSiteRows[static_cast<size_t>(site)]; }

bool consume(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::string_view name(Site site) { return row(site).name; }
bool is_block_site(Site site) { return row(site).in_block; }

std::string to_string(const SiteId& id) {
  std::string text;
  if (id.stack == Stack::kEncoder) text = "encoder.";
  if (id.stack == Stack::kDecoder) text = "decoder.";
  if (id.layer >= 0) text += "blocks." + std::to_string(id.layer) + ".";
  text += name(id.site);
  return text;
}

std::optional<SiteId> parse_site(std::string_view text) {
  const std::string_view whole = text;
  SiteId id;
  if (consume(text, "encoder.")) {
    id.stack = Stack::kEncoder;
  } else if (consume(text, "decoder.")) {
    id.stack = Stack::kDecoder;
  }
  if (consume(text, "blocks.")) {
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), id.layer);
    if (status != std::errc() || id.layer < 0) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!consume(text, ".")) return std::nullopt;
  }
  for (const SiteRow& candidate : kSiteRows) {
    if (candidate.name != text) continue;
    if (candidate.in_block != (id.layer >= 0)) return std::nullopt;
    if (candidate.site == Site::kLogits && id.stack != Stack::kOnly) return std::nullopt;
    id.site = candidate.site;
    if (to_string(id) != whole) return std::nullopt;  // "blocks.01.q", "blocks.-0.q"
    return id;
  }
  return std::nullopt;
}

namespace {

/// Does the pattern's element at `p`, which is no '*', take this character? `next` is set to where
/// the element after it begins. A '[' that nothing closes stands for itself.
bool takes(std::string_view pattern, size_t p, char c, size_t& next) {
  next = p + 1;
  if (pattern[p] == '?') return true;
  const size_t close = pattern[p] == '[' ? pattern.find(']', p + 2) : std::string_view::npos;
  if (close == std::string_view::npos) return pattern[p] == c;
  next = close + 1;
  size_t at = p + 1;
  const bool inverted = pattern[at] == '!';
  if (inverted) ++at;
  bool found = false;
  for (; at < close; ++at) {
    if (at + 2 < close && pattern[at + 1] == '-') {
      found |= pattern[at] <= c && c <= pattern[at + 2];
      at += 2;
    } else {
      found |= pattern[at] == c;
    }
  }
  return found != inverted;
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t resume = 0;
  size_t next = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] != '*' && takes(pattern, p, text[t], next)) {
      p = next;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace mainstem
