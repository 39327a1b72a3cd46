#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "io/text.h"
#include "io/zip_reader.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

// zlib counts in 32 bits.
constexpr size_t kMaxStep = size_t{1} << 30;
// A claim up to this much, plus 4 times the compressed bytes, is believed without a test; the
// reader of an array may need it twice.
constexpr uint64_t kTrustedClaim = uint64_t{32} << 20;

}  // namespace

struct ZipStream::Inflater {
  explicit Inflater(std::span<const std::byte> data) : input(data) {
    // Negative window bits: raw deflate without a zlib header.
    if (inflateInit2(&state, -MAX_WBITS) != Z_OK) throw internal_error("zlib refused to start");
  }
  ~Inflater() { inflateEnd(&state); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Unpacks up to out.size() bytes; fewer only at the end of the stream.
  size_t step(std::span<std::byte> out) {
    size_t done = 0;
    while (done < out.size() && !ended) {
      if (state.avail_in == 0) {
        const size_t next = std::min(input.size(), kMaxStep);
        state.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
        state.avail_in = static_cast<uInt>(next);
        input = input.subspan(next);
      }
      const size_t room = std::min(out.size() - done, kMaxStep);
      state.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      state.avail_out = static_cast<uInt>(room);
      const int status = inflate(&state, Z_NO_FLUSH);
      done += room - state.avail_out;
      if (status == Z_STREAM_END) {
        ended = true;
      } else if (status != Z_OK) {
        throw bad_input("compressed data", "a valid deflate stream",
                        status == Z_BUF_ERROR ? "one that ends early" : "damaged bytes");
      }
    }
    return done;
  }

  // True where nothing more comes out and nothing was left in.
  bool at_end() {
    std::byte extra{};
    if (!ended && step({&extra, 1}) != 0) return false;
    return ended && state.avail_in == 0 && input.empty();
  }

  z_stream state{};
  std::span<const std::byte> input;
  bool ended = false;
};

ZipStream::ZipStream(const ZipMember& member) : member_(member) {
  if (!member_.deflated) return;
  if (member_.size > kTrustedClaim + 4 * member_.data.size()) {
    Inflater trial(member_.data);
    std::array<std::byte, 65536> nothing;
    uint64_t total = 0;
    size_t step = 0;
    do {
      step = trial.step(nothing);
      total += step;
    } while (step == nothing.size() && total <= member_.size);
    if (total != member_.size) {
      throw bad_input("unpacked size", std::to_string(member_.size) + " bytes, as the archive says",
                      total > member_.size ? "more" : std::to_string(total))
          .in(quote(member_.name));
    }
  }
  inflater_ = std::make_unique<Inflater>(member_.data);
}

ZipStream::~ZipStream() = default;

void ZipStream::read(std::span<std::byte> out) {
  if (out.empty()) return;
  if (out.size() > remaining()) {
    throw bad_input("member", std::to_string(out.size()) + " more bytes",
                    std::to_string(remaining()));
  }
  if (inflater_) {
    const size_t done = inflater_->step(out);
    if (done != out.size()) {
      throw bad_input("unpacked size", std::to_string(member_.size) + " bytes, as the archive says",
                      std::to_string(position_ + done));
    }
  } else {
    std::memcpy(out.data(), member_.data.data() + position_, out.size());
  }
  crc_ =
      static_cast<uint32_t>(crc32_z(crc_, reinterpret_cast<const Bytef*>(out.data()), out.size()));
  position_ += out.size();
}

void ZipStream::finish() {
  if (remaining() != 0) {
    throw bad_input("member", "an end", std::to_string(remaining()) + " more bytes");
  }
  if (inflater_ && !inflater_->at_end()) {
    throw bad_input("unpacked size", std::to_string(member_.size) + " bytes, as the archive says",
                    "more");
  }
  if (crc_ != member_.crc) {
    throw bad_input("checksum", std::to_string(member_.crc), std::to_string(crc_))
        .hint("the file is damaged: make or fetch it again");
  }
}

}  // namespace mainstem
