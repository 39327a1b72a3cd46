// Scores that are scaled, capped or biased otherwise, and masks.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "diagnose/causes/norm_rows.h"
#include "diagnose/causes/passes.h"

namespace mainstem::causes {
namespace {

Change change_params(ValueId mix, std::function<void(AttentionParams&, Numbers)> change) {
  return [mix, change = std::move(change)](Edited& edited, Numbers n) {
    change(std::get<AttentionParams>(maker(edited.program, mix).params), n);
  };
}

// A mask that adds the lowest number of the type hides a key, but a row without any visible key
// becomes uniform.
constexpr double kLowest = std::numeric_limits<float>::lowest();

/// 2^(-8 (h + 1) / n), and beyond the largest power of two n every other slope of 2n.
std::vector<double> published_slopes(int64_t heads) {
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes;
  const auto n = static_cast<double>(power);
  for (int64_t h = 0; h < power; ++h) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(h + 1) / n));
  }
  for (int64_t h = power; h < heads; ++h) {
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(2 * (h - power) + 1) / n));
  }
  return slopes;
}

/// What a slope is a multiple of where the model rounds its slopes to bfloat16: scores may be
/// scaled after the bias is added to them. None where it does not round.
std::optional<double> unit_of_rounded(const std::vector<double>& slopes, double score_scale) {
  for (double unit : {1.0, score_scale}) {
    if (std::all_of(slopes.begin(), slopes.end(), [unit](double slope) {
          const double each = slope / unit;
          return std::abs(rounded_to(DType::kBF16, each) - each) <= 1e-12 * std::abs(each);
        })) {
      return unit;
    }
  }
  return std::nullopt;
}

}  // namespace

void attn_scale(const Place& place, Forms& forms) {
  for (const AttentionAt& attention : place.attentions()) {
    const double right = attention.spec->score_scale;
    const auto width = static_cast<double>(attention.spec->head_width);
    const auto stream = static_cast<double>(place.block()->width);
    const auto heads = static_cast<double>(attention.spec->heads);
    const std::string reference = fmt::format("q · k times {}", number(right));
    const std::string fix = fmt::format("Multiply q · k by {}.", number(right));
    const std::string usual_place = "attention's forward, or the config that names the scale";
    struct Scale {
      double value;
      std::string text;
      bool of_block = false;  // another one in each block
    };
    const auto block_number = static_cast<double>(place.layer() + 1);
    const std::vector<Scale> known{
        {1, "scores are not scaled"},
        {1 / std::sqrt(stream), "1/√D: by the width of the stream"},
        {1 / std::sqrt(width), "1/√E: by the width of a head"},
        {right * right, "scaled twice"},
        {1 / std::sqrt(stream / heads), "1/√(D/H)"},
        {1 / width, "1/E: the root is missing"},
        // An option of GPT-2, scale_attn_by_inverse_layer_idx.
        {right / block_number, "divided by the block's number, too", true},
        {right * block_number, "times the block's number, too", true}};
    std::vector<double> usual;
    for (const Scale& scale : known) {
      if (std::abs(scale.value / right - 1) < 1e-12) continue;
      if (std::find(usual.begin(), usual.end(), scale.value) != usual.end()) continue;
      usual.push_back(scale.value);
      const std::string yours =
          scale.of_block ? scale.text
                         : fmt::format("q · k times {}: {}", number(scale.value), scale.text);
      forms.add(
          {.yours = yours, .reference = reference, .usual_place = usual_place, .fix = fix},
          place.shown({attention.scores}),
          change_params(attention.mix, [value = scale.value](AttentionParams& params, Numbers) {
            params.scale = value;
          }));
    }
    forms.add({.yours = "q · k times another number",
               .reference = reference,
               .usual_place = usual_place,
               .fix = fix},
              place.shown({attention.scores}),
              change_params(attention.mix,
                            [](AttentionParams& params, Numbers n) { params.scale = n[0]; }),
              {{.name = "scale", .low = 1e-4, .high = 1e2, .logarithmic = true, .usual = usual}});
  }
}

