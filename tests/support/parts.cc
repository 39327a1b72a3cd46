#include "support/parts.h"

#include <limits>

#include "support/bounds.h"
#include "support/compare.h"

namespace mainstem::testing {
namespace {

constexpr double kEps32 = std::numeric_limits<float>::epsilon();

/// The site whose values attention reads as keys.
std::string key_site(const Traced& whole, const std::string& prefix, const BlockSpec& block) {
  const bool norm_last = block.attention.qk_norm && block.attention.qk_norm->after_rotary;
  for (const char* name : {"k_rot", "k_norm"}) {
    const std::string site = prefix + (norm_last ? "k_norm" : name);
    if (whole.data.contains(site)) return site;
  }
  return prefix + "k";
}

}  // namespace

SequenceInput part_of(const SequenceInput& whole, int64_t begin, int64_t end) {
  SequenceInput part;
  part.sequence = whole.sequence;
  const auto cut = [&](const std::vector<int64_t>& list) {
    return list.empty() ? list : std::vector<int64_t>(list.begin() + begin, list.begin() + end);
  };
  part.tokens = cut(whole.tokens);
  part.token_types = cut(whole.token_types);
  part.positions = cut(whole.positions);
  if (begin > 0) return part;
  part.left_padding = whole.left_padding;
  part.encoder_tokens = whole.encoder_tokens;
  part.encoder_left_padding = whole.encoder_left_padding;
  return part;
}

::testing::AssertionResult equal_for(Compute compute, const std::vector<double>& got,
                                     const std::vector<double>& want, int64_t blocks) {
  if (compute == Compute::kF32) return close(got, want, bounds::end_to_end(kEps32, blocks));
  return same_bits(got, want);
}

void expect_part(const TestModel& model, const Traced& part, const Traced& whole, int64_t begin,
                 int64_t end, Compute compute) {
  for (const std::string& site : part.order) {
    SCOPED_TRACE(site + " of rows " + std::to_string(begin) + " to " + std::to_string(end));
    std::string of = site;
    std::vector<double> want;
    if (site.ends_with("k_cache") || site.ends_with("v_cache")) {
      const std::string prefix = site.substr(0, site.size() - 7);
      const size_t dot = prefix.rfind('.', prefix.size() - 2);
      const size_t layer = std::stoul(prefix.substr(dot + 1));
      of = site.ends_with("k_cache") ? key_site(whole, prefix, model.spec.stack.blocks[layer])
                                     : prefix + "v";
      want = slice(whole.data.at(of), whole.shape.at(of), 1, 0, end);
    } else if (is_encoder_site(site)) {
      EXPECT_EQ(begin, 0);
      want = whole.data.at(site);
    } else {
      const auto& shape = whole.shape.at(site);
      want = slice(whole.data.at(site), shape, token_axis(site), begin, end);
      if (is_square(site) && site.find("cross_") == std::string::npos) {
        std::vector<int64_t> cut = shape;
        cut[2] = end - begin;
        want = slice(want, cut, 3, 0, end);
      }
    }
    EXPECT_TRUE(equal_for(compute, part.data.at(site), want, model.blocks));
  }
}

}  // namespace mainstem::testing
