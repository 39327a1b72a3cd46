#include "oracle/recorder.h"

#include <stdexcept>

namespace mainstem::oracle {

void Trace::add(const std::string& name, const Values& values) {
  if (!index_.emplace(name, list_.size()).second) throw std::logic_error("site twice: " + name);
  list_.emplace_back(name, values);
}

const Values& Trace::at(const std::string& name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) throw std::out_of_range("no site " + name);
  return list_[found->second].second;
}

Trace batch(const std::vector<Trace>& traces) {
  Trace result;
  for (const auto& [name, first] : traces.at(0).all()) {
    Values together = first;
    for (size_t i = 1; i < traces.size(); ++i) {
      const Values& next = traces[i].at(name);
      if (next.shape != first.shape) throw std::logic_error("batch: shapes of " + name);
      together.data.insert(together.data.end(), next.data.begin(), next.data.end());
      together.magnitude.insert(together.magnitude.end(), next.magnitude.begin(),
                                next.magnitude.end());
    }
    together.shape[0] = static_cast<int64_t>(traces.size());
    result.add(name, together);
  }
  return result;
}

Matrix rows_of(const Values& values) {
  const auto rows = static_cast<size_t>(values.shape.at(1));
  const size_t width = values.data.size() / rows;
  Matrix result;
  for (size_t t = 0; t < rows; ++t) {
    const auto begin = values.data.begin() + static_cast<std::ptrdiff_t>(t * width);
    result.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  return result;
}

const std::vector<double>& Recorder::weight(const std::string& own) const {
  const auto found = weights_.find(full(own));
  if (found == weights_.end()) throw std::out_of_range("no weight " + full(own));
  return found->second;
}

Values Recorder::site(const std::string& name, const Values& values) {
  trace_.add(full(name), values);
  const auto other = replace_.find(full(name));
  if (other == replace_.end()) return values;
  Values result = values;
  if (other->second.size() != result.data.size()) throw std::logic_error("replacement " + name);
  result.data = other->second;
  return result;
}

Matrix Recorder::record(const std::string& full_name, const Measured& rows,
                        std::vector<int64_t> tail) {
  Values values;
  values.shape = {1, static_cast<int64_t>(rows.value.size())};
  values.shape.insert(values.shape.end(), tail.begin(), tail.end());
  values.terms = rows.terms;
  for (size_t t = 0; t < rows.value.size(); ++t) {
    const Row& magnitude = rows.magnitude.at(t);
    values.data.insert(values.data.end(), rows.value[t].begin(), rows.value[t].end());
    values.magnitude.insert(values.magnitude.end(), magnitude.begin(), magnitude.end());
  }
  trace_.add(full_name, values);
  const auto other = replace_.find(full_name);
  if (other == replace_.end()) return rows.value;
  if (other->second.size() != values.data.size()) {
    throw std::logic_error("replacement " + full_name);
  }
  values.data = other->second;
  return rows_of(values);
}

Matrix Recorder::site(const std::string& name, const Measured& rows, std::vector<int64_t> tail) {
  return record(full(name), rows, std::move(tail));
}

Matrix Recorder::plain_site(const std::string& name, const Measured& rows,
                            std::vector<int64_t> tail) {
  return record(name, rows, std::move(tail));
}

void Recorder::alias(const std::string& name, const std::string& of) {
  trace_.add(full(name), Values(trace_.at(of)));
}

}  // namespace mainstem::oracle