void attn_softcap(const Place& place, Forms& forms) {
  for (const AttentionAt& attention : place.attentions()) {
    const double cap = attention.spec->soft_cap;
    const auto shows = place.shown({attention.scores});
    const std::string usual_place =
        "attention's forward, or an attention kernel that has no soft cap";
    const auto free_cap = [&](const Words& words) {
      forms.add(words, shows,
                change_params(attention.mix,
                              [](AttentionParams& params, Numbers n) { params.soft_cap = n[0]; }),
                {{.name = "cap",
                  .low = 0.1,
                  .high = 1e3,
                  .logarithmic = true,
                  .usual = without({50, 30, 20}, cap)}});
    };
    if (cap == 0) {
      free_cap({.yours = "cap · tanh(score / cap)",
                .reference = "no soft cap",
                .usual_place = usual_place,
                .fix = "Leave the scores as they are."});
      continue;
    }
    const std::string reference =
        fmt::format("{0} · tanh(score / {0}), before the mask", number(cap));
    const std::string fix = fmt::format("Cap the scaled scores with {}, then mask.", number(cap));
    forms.add(
        {.yours = "no soft cap", .reference = reference, .usual_place = usual_place, .fix = fix},
        shows, change_params(attention.mix, [](AttentionParams& params, Numbers) {
          params.soft_cap = 0;
        }));
    if (attention.spec->mask != MaskKind::kFull) {
      forms.add({.yours = "masked scores are capped, too: a hidden key counts with −cap",
                 .reference = reference,
                 .usual_place = "the order of mask and soft cap",
                 .fix = fix},
                place.shown({attention.pattern}),
                change_params(attention.mix, [cap](AttentionParams& params, Numbers) {
                  params.hidden_score = -cap;
                }));
    }
    free_cap(
        {.yours = "another cap", .reference = reference, .usual_place = usual_place, .fix = fix});
  }
}

void attn_position_bias(const Place& place, Forms& forms) {
  for (const AttentionAt& attention : place.attentions()) {
    const std::vector<double>& right = attention.spec->alibi_slopes;
    if (right.empty()) continue;
    const auto add = [&](std::string yours, const std::vector<double>& slopes) {
      forms.add({.yours = std::move(yours),
                 .reference = "slope · key position is added to the scores",
                 .usual_place = "the code that makes the slopes, or attention's forward",
                 .fix = "Add each head's slope times the key's position once."},
                place.shown({attention.scores}),
                change_params(attention.mix, [slopes](AttentionParams& params, Numbers) {
                  params.alibi_slopes = slopes;
                }));
    };
    const auto times = [&](const auto& factor) {
      std::vector<double> slopes = right;
      for (size_t h = 0; h < slopes.size(); ++h) slopes[h] *= factor(h);
      return slopes;
    };
    const auto heads = static_cast<int64_t>(right.size());
    const std::vector<double> published = published_slopes(heads);
    const auto ratio = static_cast<double>(published.size());
    add("no position bias", {});
    add("the position bias is added twice", times([](size_t) { return 2.0; }));
    const auto unit = unit_of_rounded(right, attention.spec->score_scale);
    const auto add_made = [&](const std::string& yours, const auto& factor) {
      const std::vector<double> slopes = times(factor);
      add(yours, slopes);
      if (!unit) return;
      // The right slopes are rounded already, the wrong ones are rounded themselves.
      std::vector<double> rounded;
      for (size_t h = 0; h < right.size(); ++h) {
        const double exact = published[h] * *unit;
        const bool known = std::abs(exact / right[h] - 1) < 0x1p-7;
        const double wrong = (known ? exact : right[h]) * factor(h);
        rounded.push_back(rounded_to(DType::kBF16, wrong / *unit) * *unit);
      }
      if (rounded == slopes) return;
      add(yours + ", rounded to bf16", rounded);
    };
    const size_t power = std::bit_floor(right.size());
    if (power == right.size()) {
      add_made("exponents from 0: 2^(−8h/H)", [&](size_t) { return std::exp2(8.0 / ratio); });
    } else {
      add_made("one geometric series, though H is no power of two", [&](size_t h) {
        return std::exp2(-8.0 * static_cast<double>(h + 1) / ratio) / published[h];
      });
      add_made("exponents from 0", [&](size_t h) {
        return std::exp2((h < power ? 8.0 : 4.0) / static_cast<double>(power));
      });
    }
    const double scale = attention.spec->score_scale;
    if (scale != 1) {
      add("the position bias is not scaled with the scores",
          times([&](size_t) { return 1 / scale; }));
      add("the position bias is scaled with the scores", times([&](size_t) { return scale; }));
    }
    forms.add({.yours = "slopes times another number",
               .reference = "slope · key position is added to the scores",
               .usual_place = "the code that makes the slopes",
               .fix = "Use the slopes of the model."},
              place.shown({attention.scores}),
              change_params(attention.mix,
                            [](AttentionParams& params, Numbers n) {
                              for (double& slope : params.alibi_slopes) slope *= n[0];
                            }),
              {{.name = "factor",
                .low = 1e-2,
                .high = 1e2,
                .logarithmic = true,
                .usual = {2, 0.5, 4, 0.25}}});
  }
}

