#include "mainstem/threads.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/processors.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

// Long enough to bridge the gap between two steps or two passes, short enough to be no load.
constexpr std::chrono::microseconds kSpin{50};

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits actively until done() or until the time is over; says whether it was done.
template <typename Done>
bool spin_until(Done&& done) {
  const auto some_turns = [&] {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      relax();
    }
    return false;
  };
  if (some_turns()) return true;
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    if (some_turns()) return true;
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

/// Returns once `value` is no longer `old`.
template <typename T>
void wait_for_change(const std::atomic<T>& value, T old, bool spin) {
  const auto changed = [&] { return value.load(std::memory_order_acquire) != old; };
  if (spin && spin_until(changed)) return;
  value.wait(old, std::memory_order_acquire);
}

bool may_spin(int threads) {
  static const int processors = default_thread_count();
  return threads <= processors;
}

/// True in a thread that is inside a run of several workers.
thread_local bool inside_run = false;

}  // namespace

Barrier::Barrier(int count) : count_(count), spins_(may_spin(count)) {}

void Barrier::wait() {
  // abort() sets its flag before it moves the phase. So whoever sees the new phase here sees the
  // flag, and whoever sees the old one is woken by the move.
  const uint32_t phase = phase_.load(std::memory_order_acquire);
  if (aborted_.load(std::memory_order_acquire)) throw Aborted();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1, std::memory_order_acq_rel);
    phase_.notify_all();
  } else {
    wait_for_change(phase_, phase, spins_);
  }
  if (aborted_.load(std::memory_order_acquire)) throw Aborted();
}

void Barrier::abort() {
  aborted_.store(true, std::memory_order_release);
  phase_.fetch_add(1, std::memory_order_acq_rel);
  phase_.notify_all();
}

std::pair<int64_t, int64_t> Worker::slice(int64_t total, int64_t unit) const {
  if (total <= 0) return {0, 0};
  const int64_t units = total / unit + (total % unit != 0 ? 1 : 0);
  const int64_t each = units / count;
  const int64_t longer = units % count;  // the first workers take one unit more
  const int64_t begin = index * each + std::min<int64_t>(index, longer);
  const int64_t end = begin + each + (index < longer ? 1 : 0);
  return {begin == units ? total : begin * unit, end == units ? total : end * unit};
}

int default_thread_count() {
  static const std::optional<double> quota = cgroup_quota();
  return processors_within(affinity_processors(), quota);
}

struct ThreadPool::Impl {
  /// A thread beside the caller. It does one run each time its ticket moves.
  struct alignas(64) Helper {
    std::atomic<uint32_t> ticket{0};
    std::thread thread;
  };

  std::mutex run_mutex;
  std::vector<std::unique_ptr<Helper>> helpers;  // helper i is worker i + 1

  // The present run: written before the tickets move, so plain members suffice.
  const std::function<void(const Worker&)>* body = nullptr;
  Barrier* barrier = nullptr;
  int count = 0;
  bool spin = false;
  bool stop = false;
  std::fenv_t environment{};

  alignas(64) std::atomic<int> unfinished{0};

  std::mutex failure_mutex;
  std::exception_ptr failure;  // the first that is not Barrier::Aborted
  std::exception_ptr aborted;

  void start_helpers(int threads);
  void help(Helper& helper, int index);
  void execute(int index);
  void fail(bool by_abort);
  void run(int threads, const std::function<void(const Worker&)>& run_body);
};

namespace {

/// Blocks signals in this thread while it lives; threads started meanwhile keep them blocked, so
/// that signals reach the program's own threads. Faults and profilers still reach everyone.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    for (int kept : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) {
      sigdelset(&all, kept);
    }
    pthread_sigmask(SIG_SETMASK, &all, &old_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t old_;
};

class InsideRun {
 public:
  InsideRun() { inside_run = true; }
  ~InsideRun() { inside_run = false; }
  InsideRun(const InsideRun&) = delete;
  InsideRun& operator=(const InsideRun&) = delete;
};

}  // namespace

void ThreadPool::Impl::start_helpers(int threads) {
  const BlockSignals block;
  while (static_cast<int>(helpers.size()) + 1 < threads) {
    auto helper = std::make_unique<Helper>();
    const int index = static_cast<int>(helpers.size()) + 1;
    helpers.reserve(helpers.size() + 1);
    try {
      helper->thread = std::thread([this, target = helper.get(), index] { help(*target, index); });
    } catch (const std::system_error&) {
      throw usage_error(
          "threads",
          "at most " + std::to_string(index) + ", the number this process is allowed to start",
          std::to_string(threads));
    }
    helpers.push_back(std::move(helper));
  }
}

