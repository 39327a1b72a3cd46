#include "runtime/bound_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "io/mapped_file.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

/// A float copy [out, in] of a tensor that lies [in, out], or of some of its columns.
Tensor transposed_copy(const TensorView& tensor, const std::vector<int64_t>& columns) {
  const int64_t in = tensor.rows();
  const int64_t out = columns.empty() ? tensor.columns() : static_cast<int64_t>(columns.size());
  const bool wide = tensor.dtype() == DType::kF64;
  Tensor copy(wide ? DType::kF64 : DType::kF32, {out, in});
  const auto fill = [&]<typename T>(T* target) {
    std::vector<T> row(static_cast<size_t>(tensor.columns()));
    for (int64_t i = 0; i < in; ++i) {
      read_row(tensor, i, row.data());
      for (int64_t n = 0; n < out; ++n) {
        const int64_t from = columns.empty() ? n : columns[static_cast<size_t>(n)];
        target[n * in + i] = row[static_cast<size_t>(from)];
      }
    }
  };
  if (wide) {
    fill(copy.data<double>());
  } else {
    fill(copy.data<float>());
  }
  return copy;
}

/// Both names of a weight, for messages.
std::string label(const WeightInfo& info, const WeightSource& source) {
  return source.stored_name.empty() ? info.name : source.stored_name + " (" + info.name + ")";
}

/// A row order names each row by a row that exists.
void check_row_order(const WeightInfo& info, const WeightSource& source, int64_t rows,
                     int64_t have_rows) {
  if (static_cast<int64_t>(source.row_order.size()) != rows) {
    throw usage_error("row order of weight", std::to_string(rows) + " rows",
                      std::to_string(source.row_order.size()))
        .in(label(info, source));
  }
  for (int64_t row : source.row_order) {
    if (row >= 0 && row < have_rows) continue;
    throw usage_error("row order of weight", "rows 0 to " + std::to_string(have_rows - 1),
                      std::to_string(row))
        .in(label(info, source));
  }
}

void check_shape(const WeightInfo& info, const WeightSource& source) {
  const TensorView& tensor = source.tensor;
  const bool is_vector = info.kind == WeightKind::kVector;
  int64_t rows = info.shape[0];
  if (is_vector) {
    rows = 1;
    for (int64_t dim : info.shape) rows *= dim;
  }
  const int64_t columns = is_vector ? 1 : info.shape.back();
  const auto fail = [&](const std::string& got) {
    throw bad_input("shape of weight", to_string(info.shape), got).in(label(info, source));
  };
  if (!mainstem::info(tensor.dtype()).is_float && !mainstem::info(tensor.dtype()).is_quantised) {
    throw bad_input("type of weight", "a floating-point or quantised type",
                    std::string(name(tensor.dtype())))
        .in(label(info, source));
  }
  const int64_t have_rows = is_vector           ? tensor.count()
                            : source.transposed ? tensor.columns()
                                                : tensor.rows();
  const int64_t have_columns = is_vector ? 1 : source.transposed ? tensor.rows() : tensor.columns();
  // With a row order the tensor may hold rows of other weights too.
  if (have_columns != columns || (source.row_order.empty() && have_rows != rows)) {
    fail(to_string(tensor.shape()));
  }
  if (!source.row_order.empty()) check_row_order(info, source, rows, have_rows);
}

}  // namespace

int64_t stored_bytes(const WeightSource& source) {
  const TensorView& tensor = source.tensor;
  if (source.row_order.empty()) return tensor.bytes();
  // Rows of a matrix, columns of a transposed one, elements of a vector: all of one size.
  const bool along_row = source.transposed || tensor.shape().size() < 2;
  const int64_t parts = along_row ? tensor.columns() : tensor.rows();
  return tensor.bytes() / parts * static_cast<int64_t>(source.row_order.size());
}

BoundWeights::BoundWeights(const Program& program, const WeightSources& sources) {
  std::string missing;
  int missing_count = 0;
  for (const WeightInfo& info : program.weights) {
    if (sources.contains(info.name)) continue;
    if (++missing_count <= 8) missing += (missing.empty() ? "" : ", ") + info.name;
  }
  if (missing_count > 8) missing += " and " + std::to_string(missing_count - 8) + " more";
  if (missing_count > 0)
    throw bad_input("weights that the model needs", "all of them", "no " + missing);

  entries_.resize(program.weights.size());
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const WeightInfo& info = program.weights[i];
    const WeightSource& source = sources.at(info.name);
    check_shape(info, source);
    Entry& entry = entries_[i];
    entry.tensor = source.tensor;
    entry.row_order = source.row_order;
    entry.keep_alive = source.keep_alive;
    const bool is_second =
        program.spec.shared_token_table && info.name == "decoder.token_embed.weight";
    entry.stored_bytes = is_second ? 0 : mainstem::stored_bytes(source);
    if (source.transposed && info.kind != WeightKind::kVector) {
      auto copy = std::make_shared<Tensor>(transposed_copy(source.tensor, source.row_order));
      entry.tensor = copy->view();
      entry.keep_alive = copy;
      entry.row_order.clear();
    }
    if (info.kind != WeightKind::kVector) continue;
    entry.f64 = to_f64(entry.tensor);
    if (!entry.row_order.empty()) {
      std::vector<double> ordered(entry.row_order.size());
      for (size_t n = 0; n < ordered.size(); ++n) {
        ordered[n] = entry.f64[static_cast<size_t>(entry.row_order[n])];
      }
      entry.f64 = std::move(ordered);
    }
    entry.f32.assign(entry.f64.begin(), entry.f64.end());
  }
}

