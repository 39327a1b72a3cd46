#include "generate.h"

#include <algorithm>

#include "mainstem/error.h"

namespace mainstem::python {
namespace {

/// "eos" for the token that ends a text, "stop" for another one that ends an answer, else null.
const char* end_reason(const Model& model, int64_t id) {
  const auto& ends = model.end_ids();
  if (std::find(ends.begin(), ends.end(), id) == ends.end()) return nullptr;
  if (model.has_tokenizer() && model.tokenizer().eos_id().value_or(id) != id) return "stop";
  return "eos";
}

}  // namespace

Generated generate(const Model& model, SequenceInput prompt, const GenerateOptions& options,
                   const CancelFlag& cancel) {
  if (model.spec().head.kind == HeadKind::kNone) {
    throw usage_error("generate", "a model with a head that predicts tokens", "none");
  }
  Sampler sampler(options.sampling);
  Session session(model.bound(),
                  {.compute = options.compute, .threads = options.threads, .cancel = &cancel});
  prompt.sequence = session.add_sequence();
  std::vector<int64_t> history = prompt.tokens;
  const int64_t context = model.spec().context_length;
  Generated made;
  for (SequenceInput input = std::move(prompt); std::ssize(made.ids) < options.count;) {
    std::vector<float> logits = session.forward({&input, 1});
    forbid_words(model.bad_words(), history, logits);
    const int64_t id = sampler.sample(logits, history);
    if (const char* reason = end_reason(model, id); reason != nullptr && !options.ignore_eos) {
      made.stop = reason;
      break;
    }
    history.push_back(id);
    made.ids.push_back(id);
    if (context > 0 && std::ssize(history) >= context) break;
    input = {.sequence = input.sequence, .tokens = {id}};
  }
  return made;
}

}  // namespace mainstem::python
