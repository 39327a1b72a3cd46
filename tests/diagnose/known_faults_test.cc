// The table of known faults against the forms and families that it speaks of.

#include "diagnose/known_faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "diagnose/causes_check.h"
#include "diagnose/made_dump.h"
#include "mainstem/doctor.h"
#include "support/random_model.h"

namespace mainstem {
namespace {

using namespace mainstem::testing;

struct Told {
  std::string cause, yours, fault;
};

void note_forms(const Program& program, const WeightSources& sources, std::vector<Told>& told) {
  for (const Form& form : forms(program, sources, 0)) {
    told.push_back({form.cause, form.yours, form.known_fault});
  }
}

TEST(KnownFaults, EachIsAFormThatExists) {
  std::vector<Told> told;
  std::set<std::string> families;
  for (const std::string& name : golden_families()) {
    const Model model = load_family(name);
    families.insert(model.family());
    note_forms(model.program(), model.weights(), told);
  }
  ModelSpec spec = small_decoder();
  RotaryScaling& scaling = spec.stack.blocks[0].attention.rotary->scaling;
  scaling.kind = RotaryScalingKind::kDynamic;
  scaling.factor = 2;
  scaling.original_context = 4;
  const TestModel dynamic = make_model(spec, 3);
  note_forms(dynamic.program(), dynamic.sources, told);
  EXPECT_GE(known_faults().size(), 6U);
  for (const KnownFault& fault : known_faults()) {
    EXPECT_TRUE(std::any_of(told.begin(), told.end(),
                            [&](const Told& each) {
                              return each.cause == fault.cause &&
                                     each.yours.starts_with(fault.yours) &&
                                     each.fault == fault.what;
                            }))
        << fault.cause << ": " << fault.yours;
    for (std::string_view family : fault.families) {
      EXPECT_TRUE(families.contains(std::string(family))) << family;
      EXPECT_EQ(known_fault(fault.cause, fault.yours, family), fault.what);
    }
    if (!fault.families.empty()) {
      EXPECT_EQ(known_fault(fault.cause, fault.yours, "bert"), "");
    }
  }
}

/// The doctor's one cause of a dump that was made with a form.
Cause told_of(const std::string& family, int layer, const std::string& cause,
              const std::string& part) {
  const Model model = load_family(family);
  const Form form = form_of(forms(model.program(), model.weights(), layer), cause, part);
  const MadeDump made(bind(form.make(usual(form)), model.weights()), some_input(model, 11),
                      {.compute = Compute::kF32});
  const DoctorReport report = doctor(model, made.open());
  EXPECT_EQ(report.causes.size(), 1U);
  return report.causes.empty() ? Cause{} : report.causes.front();
}

TEST(KnownFaults, AreNamedInTheirFamilies) {
  const Cause falcon = told_of("falcon_rw", 0, "attn.position_bias", "twice");
  EXPECT_EQ(falcon.id, "attn.position_bias");
  EXPECT_NE(falcon.known_fault.find("transformers up to 5.24, Falcon"), std::string::npos);
  const Cause cohere = told_of("cohere", 0, "rope.pairing", "by the angles of an interleaved");
  EXPECT_NE(cohere.known_fault.find("TransformerLens 3.9"), std::string::npos);
  const Cause mistral = told_of("mistral", 0, "attn.window", "no window");
  EXPECT_NE(mistral.known_fault.find("llama.cpp, Mistral"), std::string::npos);
  const Cause neox = told_of("gpt_neox", 0, "mlp.activation", "half-precision table");
  EXPECT_NE(neox.known_fault.find("llama.cpp on CPU"), std::string::npos);
}

TEST(KnownFaults, AreNotNamedInOthers) {
  const Cause gemma2 = told_of("gemma2", 0, "attn.softcap", "no soft cap");
  EXPECT_EQ(gemma2.id, "attn.softcap");
  EXPECT_EQ(gemma2.known_fault, "");
  const Cause gemma3 = told_of("gemma3", 0, "attn.window", "no window");
  EXPECT_EQ(gemma3.id, "attn.window");
  EXPECT_EQ(gemma3.known_fault, "");
  const Cause gptj = told_of("gptj", 0, "rope.pairing", "by the angles of an interleaved");
  EXPECT_EQ(gptj.id, "rope.pairing");
  EXPECT_EQ(gptj.known_fault, "");
}

}  // namespace
}  // namespace mainstem
