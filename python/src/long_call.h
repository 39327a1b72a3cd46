#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <utility>

namespace mainstem::python {

using CancelFlag = std::atomic<bool>;

/// Runs `body` without Python's lock on a thread of its own, while this one looks for signals:
/// where a handler raises (^C does), the flag is set, the body ends, and Python's exception goes
/// on. The body must not touch Python.
void run_interruptible(const std::function<void(const CancelFlag&)>& body);

/// The same with a result.
template <typename Body>
auto interruptible(Body&& body) {
  std::optional<decltype(body(std::declval<const CancelFlag&>()))> result;
  run_interruptible([&](const CancelFlag& cancel) { result.emplace(body(cancel)); });
  return std::move(*result);
}

}  // namespace mainstem::python
