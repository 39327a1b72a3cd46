// Heads that are split, paired or merged wrongly.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "diagnose/causes/channels.h"

namespace mainstem::causes {
namespace {

/// How the rows of one fused matrix of q, k and v lie.
enum class Fused : uint8_t {
  kBlocks,      ///< all of q, all of k, all of v
  kPerGroup,    ///< of each kv head: its q heads, its k, its v
  kPerChannel,  ///< of each head and channel: q, k, v
};

std::string_view text(Fused fused, bool grouped) {
  switch (fused) {
    case Fused::kBlocks:
      return "three blocks [Q; K; V]";
    case Fused::kPerGroup:
      return grouped ? "per kv head [its q heads, k, v]" : "per head [q, k, v]";
    case Fused::kPerChannel:
      return "per channel of each head [q, k, v]";
  }
  return {};
}

/// Which row of [Q; K; V] each row of the fused matrix is.
std::vector<int64_t> fused_rows(Fused fused, const AttentionSpec& spec) {
  const int64_t width = spec.head_width;
  const int64_t q = spec.heads * width, kv = spec.kv_heads * width;
  const int64_t group = spec.heads / spec.kv_heads;
  std::vector<int64_t> rows;
  const auto add = [&](int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) rows.push_back(first + i);
  };
  switch (fused) {
    case Fused::kBlocks:
      add(0, q + 2 * kv);
      break;
    case Fused::kPerGroup:
      for (int64_t g = 0; g < spec.kv_heads; ++g) {
        add(g * group * width, group * width);
        add(q + g * width, width);
        add(q + kv + g * width, width);
      }
      break;
    case Fused::kPerChannel:
      for (int64_t i = 0; i < q; ++i) {
        for (int64_t part : {i, q + i, q + kv + i}) rows.push_back(part);
      }
      break;
  }
  return rows;
}

/// q, k and v become picks of what the three products give together.
void split_anew(Program& program, const AttentionAt& attention, const std::vector<int64_t>& from) {
  const std::vector<ValueId> values{attention.q, attention.k, attention.v};
  std::vector<ValueId> products;
  ValueId last = attention.v;
  size_t first = 0;
  for (ValueId value : values) {
    const auto width = static_cast<size_t>(program.value(value).width);
    std::vector<int64_t> own(from.begin() + static_cast<std::ptrdiff_t>(first),
                             from.begin() + static_cast<std::ptrdiff_t>(first + width));
    first += width;
    const ValueId made =
        insert_step(program, last, custom_step(pick_channels("split otherwise", std::move(own))));
    // The product makes the new value, and the pick the one that has the name.
    Value& fresh = program.values[static_cast<size_t>(made)];
    Value& named = program.values[static_cast<size_t>(value)];
    maker(program, value).output = made;
    maker(program, made).output = value;
    const StepId pick = fresh.producer;
    fresh = named;
    named.producer = pick;
    products.push_back(made);
    last = value;
  }
  for (ValueId value : values) maker(program, value).inputs = products;
}

/// Of q, k and v those that are not what they were.
std::vector<ValueId> taken_from_elsewhere(const Place& place, const AttentionAt& attention,
                                          const std::vector<int64_t>& from) {
  std::vector<ValueId> changed;
  int64_t first = 0;
  for (ValueId value : {attention.q, attention.k, attention.v}) {
    const int64_t width = place.program().value(value).width;
    for (int64_t i = first; i < first + width; ++i) {
      if (from[static_cast<size_t>(i)] == i) continue;
      changed.push_back(value);
      break;
    }
    first += width;
  }
  return changed;
}

/// The reader takes the fused matrix for that of a model with fewer kv heads. Here every kv head
/// that is missing is the one that its query heads read instead: what attention makes is the same.
void fewer_kv_heads(const Place& place, Forms& forms, Fused lie) {
  const AttentionAt& attention = place.attentions().front();
  const AttentionSpec& spec = *attention.spec;
  const auto is = fused_rows(lie, spec);
  for (int64_t fewer = 1; fewer < spec.kv_heads; ++fewer) {
    if (spec.kv_heads % fewer != 0) continue;
    AttentionSpec wrong = spec;
    wrong.kv_heads = fewer;
    const auto taken_for = inverse(fused_rows(lie, wrong));
    std::vector<int64_t> from;
    const auto take = [&](int64_t first, int64_t heads, int64_t shared_by) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t e = 0; e < spec.head_width; ++e) {
          const int64_t row = first + h / shared_by * spec.head_width + e;
          from.push_back(is[static_cast<size_t>(taken_for[static_cast<size_t>(row)])]);
        }
      }
    };
    const int64_t q = spec.heads * spec.head_width;
    take(0, spec.heads, 1);
    take(q, spec.kv_heads, spec.kv_heads / fewer);
    take(q + fewer * spec.head_width, spec.kv_heads, spec.kv_heads / fewer);
    const std::string_view layout = text(lie, true);
    forms.add({.yours = fmt::format("fused rows read as those of {} kv heads, {}", fewer, layout),
               .reference = fmt::format("there are {} kv heads", spec.kv_heads),
               .usual_place = "the config reader: another key holds the number of kv heads "
                              "(num_kv_heads, n_head_kv, multi_query)",
               .fix = fmt::format("Read {} kv heads.", spec.kv_heads)},
              place.shown(taken_from_elsewhere(place, attention, from)),
              [attention, from](Edited& edited, Numbers) {
                split_anew(edited.program, attention, from);
              });
  }
}

