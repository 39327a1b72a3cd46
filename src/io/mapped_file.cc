#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <vector>

#include "mainstem/error.h"

namespace mainstem {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string system_message(int error) { return std::strerror(error); }

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void advise(std::span<const std::byte> range, bool whole_pages_only, int advice) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uintptr_t>(range.data());
  auto end = begin + range.size();
  if (whole_pages_only) {
    begin = (begin + page - 1) / page * page;
    end = end / page * page;
  } else {
    begin = begin / page * page;
  }
  if (range.empty() || begin >= end) return;
  // Advice may be refused; the bytes stay correct either way.
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

struct Registry {
  std::mutex mutex;
  std::vector<std::span<const std::byte>> maps;
};

Registry& registry() {
  static Registry* instance = new Registry;  // outlives static objects that hold mappings
  return *instance;
}

bool inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  const std::less_equal<const std::byte*> not_after;
  return not_after(whole.data(), part.data()) &&
         not_after(part.data() + part.size(), whole.data() + whole.size());
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const std::string name = path.string();
  // Without O_NONBLOCK the opening of a pipe waits for its writer.
  const FileDescriptor fd(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    throw bad_input("file", "a readable file", system_message(errno)).in(name);
  }
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) {
    throw bad_input("file", "a readable file", system_message(errno)).in(name);
  }
  if (!S_ISREG(status.st_mode)) {
    throw bad_input("file", "a regular file", kind_of(status.st_mode)).in(name);
  }
  std::span<const std::byte> bytes;
  if (status.st_size > 0) {
    const auto size = static_cast<size_t>(status.st_size);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) {
      throw bad_input("file", "a file that can be mapped", system_message(errno)).in(name);
    }
    bytes = {static_cast<const std::byte*>(data), size};
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    all.maps.push_back(bytes);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(name, bytes));
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.maps, [&](const auto& map) { return map.data() == bytes_.data(); });
  }
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::will_need(std::span<const std::byte> range) const {
  if (inside(range, bytes_)) advise(range, false, MADV_WILLNEED);
}

void MappedFile::sequential(std::span<const std::byte> range) const {
  if (inside(range, bytes_)) advise(range, false, MADV_SEQUENTIAL);
}

void MappedFile::drop_pages(std::span<const std::byte> range) const {
  if (inside(range, bytes_)) advise(range, true, MADV_DONTNEED);
}

void drop_mapped_pages(std::span<const std::byte> range) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const auto& map : all.maps) {
    if (inside(range, map)) advise(range, true, MADV_DONTNEED);
  }
}

}  // namespace mainstem