/// A type without a panel format is read where it lies; a row order needs a copy in that order.
void BoundWeights::lay_plain(Entry& entry) {
  const TensorView& tensor = entry.tensor;
  const auto row_bytes = static_cast<size_t>(tensor.row_bytes());
  const std::byte* data = tensor.data();
  if (!entry.row_order.empty()) {
    entry.packed_bytes = AlignedBuffer(row_bytes * entry.row_order.size());
    for (size_t n = 0; n < entry.row_order.size(); ++n) {
      std::memcpy(entry.packed_bytes.data() + n * row_bytes,
                  data + static_cast<size_t>(entry.row_order[n]) * row_bytes, row_bytes);
    }
    data = entry.packed_bytes.data();
  }
  entry.matrix = {.format = kernels::PackFormat::kPlain,
                  .dtype = tensor.dtype(),
                  .rows = entry.rows(),
                  .columns = tensor.columns(),
                  .data = data,
                  .stride_bytes = row_bytes};
}

void BoundWeights::pack(const Program& program, int threads) {
  if (packed_) return;
  std::set<WeightId> wanted;
  for (const Step& step : program.steps) {
    if (step.op == Op::kLinear) wanted.insert(step.weights[0]);
  }
  struct Job {
    Entry* entry;
    kernels::PackFormat format;
  };
  std::vector<Job> jobs;
  for (WeightId id : wanted) {
    Entry& entry = entries_[static_cast<size_t>(id)];
    const kernels::PackFormat format = kernels::pack_format_for(entry.tensor.dtype());
    const size_t bytes = kernels::packed_bytes(format, entry.rows(), entry.tensor.columns());
    if (bytes > 0) entry.packed_bytes = AlignedBuffer(bytes);
    if (format == kernels::PackFormat::kPlain) lay_plain(entry);
    jobs.push_back({&entry, format});
  }
  ThreadPool::shared().run(threads, [&](const Worker& worker) {
    for (const Job& job : jobs) {
      if (job.format == kernels::PackFormat::kPlain) continue;
      const kernels::WeightMatrix matrix =
          kernels::pack_weights(job.entry->tensor, job.format, job.entry->row_order,
                                job.entry->packed_bytes.data(), worker);
      worker.sync();
      if (worker.index != 0) continue;
      job.entry->matrix = matrix;
      // What is packed is read from there; the file's own pages come back if somebody asks.
      const TensorView& tensor = job.entry->tensor;
      drop_mapped_pages({tensor.data(), static_cast<size_t>(tensor.bytes())});
    }
  });
  packed_ = true;
}

void BoundWeights::read_weight_row(WeightId id, int64_t row, float* out) const {
  const Entry& entry = at(id);
  read_row(entry.tensor, entry.row_order.empty() ? row : entry.row_order[static_cast<size_t>(row)],
           out);
}

void BoundWeights::read_weight_row(WeightId id, int64_t row, double* out) const {
  const Entry& entry = at(id);
  const int64_t source_row =
      entry.row_order.empty() ? row : entry.row_order[static_cast<size_t>(row)];
  const DType dtype = entry.tensor.dtype();
  if (!info(dtype).is_quantised) return read_row(entry.tensor, source_row, out);
  // Their numbers are floats; a whole number of blocks of every type at a time.
  std::array<float, 1024> part;
  const int64_t columns = entry.tensor.columns();
  for (int64_t begin = 0; begin < columns; begin += std::ssize(part)) {
    const int64_t end = std::min(columns, begin + std::ssize(part));
    read_row(entry.tensor, source_row, begin, end, part.data());
    std::copy_n(part.begin(), end - begin, out + begin);
  }
}

int64_t BoundWeights::stored_bytes() const {
  int64_t total = 0;
  for (const Entry& entry : entries_) total += entry.stored_bytes;
  return total;
}

}  // namespace mainstem
