// Diagrams of blocks over all axes of the spec: nothing overlaps, nothing is missing.

#include "mainstem/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "mainstem/error.h"
#include "program/draw_layout.h"
#include "support/random_model.h"
#include "support/xml.h"

namespace mainstem::draw {
namespace {

using testing::is_well_formed;

struct Case {
  std::string name;
  Program program;
};

BlockSpec base_block() {
  BlockSpec spec;
  spec.width = 576;
  spec.norm = {.kind = NormKind::kRms, .eps = 1e-5};
  spec.attention.heads = 9;
  spec.attention.kv_heads = 9;
  spec.attention.head_width = 64;
  spec.attention.score_scale = 0.125;
  spec.mlp = {.hidden = 1536};
  return spec;
}

enum class Positions { kNone, kRotary, kAlibi };
enum class QkNorm { kNone, kPerHead, kWholeAfterRotary };

BlockSpec with(BlockSpec spec, Positions positions, QkNorm norm) {
  AttentionSpec& attention = spec.attention;
  if (positions == Positions::kRotary) attention.rotary.emplace().width = 64;
  if (positions == Positions::kAlibi) attention.alibi_slopes.assign(9, 0.5);
  if (norm == QkNorm::kNone) return spec;
  attention.qk_norm.emplace().norm = spec.norm;
  if (norm == QkNorm::kWholeAfterRotary) {
    attention.qk_norm->scope = QkNormScope::kWhole;
    attention.qk_norm->after_rotary = positions == Positions::kRotary;
  }
  return spec;
}

bool is_valid(const BlockSpec& spec) {
  try {
    validate(spec);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Blocks over all axes that change what is drawn.
std::vector<Case> blocks() {
  std::vector<Case> cases;
  for (NormPlacement placement : {NormPlacement::kPre, NormPlacement::kPost,
                                  NormPlacement::kSandwich, NormPlacement::kOutputOnly}) {
    for (ResidualForm form :
         {ResidualForm::kSequential, ResidualForm::kParallel, ResidualForm::kParallelSharedNorm}) {
      for (Positions positions : {Positions::kNone, Positions::kRotary, Positions::kAlibi}) {
        for (QkNorm norm : {QkNorm::kNone, QkNorm::kPerHead, QkNorm::kWholeAfterRotary}) {
          for (int bits = 0; bits < 8; ++bits) {
            BlockSpec spec = with(base_block(), positions, norm);
            spec.placement = placement;
            spec.residual = form;
            spec.mlp.gated = (bits & 1) != 0;
            spec.attention.output_projection = (bits & 2) != 0;
            if ((bits & 4) != 0) {
              spec.residual_multiplier = 0.22;
              spec.attention.mask = MaskKind::kWindow;
              spec.attention.window = 512;
              spec.attention.soft_cap = 50;
              spec.norm = {.kind = NormKind::kLayer, .bias = true};
              spec.attention.q_bias = true;
            }
            if (!is_valid(spec)) continue;
            std::ostringstream name;
            name << mainstem::name(placement) << ' ' << mainstem::name(form) << " positions "
                 << static_cast<int>(positions) << " qk norm " << static_cast<int>(norm) << " bits "
                 << bits;
            cases.push_back({name.str(), build_block_program(spec)});
          }
        }
      }
    }
  }
  return cases;
}

std::vector<Case> encoder_decoders() {
  std::vector<Case> cases;
  for (NormPlacement placement : {NormPlacement::kPre, NormPlacement::kPost,
                                  NormPlacement::kSandwich, NormPlacement::kOutputOnly}) {
    for (bool gated : {false, true}) {
      for (bool qk_norm : {false, true}) {
        BlockSpec decoder = base_block();
        decoder.placement = placement;
        decoder.mlp.gated = gated;
        if (qk_norm) decoder = with(decoder, Positions::kRotary, QkNorm::kPerHead);
        BlockSpec encoder = decoder;
        encoder.attention.mask = MaskKind::kFull;
        decoder.cross_attention = encoder.attention;
        decoder.cross_attention->rotary.reset();
        ModelSpec spec;
        spec.vocab_size = 100;
        spec.stack.width = spec.stack.embed_width = 576;
        spec.encoder = spec.stack;
        spec.stack.blocks = {decoder, decoder};
        spec.encoder->blocks = {encoder, encoder};
        cases.push_back({"encoder-decoder, " + std::string(name(placement)) +
                             (gated ? ", gated" : "") + (qk_norm ? ", qk norm" : ""),
                         build_program(spec)});
      }
    }
  }
  return cases;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases = blocks();
  for (Case& each : encoder_decoders()) cases.push_back(std::move(each));
  testing::Dice dice(11);
  for (int i = 0; i < 200; ++i) {
    cases.push_back({"random " + std::to_string(i),
                     build_block_program(testing::random_block(dice, 48, i % 2 == 0))});
  }
  return cases;
}

/// The words of all names that are drawn.
std::multiset<std::string> drawn_names(const Layout& layout) {
  std::multiset<std::string> names;
  for (const Panel& panel : layout.panels) {
    for (const Text& text : panel.texts) {
      if (text.style != TextStyle::kName) continue;
      std::istringstream words(text.text);
      for (std::string word; words >> word;) {
        if (word != "=") names.insert(word);
      }
    }
  }
  return names;
}

std::multiset<std::string> block_sites(const Program& program, int layer) {
  std::multiset<std::string> names;
  for (const NamedValue& named : program.sites) {
    const Site site = named.site.site;
    if (named.site.layer != layer || site == Site::kKCache || site == Site::kVCache) continue;
    names.insert(std::string(name(site)));
  }
  return names;
}

TEST(Draw, NothingOverlapsAndNothingIsMissing) {
  int count = 0;
  for (const Case& each : all_cases()) {
    SCOPED_TRACE(each.name);
    const int last = static_cast<int>(each.program.spec.stack.blocks.size()) - 1;
    const BlockView view{each.program, last,
                         "A block with a heading that is not short, " + each.name + ", and " +
                             std::string(150, 'w')};
    const Scene scene = make_scene(view, nullptr);
    for (const Metrics& metrics :
         {svg_metrics(), text_metrics(80, false), text_metrics(80, true)}) {
      const Layout layout = lay_out(scene.blocks, scene.footer, metrics);
      LayoutChecker(scene, layout, metrics).check();
      EXPECT_EQ(drawn_names(layout), block_sites(each.program, last));
    }
    EXPECT_TRUE(is_well_formed(draw_svg(view)));
    if (HasFailure()) break;  // one example says enough
    ++count;
  }
  EXPECT_GT(count, 500);
}

TEST(Draw, TextFitsEightyColumns) {
  for (const Case& each : all_cases()) {
    std::istringstream lines(draw_text({each.program, 0, each.name}));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(count_characters(line), 80) << each.name << ": " << line;
      EXPECT_FALSE(line.ends_with(' '));
    }
    if (HasFailure()) break;
  }
}

/// Where there is little room, a box that has enough still says everything, and one that has not
/// says so.
TEST(Draw, LittleRoomHidesNothingSilently) {
  BlockSpec spec = with(base_block(), Positions::kRotary, QkNorm::kPerHead);
  spec.attention.mask = MaskKind::kWindow;
  spec.attention.window = 1024;
  spec.attention.q_bias = spec.attention.k_bias = spec.attention.output_bias = true;
  spec.attention.rotary->width = 32;
  const Program program = build_block_program(spec);
  const std::string text = draw_text({program, 0, ""}, 60);
  for (const char* part : {"softmax, window 1024", "q·kᵀ × 0.125", "Linear + bias",
                           "│ Linear… │ │ Linear… │ │ Linear  │", "│RMSNorm… │", "│  RoPE…  │"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Draw, TheStemHoldsOnlySumsAndTheNormsOfTheStream) {
  for (const Case& each : all_cases()) {
    SCOPED_TRACE(each.name);
    for (const Titled& block : make_scene({each.program, 0, ""}, nullptr).blocks) {
      const BlockGraph& graph = block.graph;
      EXPECT_EQ(graph.nodes[static_cast<size_t>(graph.stem.front())].sites.at(0), Site::kResidPre);
      const auto& last = graph.nodes[static_cast<size_t>(graph.stem.back())].sites;
      EXPECT_NE(std::find(last.begin(), last.end(), Site::kResidPost), last.end());
      for (size_t i = 1; i < graph.stem.size(); ++i) {
        const NodeKind kind = graph.nodes[static_cast<size_t>(graph.stem[i])].kind;
        EXPECT_TRUE(kind == NodeKind::kAdd || kind == NodeKind::kNorm);
      }
    }
  }
}

std::set<std::string> marked(const Scene& scene, size_t block) {
  std::set<std::string> names;
  for (const Node& node : scene.blocks[block].graph.nodes) {
    if (node.differs) names.insert(node.names());
  }
  return names;
}

using Names = std::set<std::string>;

TEST(Draw, StepsThatDifferAreMarked) {
  const BlockSpec pre = base_block();
  BlockSpec post = pre;
  post.placement = NormPlacement::kPost;
  const Program a = build_block_program(pre), b = build_block_program(post);
  const BlockView first{a, 0, "a"}, second{b, 0, "b"};
  const Scene placement = make_scene(first, &second);
  EXPECT_EQ(marked(placement, 0), (Names{"attn_norm", "mlp_norm"}));
  EXPECT_EQ(marked(placement, 1), (Names{"resid_mid", "resid_post"}));

  BlockSpec plain = pre;
  plain.mlp = {.hidden = 3072, .gated = false, .activation = Activation::kGeluTanh};
  const Program c = build_block_program(plain);
  const BlockView third{c, 0, "c"};
  const Scene mlp = make_scene(third, &first);
  EXPECT_EQ(marked(mlp, 0), (Names{"mlp_pre", "mlp_act = mlp_hidden", "mlp_proj = mlp_out"}));
  EXPECT_EQ(marked(mlp, 1),
            (Names{"mlp_gate", "mlp_value", "mlp_act", "mlp_hidden", "mlp_proj = mlp_out"}));

  BlockSpec eps = pre;
  eps.norm.eps = 1e-6;
  const Program d = build_block_program(eps);
  const BlockView fourth{d, 0, "d"};
  EXPECT_EQ(marked(make_scene(first, &fourth), 1), (Names{"attn_norm", "mlp_norm"}));

  const Program e = build_block_program(pre);
  const BlockView same{e, 0, "e"};
  const Scene none = make_scene(first, &same);
  EXPECT_EQ(marked(none, 0), Names{});
  EXPECT_EQ(marked(none, 1), Names{});

  const std::string svg = draw_svg(first, second);
  EXPECT_TRUE(is_well_formed(svg));
  size_t marks = 0;
  for (size_t at = svg.find(">≠<"); at != std::string::npos; at = svg.find(">≠<", at + 1)) ++marks;
  EXPECT_EQ(marks, 4U);
}

TEST(Draw, ComparedBlocksFitTheirPlaces) {
  const std::vector<Case> cases = blocks();
  for (size_t i = 0; i + 7 < cases.size(); i += 7) {
    SCOPED_TRACE(cases[i].name + " against " + cases[i + 7].name);
    const BlockView a{cases[i].program, 0, "short"};
    const BlockView b{cases[i + 7].program, 0,
                      "a heading that goes on for so long that it must be broken into lines"};
    const Scene scene = make_scene(a, &b);
    for (const Metrics& metrics : {svg_metrics(), text_metrics(80, true)}) {
      const Layout layout = lay_out(scene.blocks, scene.footer, metrics);
      LayoutChecker(scene, layout, metrics).check();
      if (metrics.unit == 0) {
        EXPECT_EQ(layout.panels[0].stem.y, layout.panels[1].stem.y);
      }
    }
  }
}

TEST(Draw, SvgIsForScreenReadersAndTwoColourSchemes) {
  const Program program = build_block_program(base_block());
  const std::string svg = draw_svg({program, 0, "R&D <\"x\"> \x01\xFF"});
  EXPECT_TRUE(is_well_formed(svg));
  for (const char* part :
       {"role=\"img\"", "aria-labelledby=\"title desc\"", "<title id=\"title\">Transformer block: ",
        "R&amp;D &lt;&quot;x&quot;&gt;  \xEF\xBF\xBD", "<desc id=\"desc\">",
        "attn_norm [B,T,D=576]: RMSNorm; resid_pre / √(mean(resid_pre²) + 1e-05) · γ.",
        "@media (prefers-color-scheme:dark)"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(svg, draw_svg({program, 0, "R&D <\"x\"> \x01\xFF"}));
}

TEST(Draw, ABlockThatDoesNotExistIsAUsageError) {
  const Program program = build_block_program(base_block());
  for (int layer : {-1, 1}) {
    try {
      draw_svg({program, layer, ""});
      ADD_FAILURE() << layer;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
    }
  }
}

constexpr const char* kPreNormSwiglu = R"(pre-norm, SwiGLU

  resid_pre ┃
[B,T,D=576] ┃
            ┃
            ┃  ┌──────────────────────────────────────────────────────┐
            ┠─▶│                       RMSNorm                        │
            ┃  │                attn_norm  [B,T,D=576]                │
            ┃  └───────┬──────────────────┬──────────────────┬────────┘
            ┃          ▼                  ▼                  ▼
            ┃  ┌────────────────┐ ┌────────────────┐ ┌────────────────┐
            ┃  │     Linear     │ │     Linear     │ │     Linear     │
            ┃  │       q        │ │       k        │ │       v        │
            ┃  │ [B,T,H=9,E=64] │ │ [B,T,K=3,E=64] │ │ [B,T,K=3,E=64] │
            ┃  └───────┬────────┘ └───────┬────────┘ └───────┬────────┘
            ┃          ▼                  ▼                  │
            ┃  ┌────────────────┐ ┌────────────────┐         │
            ┃  │      RoPE      │ │      RoPE      │         │
            ┃  │     q_rot      │ │     k_rot      │         │
            ┃  │ [B,T,H=9,E=64] │ │ [B,T,K=3,E=64] │         │
            ┃  └───────┬────────┘ └───────┬────────┘         │
            ┃          ▼                  ▼                  │
            ┃  ┌───────────────────────────────────┐         │
            ┃  │           q·kᵀ × 0.125            │         │
            ┃  │        scores  [B,H=9,T,S]        │         │
            ┃  └─────────────────┬─────────────────┘         │
            ┃                    ▼                           │
            ┃  ┌───────────────────────────────────┐         │
            ┃  │          softmax, causal          │         │
            ┃  │       pattern  [B,H=9,T,S]        │         │
            ┃  └─────────────────┬─────────────────┘         │
            ┃                    ▼                           ▼
            ┃  ┌──────────────────────────────────────────────────────┐
            ┃  │                     pattern · v                      │
            ┃  │               attn_mix  [B,T,H=9,E=64]               │
            ┃  └──────────────────────────┬───────────────────────────┘
            ┃                             ▼
            ┃  ┌──────────────────────────────────────────────────────┐
            ⊕◀─│                        Linear                        │
            ┃  │          attn_proj = attn_out  [B,T,D=576]           │
  resid_mid ┃  └──────────────────────────────────────────────────────┘
[B,T,D=576] ┃
            ┃
            ┃  ┌──────────────────────────────────────────────────────┐
            ┠─▶│                       RMSNorm                        │
            ┃  │                mlp_norm  [B,T,D=576]                 │
            ┃  └────────────┬────────────────────────────┬────────────┘
            ┃               ▼                            ▼
            ┃  ┌──────────────────────────┐ ┌─────────────────────────┐
            ┃  │          Linear          │ │         Linear          │
            ┃  │  mlp_gate  [B,T,F=1536]  │ │ mlp_value  [B,T,F=1536] │
            ┃  └────────────┬─────────────┘ └────────────┬────────────┘
            ┃               ▼                            │
            ┃  ┌──────────────────────────┐              │
            ┃  │           SiLU           │              │
            ┃  │  mlp_act  [B,T,F=1536]   │              │
            ┃  └────────────┬─────────────┘              │
            ┃               ▼                            ▼
            ┃  ┌──────────────────────────────────────────────────────┐
            ┃  │                      ⊙ multiply                      │
            ┃  │               mlp_hidden  [B,T,F=1536]               │
            ┃  └──────────────────────────┬───────────────────────────┘
            ┃                             ▼
            ┃  ┌──────────────────────────────────────────────────────┐
            ⊕◀─│                        Linear                        │
            ┃  │           mlp_proj = mlp_out  [B,T,D=576]            │
 resid_post ┃  └──────────────────────────────────────────────────────┘
[B,T,D=576] ┃
            ┃
            ▼

B batch · T query tokens · S key tokens · D model width · H query heads
K key/value heads · E head width · F MLP hidden width
)";

TEST(Draw, PreNormSwigluAsText) {
  BlockSpec spec = with(base_block(), Positions::kRotary, QkNorm::kNone);
  spec.attention.kv_heads = 3;
  const Program program = build_block_program(spec);
  std::istringstream want(kPreNormSwiglu), got(draw_text({program, 0, "pre-norm, SwiGLU"}));
  for (std::string expected, line; std::getline(want, expected);) {
    ASSERT_TRUE(std::getline(got, line)) << expected;
    ASSERT_EQ(line, expected);
  }
  EXPECT_EQ(got.peek(), EOF);
}

}  // namespace
}  // namespace mainstem::draw
