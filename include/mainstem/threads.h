#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

namespace mainstem {

/// Lets `count` workers wait for each other, again and again: a short spin, then sleep. With more
/// workers than processors it sleeps at once, since the one waited for may need the processor.
class Barrier {
 public:
  /// What wait() throws after abort(). A body lets it pass; ThreadPool::run swallows it.
  struct Aborted : std::exception {
    const char* what() const noexcept override { return "another worker failed"; }
  };

  explicit Barrier(int count);
  /// Returns when all workers have called it. Throws Aborted when abort() was called.
  void wait();
  /// Wakes everyone who waits or will wait; they leave by an exception.
  void abort();

 private:
  const int count_;
  const bool spins_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
  std::atomic<bool> aborted_{false};
};

/// One of the threads inside ThreadPool::run. Kernels take a Worker and slice their own work.
struct Worker {
  int index = 0;
  int count = 1;
  Barrier* barrier = nullptr;  ///< null when count is 1

  /// Waits for all workers of this run; nothing to wait for when there is one.
  void sync() const {
    if (barrier != nullptr) barrier->wait();
  }
  /// This worker's half-open part of [0, total), cut at multiples of `unit`. Parts are
  /// contiguous, cover everything once and depend only on total, unit, index and count.
  std::pair<int64_t, int64_t> slice(int64_t total, int64_t unit = 1) const;
  /// The same worker alone: for work that every worker does for itself.
  static Worker alone() { return {}; }
};

/// Threads this process may use: the smaller of its affinity mask and its cgroup quota (rounded
/// up). The mask is read anew at each call, the quota once.
int default_thread_count();

/// Persistent workers, entered once per pass. Between runs they spin shortly, then sleep.
/// Safe to use from several threads (runs are serialised) and after fork() in the child, where
/// the workers are started anew. (A body that forks must not return in the child.) A run inside a
/// body of another run is done by its caller alone, as with one thread. Workers compute in the
/// caller's floating-point environment (rounding, flush to zero).
class ThreadPool {
 public:
  ThreadPool();
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Calls body once on each of `threads` workers (0 = default_thread_count(), at most
  /// kMaxThreads; an Error beyond that or where the system starts no more); the calling
  /// thread is worker 0. Returns when all have returned. The first exception that leaves a body
  /// is thrown again here, after the others were released from their barrier. With one thread
  /// no lock or atomic is touched.
  static constexpr int kMaxThreads = 1024;
  void run(int threads, const std::function<void(const Worker&)>& body);

  /// Calls body(i) once for every i in [0, count), each on whichever worker is free next, in
  /// ascending order of their starts. The first exception ends it: what has begun is finished, what
  /// has not is left out.
  void for_each(int threads, int64_t count, const std::function<void(int64_t)>& body);

  /// One pool for the whole process, started on first use.
  static ThreadPool& shared();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainstem
