#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/command_line.h"
#include "mainstem/spec.h"

namespace mainstem::cli {

/// One block in words, as the options of `inspect --block` say it.
struct BlockOptions {
  int64_t width = 0, hidden = 0, heads = 1, kv_heads = 0, head_width = 0;
  std::string norm = "rms", mlp = "swiglu", placement = "pre";
  bool bias = false, rotary = false, full = false;
  double eps = -1;  ///< below 0: the norm's own
  bool operator==(const BlockOptions&) const = default;
};

void add_block_options(Command& command, BlockOptions& options);

/// Left out: F = 2D where the MLP is gated and 4D where it is plain (so that the expansion has
/// 4D² parameters either way), K = H, E = D/H. A gated MLP has one combined matrix.
BlockSpec block_spec(const BlockOptions& options);

/// The block that the words behind `--against` describe, the rest as in the first. A --json among
/// them counts for the command.
BlockOptions second_block(const BlockOptions& first, const std::vector<std::string>& words,
                          CommonOptions& common);

/// "pre-norm, RMSNorm, SwiGLU, D=512 H=8 K=8 E=64 F=1024"
std::string describe(const BlockOptions& options);

}  // namespace mainstem::cli
