#include "runtime/chunks.h"

#include <variant>

#include "runtime/rotary_table.h"

namespace mainstem {

bool can_chunk(const Program& program, int64_t end) {
  for (const Step& step : program.steps) {
    if (step.op == Op::kAttention) {
      const auto& params = std::get<AttentionParams>(step.params);
      const bool of_encoder = program.value(step.output).rows == Rows::kEncoder;
      if (params.mask == MaskKind::kFull && !params.cross && !of_encoder) return false;
    } else if (step.op == Op::kRotary) {
      const RotarySpec& rotary = std::get<RotaryParams>(step.params).rotary;
      if (goes_by_length(rotary) && end > rotary.scaling.original_context) return false;
    }
  }
  return true;
}

}  // namespace mainstem