/// The file holds one fused matrix whose rows are not three blocks.
bool lies_per_group(const Place& place, const AttentionAt& attention) {
  const auto q = source_of(place, attention.q, 0), k = source_of(place, attention.k, 0);
  if (!q || !k || q->tensor.data() != k->tensor.data() || q->row_order.empty()) return false;
  const auto& order = q->row_order;
  return order.back() - order.front() + 1 != static_cast<int64_t>(order.size());
}

Change set_kv_map(ValueId mix, std::vector<int64_t> map) {
  return [mix, map = std::move(map)](Edited& edited, Numbers) {
    std::get<AttentionParams>(maker(edited.program, mix).params).kv_map = map;
  };
}

}  // namespace

void attn_qkv_split(const Place& place, Forms& forms) {
  if (place.block() == nullptr) return;
  const AttentionAt& attention = place.attentions().front();
  const AttentionSpec& spec = *attention.spec;
  std::vector<Fused> layouts{Fused::kBlocks, Fused::kPerGroup};
  if (spec.kv_heads == spec.heads) layouts.push_back(Fused::kPerChannel);
  // The file's own layout first.
  if (lies_per_group(place, attention)) std::swap(layouts[0], layouts[1]);
  for (Fused right : layouts) {
    for (Fused wrong : layouts) {
      if (right == wrong) continue;
      // Fused row i is row right[i] of [Q; K; V]; the reader takes it for row wrong[i].
      const auto is = fused_rows(right, spec), taken_for = inverse(fused_rows(wrong, spec));
      const auto from = composed(is, taken_for);
      const bool grouped = spec.kv_heads != spec.heads;
      forms.add({.yours = fmt::format("fused rows read as {}", text(wrong, grouped)),
                 .reference = fmt::format("they lie as {}", text(right, grouped)),
                 .usual_place = "the loader's split of the fused query_key_value matrix",
                 .fix = fmt::format("Split the fused matrix as {}.", text(right, grouped))},
                place.shown(taken_from_elsewhere(place, attention, from)),
                [attention, from](Edited& edited, Numbers) {
                  split_anew(edited.program, attention, from);
                });
    }
  }
  for (Fused right : layouts) {
    if (right != Fused::kPerChannel) fewer_kv_heads(place, forms, right);
  }
}

void attn_kv_swapped(const Place& place, Forms& forms) {
  for (const AttentionAt& attention : place.attentions()) {
    const Words words{.yours = "the matrices of k and v are exchanged",
                      .reference = "each has its own",
                      .usual_place = "the loader's table of names, or the split of a fused matrix",
                      .fix = "Give k and v the matrices of their own names."};
    const bool products = place.is(attention.k, Op::kLinear) && place.is(attention.v, Op::kLinear);
    if (products) {
      forms.add(words, place.shown({attention.k, attention.v}),
                [k = attention.k, v = attention.v](Edited& edited, Numbers) {
                  std::swap(maker(edited.program, k).weights, maker(edited.program, v).weights);
                });
    }
    Words read = words;
    read.yours = "attention takes v for keys and k for values";
    read.reference = "q · kᵀ, then pattern · v";
    read.usual_place = "the arguments of the attention function, or the cache";
    read.fix = "Hand keys and values over in their order.";
    forms.add(read, place.shown({attention.scores, attention.mix}),
              [mix = attention.mix](Edited& edited, Numbers) {
                auto& inputs = maker(edited.program, mix).inputs;
                std::swap(inputs[1], inputs[2]);
              });
    for (bool both_keys : {true, false}) {
      if (!products) break;
      const ValueId changed = both_keys ? attention.v : attention.k;
      const ValueId other = both_keys ? attention.k : attention.v;
      Words one = words;
      one.yours = fmt::format("{0} is made by the matrix of {1}", both_keys ? "v" : "k",
                              both_keys ? "k" : "v");
      forms.add(one, place.shown({changed}), [changed, other](Edited& edited, Numbers) {
        maker(edited.program, changed).weights = maker(edited.program, other).weights;
      });
    }
  }
}

