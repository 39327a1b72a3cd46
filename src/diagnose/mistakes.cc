// Known mistakes made on purpose: the most usual form of each cause, in all blocks or in one.

#include <algorithm>
#include <charconv>
#include <optional>

#include "diagnose/causes/norm_rows.h"
#include "diagnose/causes/place.h"
#include "mainstem/check.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

using causes::Place;

/// Changes the program at a place; false where there is nothing to change.
using Edit = bool (*)(const Place& place, Program& program);

/// The stream that leaves a block is kept in a half type.
bool round_stream(const Place& place, Program& program, DType dtype) {
  const auto stream = place.find(Site::kResidPost);
  if (!stream) return false;
  insert_before(program, *stream,
                custom_step({.note = "x in " + std::string(name(dtype)),
                             .apply = [dtype](std::span<const std::span<const double>> in,
                                              std::span<double> out, int64_t) {
                               std::transform(
                                   in[0].begin(), in[0].end(), out.begin(),
                                   [dtype](double x) { return causes::rounded_to(dtype, x); });
                             }}));
  return true;
}

/// Causes that are no form of a program's edit: the doctor finds them otherwise.
struct OtherRow {
  MistakeInfo info;
  Edit edit;
};

const std::vector<OtherRow>& rows_before() {
  static const std::vector<OtherRow> rows = {
      {{"input.tokens", "each token's row is that of the next id"},
       [](const Place& place, Program& program) {
         const auto table = place.find(Site::kTokenEmbed);
         if (place.layer() >= 0 || !table) return false;
         std::get<EmbedParams>(maker(program, *table).params).offset = 1;
         return true;
       }}};
  return rows;
}

const std::vector<OtherRow>& rows_behind() {
  static const std::vector<OtherRow> rows = {
      {{"precision.overflow", "the stream is kept in float16: beyond 65504 it is infinite"},
       [](const Place& place, Program& program) {
         return round_stream(place, program, DType::kF16);
       }},
      {{"precision.dtype", "the stream is kept in bfloat16"},
       [](const Place& place, Program& program) {
         return round_stream(place, program, DType::kBF16);
       }}};
  return rows;
}

std::string list_ids() {
  std::string text;
  for (const MistakeInfo& info : known_mistakes()) text += (text.empty() ? "" : ", ") + info.id;
  return text;
}

/// Makes the mistake at one place; false where it does not apply.
bool make_at(BrokenModel& model, const std::string& id, int layer, bool encoder) {
  const Place place(model.program, model.weights, layer, encoder);
  for (const auto* rows : {&rows_before(), &rows_behind()}) {
    for (const OtherRow& row : *rows) {
      if (row.info.id != id) continue;
      if (model.what.empty()) model.what = row.info.what;
      return row.edit(place, model.program);
    }
  }
  for (const causes::CauseRow& row : causes::cause_rows()) {
    if (row.id != id) continue;
    const std::vector<Form> forms = causes::forms_of(row, place);
    if (forms.empty()) return false;
    std::vector<double> numbers;
    for (const FreeNumber& number : forms.front().numbers) numbers.push_back(number.usual.front());
    if (model.what.empty()) model.what = yours_text(forms.front(), numbers);
    Edited edited = forms.front().make(numbers);
    model.program = std::move(edited.program);
    for (auto& [name, source] : edited.weights) model.weights[name] = std::move(source);
    return true;
  }
  return false;
}

}  // namespace

Mistake parse_mistake(const std::string& text) {
  Mistake mistake;
  const size_t at = text.find('@');
  mistake.id = text.substr(0, at);
  const auto& known = known_mistakes();
  if (std::none_of(known.begin(), known.end(),
                   [&](const MistakeInfo& info) { return info.id == mistake.id; })) {
    throw usage_error("mistake", "one of " + list_ids(), mistake.id);
  }
  if (at == std::string::npos) return mistake;
  const char* begin = text.data() + at + 1;
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(begin, end, mistake.layer);
  if (status != std::errc() || stop != end || mistake.layer < 0) {
    throw usage_error("block of a mistake", "a number from 0, as in " + mistake.id + "@3",
                      text.substr(at + 1));
  }
  return mistake;
}

const std::vector<MistakeInfo>& known_mistakes() {
  static const std::vector<MistakeInfo> infos = [] {
    std::vector<MistakeInfo> result;
    for (const OtherRow& row : rows_before()) result.push_back(row.info);
    for (const causes::CauseRow& row : causes::cause_rows()) {
      result.push_back({std::string(row.id), std::string(row.what)});
    }
    for (const OtherRow& row : rows_behind()) result.push_back(row.info);
    return result;
  }();
  return infos;
}

BrokenModel make_mistake(const Program& program, const WeightSources& weights,
                         const Mistake& mistake) {
  const auto blocks = static_cast<int>(program.spec.stack.blocks.size());
  if (mistake.layer >= blocks) {
    throw usage_error("block of a mistake", "0 to " + std::to_string(blocks - 1),
                      std::to_string(mistake.layer));
  }
  BrokenModel model{program, weights};
  bool made = false;
  for (int layer = 0; layer < blocks; ++layer) {
    if (mistake.layer < 0 || mistake.layer == layer) {
      made |= make_at(model, mistake.id, layer, false);
    }
  }
  if (!made && mistake.layer < 0) made = make_at(model, mistake.id, -1, false);
  if (!made) {
    throw usage_error("mistake " + mistake.id, "a model that it can be made in",
                      "one without anything to break that way");
  }
  return model;
}

}  // namespace mainstem