void ThreadPool::Impl::help(Helper& helper, int index) {
  inside_run = true;
#ifdef __linux__
  pthread_setname_np(pthread_self(), ("mainstem-" + std::to_string(index)).c_str());
#endif
  bool spin_next = false;
  for (uint32_t seen = 0;; ++seen) {
    wait_for_change(helper.ticket, seen, spin_next);
    if (stop) return;
    spin_next = spin;
    std::fesetenv(&environment);
    execute(index);
    if (unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished.notify_one();
  }
}

void ThreadPool::Impl::execute(int index) {
  try {
    (*body)(Worker{index, count, barrier});
  } catch (const Barrier::Aborted&) {
    fail(true);
  } catch (...) {
    fail(false);
  }
}

void ThreadPool::Impl::fail(bool by_abort) {
  const std::lock_guard lock(failure_mutex);
  std::exception_ptr& slot = by_abort ? aborted : failure;
  if (!slot) slot = std::current_exception();
  if (!by_abort) barrier->abort();
}

void ThreadPool::Impl::run(int threads, const std::function<void(const Worker&)>& run_body) {
  const std::lock_guard lock(run_mutex);
  start_helpers(threads);
  Barrier run_barrier(threads);
  body = &run_body;
  barrier = &run_barrier;
  count = threads;
  spin = may_spin(threads);
  std::fegetenv(&environment);
  unfinished.store(threads - 1, std::memory_order_relaxed);
  for (int i = 0; i + 1 < threads; ++i) {
    helpers[i]->ticket.fetch_add(1, std::memory_order_release);
    helpers[i]->ticket.notify_one();
  }
  {
    const InsideRun inside;
    execute(0);
  }
  for (int left; (left = unfinished.load(std::memory_order_acquire)) != 0;) {
    wait_for_change(unfinished, left, spin);
  }
  const std::exception_ptr first = failure ? failure : aborted;
  failure = aborted = nullptr;
  if (first) std::rethrow_exception(first);
}

// fork() leaves the child without helpers and with locks in whatever state they were. The pools
// are therefore listed, and in the child each is put back to a new one in place; what the old
// one owned is left alone, since its threads cannot be joined.

namespace {

struct PoolList {
  std::mutex mutex;
  std::vector<void*> pools;
  void (*reset)(void*) = nullptr;
};

PoolList& pool_list() {
  static auto* list = new PoolList;  // outlives every pool
  return *list;
}

void lock_pool_list() { pool_list().mutex.lock(); }
void unlock_pool_list() { pool_list().mutex.unlock(); }

void reset_pools_in_child() {
  PoolList& list = pool_list();
  for (void* pool : list.pools) list.reset(pool);
  list.mutex.unlock();
}

}  // namespace

ThreadPool::ThreadPool() : impl_(std::make_unique<Impl>()) {
  static const int registered =
      pthread_atfork(lock_pool_list, unlock_pool_list, reset_pools_in_child);
  static_cast<void>(registered);
  PoolList& list = pool_list();
  const std::lock_guard lock(list.mutex);
  list.reset = [](void* impl) { new (impl) Impl; };
  list.pools.push_back(impl_.get());
}

ThreadPool::~ThreadPool() {
  {
    PoolList& list = pool_list();
    const std::lock_guard lock(list.mutex);
    std::erase(list.pools, impl_.get());
  }
  impl_->stop = true;
  for (const auto& helper : impl_->helpers) {
    helper->ticket.fetch_add(1, std::memory_order_release);
    helper->ticket.notify_one();
  }
  for (const auto& helper : impl_->helpers) helper->thread.join();
}

void ThreadPool::run(int threads, const std::function<void(const Worker&)>& body) {
  if (threads < 0 || threads > kMaxThreads) {
    throw usage_error("threads", "0 to " + std::to_string(kMaxThreads), std::to_string(threads));
  }
  if (threads == 0 && !inside_run) threads = std::min(default_thread_count(), kMaxThreads);
  if (threads == 1 || inside_run) {
    body(Worker::alone());
    return;
  }
  impl_->run(threads, body);
}

void ThreadPool::for_each(int threads, int64_t count, const std::function<void(int64_t)>& body) {
  std::atomic<int64_t> next{0};
  run(threads, [&](const Worker&) {
    try {
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(i);
    } catch (...) {
      next.store(count, std::memory_order_relaxed);
      throw;
    }
  });
}

ThreadPool& ThreadPool::shared() {
  // Never destroyed: threads may still be inside when a program ends by exit().
  static auto* pool = new ThreadPool;
  return *pool;
}

}  // namespace mainstem