void attn_gqa_mapping(const Place& place, Forms& forms) {
  for (const AttentionAt& attention : place.attentions()) {
    const int64_t heads = attention.spec->heads, kv_heads = attention.spec->kv_heads;
    if (kv_heads == 1 || kv_heads == heads) continue;
    std::vector<std::vector<int64_t>> known;
    const auto map_of = [&](const auto& rule) {
      std::vector<int64_t> map;
      for (int64_t h = 0; h < heads; ++h) map.push_back(rule(h));
      return map;
    };
    known.push_back(map_of([&](int64_t h) { return h / (heads / kv_heads); }));
    const auto add = [&](const std::string& yours, std::vector<int64_t> map) {
      if (std::find(known.begin(), known.end(), map) != known.end()) return;
      known.push_back(map);
      forms.add({.yours = yours,
                 .reference = fmt::format("head h reads kv head h / {}", heads / kv_heads),
                 .usual_place = "where kv heads are repeated for the query heads: tiled (repeat) "
                                "instead of each repeated in place (repeat_interleave)",
                 .fix = fmt::format("Let query head h read kv head h / {}.", heads / kv_heads)},
                place.shown({attention.scores, attention.mix}),
                set_kv_map(attention.mix, std::move(map)));
    };
    add("head h reads kv head h mod K", map_of([&](int64_t h) { return h % kv_heads; }));
    for (int64_t divisor = 2; divisor < heads; ++divisor) {
      if (heads % divisor != 0) continue;
      add(fmt::format("head h reads kv head h / {}", divisor),
          map_of([&](int64_t h) { return h / divisor % kv_heads; }));
    }
    add("kv heads in reverse order",
        map_of([&](int64_t h) { return kv_heads - 1 - h / (heads / kv_heads); }));
    add("every head reads kv head 0", map_of([](int64_t) { return 0; }));
  }
}

void attn_head_merge(const Place& place, Forms& forms) {
  for (const AttentionAt& attention : place.attentions()) {
    const int64_t heads = attention.spec->heads, width = attention.spec->head_width;
    if (heads == 1) continue;
    const Site out = attention.cross ? Site::kCrossAttnOut : Site::kAttnOut;
    const Words words{.yours = "[H,T,E] taken for [T,H·E]: the head axis was not moved back",
                      .reference = "heads side by side, [T, H·E]",
                      .usual_place =
                          "the reshape before the output projection: a missing "
                          "transpose(1, 2)",
                      .fix = "Move the head axis behind the tokens, then merge it with E."};
    const auto moved = place.if_named(attention.mix, out);
    const auto shows = place.shown_behind(attention.mix, out);
    // Code that names the merged tensor, what the output projection reads, has it wrong already.
    const auto add = [&](const Words& how, const std::function<CustomParams()>& merge) {
      forms.add(how, shows, [=, mix = attention.mix](Edited& edited, Numbers) {
        insert_behind(edited.program, mix, custom_step(merge()), moved);
      });
      Words merged = how;
      merged.yours += ", in attn_mix itself";
      forms.add(merged, place.shown({attention.mix}),
                [=, mix = attention.mix](Edited& edited, Numbers) {
                  insert_before(edited.program, mix, custom_step(merge()));
                });
    };
    add(words, [heads, width] {
      CustomParams merged{.note = "[H,T,E] read as [T,H·E]"};
      merged.apply_sequence = [heads, width](std::span<const std::span<const double>> in,
                                             std::span<double> y, int64_t rows) {
        size_t at = 0;
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t t = 0; t < rows; ++t) {
            for (int64_t e = 0; e < width; ++e) {
              y[at++] = in[0][static_cast<size_t>((t * heads + h) * width + e)];
            }
          }
        }
      };
      return merged;
    });
    if (width == 1) continue;
    Words interleaved = words;
    interleaved.yours = "heads merged as [E,H]";
    interleaved.fix = "Merge [H,E], not [E,H].";
    std::vector<int64_t> order;
    for (int64_t e = 0; e < width; ++e) {
      for (int64_t h = 0; h < heads; ++h) order.push_back(h * width + e);
    }
    add(interleaved, [order] { return pick_channels("heads merged as [E,H]", order); });
  }
}

}  // namespace mainstem::causes
