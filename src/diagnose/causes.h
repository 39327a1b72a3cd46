#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainstem/program.h"
#include "mainstem/weights.h"

// The known mistakes as edits of a program. One table serves --break and the doctor.

namespace mainstem {

/// A program with a mistake in it, and the weights it reads in place of the model's.
struct Edited {
  Program program;
  WeightSources weights = {};  ///< by the program's weight names; the rest are the model's
  bool every_row = false;      ///< numbers are looked for on every row: a few do not tell them
};

/// A number that a form of a mistake leaves open.
struct FreeNumber {
  std::string name;           ///< "eps"
  double low = 0, high = 0;   ///< where to look
  bool whole = false;         ///< whole numbers only
  bool logarithmic = false;   ///< spread by factors, not by differences
  std::vector<double> usual;  ///< tried first, as published code has them; [0] is what --break does
};

/// One way of making one mistake at one place.
struct Form {
  std::string cause;         ///< "rope.pairing"
  int layer = -1;            ///< the block; -1: outside of them
  std::string yours;         ///< what the wrong code does: "pairs (2i, 2i+1)"
  std::string reference;     ///< what the model's files ask for
  std::string usual_place;   ///< where in code the mistake is usually found
  std::string fix;           ///< one sentence
  std::string known_fault;   ///< of which implementation, in families that it has it in, or empty
  bool only_rounds = false;  ///< the same values but for round-off of a 16-bit type
  /// Sites whose value is another one on the same inputs, in program order.
  std::vector<SiteId> shows;
  std::vector<FreeNumber> numbers;  ///< none, one or two
  /// Of a mistake that is made in several blocks at once: which, and whether of the encoder.
  std::vector<std::pair<int, bool>> blocks = {};
  /// The program and weights with the mistake; `numbers` as many as above.
  std::function<Edited(std::span<const double> numbers)> make;
};

/// What the wrong code does, with the numbers: "another eps in norm1: eps = 0".
std::string yours_text(const Form& form, std::span<const double> numbers);

/// Every form that applies to the block (or, with -1, to what lies outside the blocks; with
/// `encoder` to the encoder's), most usual first.
std::vector<Form> forms(const Program& program, const WeightSources& weights, int layer,
                        bool encoder = false);

/// One of them by its words, or none.
std::optional<Form> find_form(const Program& program, const WeightSources& weights, int layer,
                              bool encoder, std::string_view cause, std::string_view yours);
/// The mistake in several blocks, made in one after the other; blocks in which it cannot be made
/// stay right.
Form in_blocks(const Program& program, const WeightSources& weights, const Form& form,
               std::vector<std::pair<int, bool>> blocks);
/// The weights of both, those of the edit first.
WeightSources merged(const WeightSources& edited, const WeightSources& others);

}  // namespace mainstem
