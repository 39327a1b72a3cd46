#include "long_call.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "bindings.h"

namespace mainstem::python {
namespace {

constexpr auto kLookForSignals = std::chrono::milliseconds(50);

}  // namespace

void run_interruptible(const std::function<void(const CancelFlag&)>& body) {
  CancelFlag cancel{false};
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr failure;
  std::thread worker([&] {
    try {
      body(cancel);
    } catch (...) {
      failure = std::current_exception();
    }
    // Told under the lock: afterwards the condition may be gone.
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_one();
  });
  std::exception_ptr signal;
  for (bool finished = false; !finished;) {
    {
      const nb::gil_scoped_release release;
      std::unique_lock lock(mutex);
      if (signal) {
        changed.wait(lock, [&] { return done; });
      } else {
        changed.wait_for(lock, kLookForSignals, [&] { return done; });
      }
      finished = done;
    }
    if (!finished && !signal && PyErr_CheckSignals() != 0) {
      signal = std::make_exception_ptr(nb::python_error());
      cancel = true;
    }
  }
  worker.join();
  if (signal) std::rethrow_exception(signal);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace mainstem::python
