// A block on its own, with weights that the caller owns.
#include <mainstem/session.h>

#include <iostream>
#include <map>

int main() {
  const mainstem::BlockSpec spec{
      .width = 8,
      .attention = {.heads = 2, .kv_heads = 1, .head_width = 4, .score_scale = 0.5},
      .mlp = {.hidden = 16}};
  const mainstem::Program program = mainstem::build_block_program(spec);

  std::map<std::string, std::vector<float>> memory;
  mainstem::WeightSources weights;
  for (const mainstem::WeightInfo& weight : program.weights) {
    std::vector<float>& values = memory[weight.name];
    values.assign(static_cast<size_t>(mainstem::element_count(weight.shape)), 0.125F);
    weights[weight.name].tensor = {mainstem::DType::kF32, weight.shape, values.data()};
  }

  auto bound = std::make_shared<mainstem::BoundProgram>(program, weights);
  mainstem::Session session(bound, {.sites = mainstem::all_sites(program)});
  const mainstem::SequenceInput input{.sequence = session.add_sequence(),
                                      .input = std::vector<double>(4 * 8, 1.0)};
  session.forward({&input, 1}, [](const mainstem::TraceEvent& event) {
    std::cout << to_string(event.site) << ' ' << mainstem::to_string(event.value.shape()) << '\n';
  });
}
