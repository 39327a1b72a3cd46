#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "mainstem/error.h"

namespace mainstem {
namespace {

// One write of the system call may take at most 2 GB.
constexpr size_t kMaxWrite = size_t{1} << 30;

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return path + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path.string()) {
  struct stat status{};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw bad_input("output", "a regular file or a new name", "something else").in(path_);
  }
  for (int attempt = 0; attempt < 100 && fd_ < 0; ++attempt) {
    temporary_ = temporary_name(path_);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) fail("a folder that can be written");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_at(position_, bytes);
  position_ += bytes.size();
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done =
        ::pwrite(fd_, bytes.data(), std::min(bytes.size(), kMaxWrite), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("space to write");
    offset += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("data that reaches the disk");
  if (::close(fd_) != 0) {
    fd_ = -1;
    const int error = errno;
    ::unlink(temporary_.c_str());
    errno = error;
    fail("data that reaches the disk");
  }
  fd_ = -1;
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    errno = error;
    fail("a name that can be taken");
  }
}

void AtomicFile::fail(const char* expected) const {
  throw bad_input("output", expected, std::strerror(errno)).in(path_);
}

}  // namespace mainstem