void attn_causal_mask(const Place& place, Forms& forms) {
  for (const AttentionAt& attention : place.attentions()) {
    if (attention.cross) continue;
    const auto add = [&](Words words, std::function<void(AttentionParams&, Numbers)> change) {
      if (words.usual_place.empty()) words.usual_place = "the code that makes the mask";
      forms.add(std::move(words), place.shown({attention.pattern}),
                change_params(attention.mix, std::move(change)));
    };
    if (attention.spec->mask == MaskKind::kFull) {
      add({.yours = "keys behind the query are hidden",
           .reference = "every key is visible",
           .fix = "Hide no key but padding."},
          [](AttentionParams& params, Numbers) { params.mask = MaskKind::kCausal; });
      continue;
    }
    const std::string reference = "a query sees the keys up to itself";
    const std::string fix = "Hide every key behind the query, and no other.";
    add({.yours = "every key is visible",
         .reference = reference,
         .usual_place = "a prefill that runs without a mask: an empty mask argument, a cache that "
                        "is attached",
         .fix = fix},
        [](AttentionParams& params, Numbers) { params.mask = MaskKind::kFull; });
    add({.yours = "the query's own key is hidden, too", .reference = reference, .fix = fix},
        [](AttentionParams& params, Numbers) {
          params.diagonal = -1;
          params.hidden_score = kLowest;
        });
    add({.yours = "the query's own key is hidden, too, and a row without keys is zero",
         .reference = reference,
         .fix = fix},
        [](AttentionParams& params, Numbers) { params.diagonal = -1; });
    add({.yours = "one key behind the query is visible", .reference = reference, .fix = fix},
        [](AttentionParams& params, Numbers) { params.diagonal = 1; });
    add({.yours = "the mask of a later chunk starts at the first key",
         .reference = "row i of a chunk sees the keys up to i + cached keys",
         .usual_place = "the mask of a chunk, anchored at the top left",
         .fix = "Shift the mask by the number of cached keys."},
        [](AttentionParams& params, Numbers) { params.from_first_key = true; });
    masks_restart(place, forms, attention);
  }
}

void attn_padding_mask(const Place& place, Forms& forms) {
  for (const AttentionAt& attention : place.attentions()) {
    forms.add({.yours = "padding can be seen",
               .reference = "keys of padding tokens are hidden",
               .usual_place = "the attention mask of the batch, not handed down",
               .fix = "Hide the keys of padding tokens."},
              place.shown({attention.pattern}),
              change_params(attention.mix,
                            [](AttentionParams& params, Numbers) { params.sees_padding = true; }));
  }
}

void attn_window(const Place& place, Forms& forms) {
  for (const AttentionAt& attention : place.attentions()) {
    if (attention.cross || attention.spec->mask == MaskKind::kFull) continue;
    const bool has = attention.spec->mask == MaskKind::kWindow;
    const int64_t right = attention.spec->window;
    const std::string reference =
        has ? fmt::format("the query itself and the {} keys before it", right - 1)
            : "every key up to the query";
    const std::string fix =
        has ? fmt::format("Let a query see the keys with 0 ≤ i − j < {}.", right)
            : "Use no window in this layer.";
    const auto add = [&](const std::string& yours, int64_t window) {
      forms.add({.yours = yours,
                 .reference = reference,
                 .usual_place = "the mask, or a kernel's argument that counts the keys before the "
                                "query (W − 1)",
                 .fix = fix},
                place.shown({attention.pattern}),
                change_params(attention.mix, [window](AttentionParams& params, Numbers) {
                  params.mask = window > 0 ? MaskKind::kWindow : MaskKind::kCausal;
                  params.window = window;
                }));
    };
    if (has) {
      add(fmt::format("one key too many: i − j ≤ {}", right), right + 1);
      if (right > 1) add(fmt::format("one key too few: i − j < {}", right - 1), right - 1);
      add("no window", 0);
    }
    if (right != 1)
      add("only the query itself: a window of 0, which means none, taken for a width", 1);
    std::vector<int64_t> others;
    for (const BlockSpec& block : place.stack().blocks) {
      const AttentionSpec& other = block.attention;
      if (other.mask != MaskKind::kWindow || (has && other.window == right)) continue;
      if (std::find(others.begin(), others.end(), other.window) != others.end()) continue;
      others.push_back(other.window);
      add(fmt::format("a window of {}, that of the other kind of layers", other.window),
          other.window);
    }
    forms.add({.yours = "another window",
               .reference = reference,
               .usual_place = "the config reader: sliding_window, layer_types",
               .fix = fix},
              place.shown({attention.pattern}),
              change_params(attention.mix,
                            [](AttentionParams& params, Numbers n) {
                              params.mask = MaskKind::kWindow;
                              params.window = static_cast<int64_t>(n[0]);
                            }),
              {{.name = "window",
                .low = 1,
                .high = 1e6,
                .whole = true,
                .logarithmic = true,
                // 4 shows in a short text, where somebody makes the mistake to see it.
                .usual = without({4, 4096, 1024, 512, 2048}, static_cast<double>(right))}});
  }
}

}  // namespace mainstem::causes
