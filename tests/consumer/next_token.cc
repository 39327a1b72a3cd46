#include <mainstem/model.h>

#include <algorithm>
#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  auto model = mainstem::Model::load(argv[1]);
  mainstem::Session session(model.bound(), {.sites = {*mainstem::parse_site("blocks.0.pattern")}});
  mainstem::SequenceInput input{.sequence = session.add_sequence(),
                                .tokens = model.tokenizer().encode(argv[2])};
  auto logits = session.forward({&input, 1}, [](const mainstem::TraceEvent& event) {
    std::cout << to_string(event.site) << ' ' << mainstem::to_string(event.value.shape()) << '\n';
  });
  std::cout << model.tokenizer().piece(std::ranges::max_element(logits) - logits.begin()) << '\n';
} catch (const std::exception& error) {  // mainstem::Error says what, expected, got and where
  std::cerr << error.what() << '\n';
  return 1;
}
