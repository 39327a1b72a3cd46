// Values between the inputs of attention and its output, changed during a pass. (What later steps
// make of a changed value is held against the oracle in session_test.cc.)

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/compare.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

using Sites = std::map<std::string, std::vector<double>>;

Sites pass(Session& session, const SequenceInput& input, const ValuePatch& patch = {}) {
  Sites values;
  session.forward_all(
      {&input, 1},
      [&](const TraceEvent& event) { values[to_string(event.site)] = to_f64(event.value); }, patch);
  return values;
}

Session open(const TestModel& model, Compute compute = Compute::kF64, int threads = 1) {
  Session session(model.bound,
                  {.compute = compute, .threads = threads, .sites = all_sites(model.program())});
  session.add_sequence();
  return session;
}

void expect_same(const Sites& got, const Sites& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [site, values] : want) EXPECT_TRUE(same_bits(got.at(site), values)) << site;
}

TEST(Patch, OneThatChangesNothingChangesNothing) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed + 40);
    const Kind kind = seed % 3 == 0 ? Kind::kEncoderDecoder : Kind::kDecoder;
    const TestModel model = make_model(random_spec(dice, kind), seed);
    SequenceInput input = random_input(model, dice, 7);
    if (seed % 2 == 0) input.left_padding = 2;
    Session plain = open(model);
    const Sites want = pass(plain, input);
    for (const int threads : {1, 3}) {
      Session patched = open(model, Compute::kF64, threads);
      expect_same(pass(patched, input, [](const TraceEvent&, void*) {}), want);
    }
  }
}

/// Entries of scores that the program's mask hides may hold anything.
TEST(Patch, MaskedScoresAreNotRead) {
  for (const Compute compute : {Compute::kF64, Compute::kF32}) {
    ModelSpec spec = small_decoder();
    const TestModel model = make_model(spec, 5);
    Dice dice(6);
    SequenceInput input = random_input(model, dice, 6);
    input.left_padding = 1;
    Session plain = open(model, compute);
    const Sites want = pass(plain, input, [](const TraceEvent&, void*) {});
    Session patched = open(model, compute);
    int changed = 0;
    const Sites got = pass(patched, input, [&](const TraceEvent& event, void* data) {
      if (event.site.site != Site::kScores) return;
      for (int64_t i = 0; i < event.value.count(); ++i) {
        const int64_t t = i / 6 % 6, s = i % 6;
        if (t >= 1 && s >= 1 && s <= t) continue;
        ++changed;
        if (compute == Compute::kF64) {
          static_cast<double*>(data)[i] = std::numeric_limits<double>::quiet_NaN();
        } else {
          static_cast<float*>(data)[i] = std::numeric_limits<float>::infinity();
        }
      }
    });
    EXPECT_GT(changed, 0);
    expect_same(got, want);
  }
}

/// A pattern that somebody gives counts at every key, also where the mask hides it.
TEST(Patch, APatternCountsAtEveryKey) {
  const TestModel model = make_model(small_decoder(), 5);
  Dice dice(6);
  const SequenceInput input = random_input(model, dice, 5);
  for (const int64_t key : {0, 3, 4}) {
    Session session = open(model);
    const Sites got = pass(session, input, [&](const TraceEvent& event, void* data) {
      if (event.site.site != Site::kPattern || event.site.layer != 0) return;
      for (int64_t i = 0; i < event.value.count(); ++i) {
        static_cast<double*>(data)[i] = i % 5 == key ? 2 : 0;
      }
    });
    const AttentionParams* params = nullptr;
    for (const Step& step : model.program().steps) {
      if (step.op == Op::kAttention && params == nullptr) {
        params = &std::get<AttentionParams>(step.params);
      }
    }
    const std::vector<double>& v = got.at("blocks.0.v");
    const std::vector<double>& mix = got.at("blocks.0.attn_mix");
    const int64_t group = params->heads / params->kv_heads;
    for (int64_t t = 0; t < 5; ++t) {
      for (int64_t h = 0; h < params->heads; ++h) {
        for (int64_t e = 0; e < params->head_width; ++e) {
          const int64_t from = (key * params->kv_heads + h / group) * params->head_width + e;
          EXPECT_EQ(mix.at(static_cast<size_t>((t * params->heads + h) * params->head_width + e)),
                    2 * v.at(static_cast<size_t>(from)));
        }
      }
    }
  }
}

/// What takes the place of cached keys and values is read by the pass and by those after it: the
/// same as if the passes before had written it.
TEST(Patch, TheCacheKeepsWhatIsWritten) {
  for (const Compute compute : {Compute::kF64, Compute::kF32}) {
    const TestModel model = make_model(small_decoder(), 12);
    Dice dice(13);
    const SequenceInput first = random_input(model, dice, 4);
    const SequenceInput second = random_input(model, dice, 2);
    const Step* attention = nullptr;
    for (const Step& step : model.program().steps) {
      if (step.op == Op::kAttention && attention == nullptr) attention = &step;
    }
    const auto name_of = [&](ValueId id) {
      for (const NamedValue& named : model.program().sites) {
        if (named.value == id) return to_string(named.site);
      }
      return std::string();
    };
    const std::string keys = name_of(attention->inputs[1]), values = name_of(attention->inputs[2]);
    const auto fill = [&](const TraceEvent& event, void* data, int64_t first_row) {
      const std::string site = to_string(event.site);
      const bool is_key = site == keys || site == "blocks.0.k_cache";
      if (!is_key && site != values && site != "blocks.0.v_cache") return;
      const int64_t rows = event.value.dim(1), width = event.value.count() / rows;
      for (int64_t i = 0; i < event.value.count(); ++i) {
        const double x = std::sin(static_cast<double>((first_row + i / width) * 31 + i % width) +
                                  (is_key ? 0 : 1));
        if (compute == Compute::kF64) {
          static_cast<double*>(data)[i] = static_cast<double>(static_cast<float>(x));
        } else {
          static_cast<float*>(data)[i] = static_cast<float>(x);
        }
      }
    };
    Session direct = open(model, compute), cached = open(model, compute);
    pass(direct, first, [&](const TraceEvent& e, void* data) { fill(e, data, 0); });
    pass(cached, first, [](const TraceEvent&, void*) {});
    const Sites want = pass(direct, second, [&](const TraceEvent& e, void* data) {
      if (!to_string(e.site).ends_with("_cache")) fill(e, data, 4);
    });
    const Sites got = pass(cached, second, [&](const TraceEvent& e, void* data) {
      if (to_string(e.site).ends_with("_cache")) fill(e, data, 0);
    });
    EXPECT_TRUE(same_bits(got.at("blocks.0.attn_mix"), want.at("blocks.0.attn_mix")));
    EXPECT_TRUE(same_bits(got.at("blocks.0.resid_post"), want.at("blocks.0.resid_post")));
    const Sites later_want = pass(direct, second), later_got = pass(cached, second);
    EXPECT_TRUE(same_bits(later_got.at("blocks.0.k_cache"), later_want.at("blocks.0.k_cache")));
    EXPECT_TRUE(same_bits(later_got.at("blocks.0.attn_mix"), later_want.at("blocks.0.attn_mix")));
  }
}

}  // namespace
}  // namespace mainstem::testing
