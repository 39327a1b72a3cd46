#include "mainstem/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <fstream>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "mainstem/error.h"

#if defined(__SANITIZE_THREAD__)
#define MAINSTEM_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define MAINSTEM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MAINSTEM_TSAN 1
#elif __has_feature(address_sanitizer)
#define MAINSTEM_ASAN 1
#endif
#endif

namespace mainstem {
namespace {

#ifdef MAINSTEM_TSAN
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#ifdef MAINSTEM_ASAN
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

/// A test that hangs is ended by a signal, which counts as a failure.
class ThreadsTest : public testing::Test {
 protected:
  void SetUp() override { alarm(120); }
  void TearDown() override { alarm(0); }
};

using SliceTest = ThreadsTest;
using BarrierTest = ThreadsTest;
using ThreadPoolTest = ThreadsTest;

// ---- slices ----

void expect_covering_slices(int64_t total, int64_t unit, int count) {
  SCOPED_TRACE(testing::Message() << total << " by " << unit << " for " << count);
  int64_t next = 0;
  int64_t shortest = std::numeric_limits<int64_t>::max(), longest = 0;
  for (int index = 0; index < count; ++index) {
    const auto [begin, end] = Worker{index, count}.slice(total, unit);
    ASSERT_EQ(begin, next);
    ASSERT_LE(begin, end);
    ASSERT_TRUE(end == total || end % unit == 0) << end;
    const int64_t units = (end - begin) / unit + ((end - begin) % unit != 0 ? 1 : 0);
    shortest = std::min(shortest, units);
    longest = std::max(longest, units);
    next = end;
  }
  EXPECT_EQ(next, total);
  EXPECT_LE(longest - shortest, 1);
}

TEST_F(SliceTest, CoverEverythingOnceInEqualParts) {
  for (int64_t total : {0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 100, 576, 1536}) {
    for (int64_t unit : {1, 2, 8, 16, 100}) {
      for (int count : {1, 2, 3, 7, 16, 65}) expect_covering_slices(total, unit, count);
    }
  }
  const int64_t largest = std::numeric_limits<int64_t>::max();
  expect_covering_slices(largest, 1, 3);
  expect_covering_slices(largest, 64, 7);
  expect_covering_slices(largest, largest, 2);
}

TEST_F(SliceTest, NothingToSlice) {
  const std::pair<int64_t, int64_t> nothing{0, 0};
  EXPECT_EQ((Worker{1, 2}.slice(0)), nothing);
  EXPECT_EQ((Worker{1, 2}.slice(-5)), nothing);
}

TEST_F(SliceTest, OneWorkerTakesAll) {
  const Worker alone = Worker::alone();
  EXPECT_EQ(alone.slice(10, 4), (std::pair<int64_t, int64_t>{0, 10}));
  alone.sync();  // nobody to wait for
  EXPECT_EQ(alone.barrier, nullptr);
}

// ---- barrier ----

/// Every worker writes its round and checks after the barrier that all have come that far.
void expect_rounds(int count, int rounds) {
  Barrier barrier(count);
  std::vector<int> round_of(static_cast<size_t>(count), 0);
  std::atomic<int> late{0};
  const auto work = [&](int index) {
    for (int round = 1; round <= rounds; ++round) {
      round_of[index] = round;
      barrier.wait();
      for (int seen : round_of) late += seen != round ? 1 : 0;
      barrier.wait();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < count; ++i) threads.emplace_back(work, i);
  work(0);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(late, 0) << count;
}

TEST_F(BarrierTest, HoldsUntilAllArrive) {
  for (int count : {1, 2, 3, 8}) expect_rounds(count, kThreadSanitizer ? 200 : 2000);
}

TEST_F(BarrierTest, HoldsWhileTheOthersAreAsleep) {
  Barrier barrier(2);
  std::atomic<bool> passed{false};
  std::thread sleeper([&] {
    barrier.wait();
    passed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // far beyond any spin
  EXPECT_FALSE(passed);
  barrier.wait();
  sleeper.join();
  EXPECT_TRUE(passed);
}

TEST_F(BarrierTest, AbortFreesThoseWhoWaitAndThoseWhoCome) {
  for (int pause_ms : {0, 5}) {  // caught spinning or asleep
    Barrier barrier(4);
    std::atomic<int> left{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        try {
          barrier.wait();
        } catch (const Barrier::Aborted&) {
          ++left;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    barrier.abort();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(left, 3);
    EXPECT_THROW(barrier.wait(), Barrier::Aborted);
  }
}

// ---- pool ----

TEST_F(ThreadPoolTest, CallsEachWorkerOnce) {
  ThreadPool pool;
  for (int threads : {1, 2, 5, 3, 1, 16}) {
    std::vector<std::atomic<int>> calls(static_cast<size_t>(threads));
    std::atomic<int> wrong{0};
    const std::thread::id caller = std::this_thread::get_id();
    pool.run(threads, [&](const Worker& worker) {
      ++calls[worker.index];
      if (worker.count != threads) ++wrong;
      if ((worker.barrier == nullptr) != (threads == 1)) ++wrong;
      if ((worker.index == 0) != (std::this_thread::get_id() == caller)) ++wrong;
    });
    for (const auto& count : calls) EXPECT_EQ(count, 1);
    EXPECT_EQ(wrong, 0);
  }
}

TEST_F(ThreadPoolTest, ZeroMeansTheDefault) {
  std::atomic<int> count{0};
  ThreadPool::shared().run(0, [&](const Worker& worker) { count = worker.count; });
  EXPECT_EQ(count, default_thread_count());
  EXPECT_EQ(&ThreadPool::shared(), &ThreadPool::shared());
}

TEST_F(ThreadPoolTest, WritesAreSeenByTheCallerAndTheNextRun) {
  ThreadPool pool;
  std::vector<int64_t> sums(4, 0);
  const int runs = kThreadSanitizer ? 300 : 3000;
  for (int run = 1; run <= runs; ++run) {
    pool.run(4, [&](const Worker& worker) {
      sums[worker.index] += run;
      worker.sync();
      if (worker.index == 3 && sums[0] != sums[3]) sums[3] = -1;
    });
    ASSERT_EQ(sums[1], int64_t{run} * (run + 1) / 2);
    ASSERT_EQ(sums[3], sums[1]);
  }
}

TEST_F(ThreadPoolTest, WakesAfterALongPause) {
  ThreadPool pool;
  std::atomic<int> calls{0};
  for (int i = 0; i < 3; ++i) {
    pool.run(3, [&](const Worker&) { ++calls; });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(calls, 9);
}

TEST_F(ThreadPoolTest, PassesOnAnExceptionOfAnyWorker) {
  ThreadPool pool;
  for (int threads : {1, 2, 4}) {
    for (int thrower = 0; thrower < threads; ++thrower) {
      for (bool others_wait : {false, true}) {
        try {
          pool.run(threads, [&](const Worker& worker) {
            if (worker.index == thrower) throw bad_input("worker", "", std::to_string(thrower));
            if (others_wait) worker.sync();
          });
          FAIL() << "nothing was thrown";
        } catch (const Error& error) {
          EXPECT_EQ(error.what(), "worker: got " + std::to_string(thrower));
        }
        // The pool and a new barrier work again.
        std::atomic<int> calls{0};
        pool.run(threads, [&](const Worker& worker) {
          worker.sync();
          ++calls;
        });
        EXPECT_EQ(calls, threads);
      }
    }
  }
}

TEST_F(ThreadPoolTest, OneOfManyExceptionsIsPassedOn) {
  ThreadPool pool;
  for (int i = 0; i < 50; ++i) {
    EXPECT_THROW(pool.run(4, [](const Worker&) { throw std::runtime_error("each"); }),
                 std::runtime_error);
  }
}

TEST_F(ThreadPoolTest, AnAbortWithoutAnErrorIsNotLost) {
  ThreadPool pool;
  EXPECT_THROW(pool.run(2,
                        [](const Worker& worker) {
                          if (worker.index == 0) worker.barrier->abort();
                          worker.sync();
                        }),
               Barrier::Aborted);
}

TEST_F(ThreadPoolTest, ARunInsideARunIsDoneAlone) {
  ThreadPool pool;
  std::atomic<int> inner_calls{0}, wrong{0};
  pool.run(3, [&](const Worker&) {
    for (int threads : {0, 1, 2, 5}) {
      pool.run(threads, [&](const Worker& inner) {
        ++inner_calls;
        if (inner.count != 1 || inner.index != 0 || inner.barrier != nullptr) ++wrong;
      });
    }
  });
  EXPECT_EQ(inner_calls, 12);
  EXPECT_EQ(wrong, 0);
  std::atomic<int> outer{0};
  pool.run(3, [&](const Worker&) { ++outer; });
  EXPECT_EQ(outer, 3) << "the caller is no longer inside";
}

TEST_F(ThreadPoolTest, ForEachCallsEachIndexOnce) {
  ThreadPool pool;
  for (int threads : {0, 1, 2, 4}) {
    for (int64_t count : {0, 1, 3, 100}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      pool.for_each(threads, count, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
      for (const auto& each : calls) EXPECT_EQ(each, 1);
    }
  }
}

TEST_F(ThreadPoolTest, ForEachIsEndedByAnException) {
  ThreadPool pool;
  for (int threads : {1, 2, 4}) {
    std::atomic<int64_t> calls{0};
    constexpr int64_t kCount = 1'000'000;
    EXPECT_THROW(pool.for_each(threads, kCount,
                               [&](int64_t i) {
                                 ++calls;
                                 if (i == 10) throw std::runtime_error("the eleventh");
                               }),
                 std::runtime_error);
    EXPECT_GE(calls, 11);
    EXPECT_LT(calls, kCount);
    pool.for_each(threads, 5, [&](int64_t) { ++calls; });
  }
}

TEST_F(ThreadPoolTest, RunsOfSeveralThreadsTakeTurns) {
  ThreadPool pool;
  std::atomic<int> inside{0}, overlaps{0}, calls{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&, c] {
      const int threads = 2 + c % 2;
      for (int i = 0; i < 100; ++i) {
        pool.run(threads, [&](const Worker& worker) {
          if (worker.index == 0 && inside.fetch_add(1) != 0) ++overlaps;
          worker.sync();
          ++calls;
          worker.sync();
          if (worker.index == 0) --inside;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(calls, 100 * (2 + 3 + 2 + 3));
}

TEST_F(ThreadPoolTest, RefusesImpossibleCounts) {
  ThreadPool pool;
  const auto nothing = [](const Worker&) {};
  EXPECT_THROW(pool.run(-1, nothing), Error);
  EXPECT_THROW(pool.run(ThreadPool::kMaxThreads + 1, nothing), Error);
}

TEST_F(ThreadPoolTest, WorkersComputeInTheCallersFloatingPointEnvironment) {
  ThreadPool pool;
  std::atomic<int> mode{0};
  const auto read_mode = [&](const Worker& worker) {
    if (worker.index == 1) mode = std::fegetround();
  };
  pool.run(2, read_mode);
  EXPECT_EQ(mode, FE_TONEAREST);
  std::fesetround(FE_UPWARD);
  pool.run(2, read_mode);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(mode, FE_UPWARD);
  pool.run(2, read_mode);
  EXPECT_EQ(mode, FE_TONEAREST);
}

// ---- after fork() ----

/// Exit status of a child that runs `body`; 100 when it was ended by a signal.
template <typename Body>
int status_of_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // alarms are not inherited
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

int run_and_count(ThreadPool& pool, int threads) {
  std::atomic<int> calls{0};
  for (int i = 0; i < 20; ++i) {
    pool.run(threads, [&](const Worker& worker) {
      worker.sync();
      ++calls;
    });
  }
  return calls / 20;
}

class ForkTest : public ThreadsTest {
 protected:
  void SetUp() override {
    if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer ends a child that starts threads";
    ThreadsTest::SetUp();
  }
};

TEST_F(ForkTest, WorksInAForkedChildAndOnInTheParent) {
  ThreadPool pool;
  EXPECT_EQ(run_and_count(pool, 3), 3);
  EXPECT_EQ(status_of_child([&] {
              ThreadPool own;
              return 10 * run_and_count(pool, 4) + run_and_count(own, 2) +
                     run_and_count(ThreadPool::shared(), 2);
            }),
            44);
  EXPECT_EQ(run_and_count(pool, 5), 5);
}

TEST_F(ForkTest, AChildMayBeForkedWhileAnotherThreadRuns) {
  ThreadPool pool;
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) pool.run(3, [](const Worker& worker) { worker.sync(); });
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(status_of_child([&] { return run_and_count(pool, 3); }), 3);
  }
  stop = true;
  busy.join();
}

TEST_F(ForkTest, AChildOfAChildWorksToo) {
  ThreadPool pool;
  run_and_count(pool, 2);
  EXPECT_EQ(status_of_child([&] {
              const int own = run_and_count(pool, 2);
              return 10 * own + status_of_child([&] { return run_and_count(pool, 3); });
            }),
            23);
}

TEST_F(ForkTest, SaysWhenTheSystemStartsNoMoreThreads) {
  if (kAddressSanitizer) GTEST_SKIP() << "AddressSanitizer needs its address space";
  ThreadPool pool;
  EXPECT_EQ(status_of_child([&] {
              int64_t pages = 0;
              std::ifstream("/proc/self/statm") >> pages;
              const auto used = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE));
              const rlimit tight{used + (rlim_t{100} << 20), RLIM_INFINITY};
              const rlimit open{RLIM_INFINITY, RLIM_INFINITY};
              setrlimit(RLIMIT_AS, &tight);
              bool said = false;
              try {
                pool.run(500, [](const Worker&) {});
              } catch (const Error& error) {
                said = std::string(error.what()).find("threads: expected at most ") == 0;
              }
              setrlimit(RLIMIT_AS, &open);
              return (said ? 10 : 0) + run_and_count(pool, 3);
            }),
            13);
}

}  // namespace
}  // namespace mainstem
