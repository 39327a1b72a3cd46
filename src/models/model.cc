#include "mainstem/model.h"

#include <mutex>
#include <set>

#include "mainstem/error.h"
#include "models/loaded_files.h"

namespace mainstem {
namespace fs = std::filesystem;

struct Model::Impl {
  fs::path path;
  std::string family_name;
  LoadedFiles files;  // without the program, which `bound` holds
  std::shared_ptr<const BoundProgram> bound;

  mutable std::once_flag tokenizer_once;
  mutable std::unique_ptr<Tokenizer> tokenizer;
  mutable std::once_flag end_ids_once;
  mutable std::vector<int64_t> end_ids;
};

Model Model::load(const fs::path& path, const LoadOptions& options) {
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  std::error_code status;
  if (!fs::exists(path, status)) {
    throw bad_input("model", "a folder with config.json or a .gguf file", "no such file")
        .in(path.string());
  }
  const std::string kind = path.extension().string();
  if ((kind == ".safetensors" || kind == ".json") && !fs::is_directory(path, status)) {
    throw bad_input("model", "a folder with config.json or a .gguf file", "one of its files")
        .in(path.string())
        .hint("give the folder: " + fs::absolute(path).parent_path().string());
  }
  impl->files = fs::is_directory(path) ? load_folder(path, options) : load_gguf(path);
  impl->family_name = impl->files.family->name;
  if (options.skip_tokenizer) impl->files.has_tokenizer = false;
  impl->bound = with_context(path.string(), [&] {
    return std::make_shared<BoundProgram>(std::move(impl->files.program), impl->files.sources);
  });
  Model model;
  model.impl_ = std::move(impl);
  return model;
}

const std::string& Model::family() const { return impl_->family_name; }
const fs::path& Model::path() const { return impl_->path; }
const std::shared_ptr<const BoundProgram>& Model::bound() const { return impl_->bound; }
const WeightSources& Model::weights() const { return impl_->files.sources; }
bool Model::has_tokenizer() const { return impl_->files.has_tokenizer; }
const std::vector<std::string>& Model::ignored_weights() const { return impl_->files.ignored; }
const std::vector<std::string>& Model::notes() const { return impl_->files.notes; }
const std::vector<fs::path>& Model::files() const { return impl_->files.files; }

std::vector<float> Model::forward(std::span<const int64_t> tokens, Compute compute,
                                  int threads) const {
  Session session(bound(), {.compute = compute, .threads = threads});
  const SequenceInput input{.sequence = session.add_sequence(),
                            .tokens = {tokens.begin(), tokens.end()}};
  const std::vector<double> rows = session.forward_all({&input, 1});
  return {rows.begin(), rows.end()};
}

void Model::trace(std::span<const int64_t> tokens, std::vector<SiteId> sites, const TraceSink& sink,
                  Compute compute, int threads) const {
  Session session(bound(), {.compute = compute, .threads = threads, .sites = std::move(sites)});
  const SequenceInput input{.sequence = session.add_sequence(),
                            .tokens = {tokens.begin(), tokens.end()}};
  session.observe({&input, 1}, sink);
}

const Tokenizer& Model::tokenizer() const {
  if (!impl_->files.has_tokenizer) {
    throw usage_error("tokenizer", "tokenizer files beside the weights", "none")
        .in(impl_->path.string())
        .hint("give the ids with --tokens");
  }
  std::call_once(impl_->tokenizer_once, [&] {
    impl_->tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(impl_->files.words));
  });
  return *impl_->tokenizer;
}

bool Model::has_chat_template(std::string_view name) const {
  const std::vector<std::string> names = ChatTemplate::names(impl_->files.words);
  return std::find(names.begin(), names.end(), name) != names.end();
}

ChatTemplate Model::chat_template(std::string_view name) const {
  return ChatTemplate::load(impl_->files.words, name);
}

const std::vector<int64_t>& Model::end_ids() const {
  std::call_once(impl_->end_ids_once, [&] {
    std::set<int64_t> ids(impl_->files.generation.end_ids.begin(),
                          impl_->files.generation.end_ids.end());
    if (impl_->files.has_tokenizer) {
      try {
        const auto& more = tokenizer().end_ids();
        ids.insert(more.begin(), more.end());
      } catch (const Error&) {
        // A tokenizer that cannot be read is reported when text is asked for.
      }
    }
    impl_->end_ids.assign(ids.begin(), ids.end());
  });
  return impl_->end_ids;
}

std::optional<int64_t> Model::decoder_start_id() const {
  return impl_->files.generation.decoder_start;
}

const std::vector<std::vector<int64_t>>& Model::bad_words() const {
  return impl_->files.generation.bad_words;
}

std::vector<std::string> known_families() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.emplace_back(family.name);
  return names;
}

}  // namespace mainstem
