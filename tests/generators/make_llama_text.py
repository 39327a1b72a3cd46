#!/usr/bin/env python3
"""Prints every node that llama.cpp computes, as its llama-eval-callback does.

    pip install llama-cpp-python==0.3.36
    python tests/generators/make_llama_text.py MODEL.gguf 1,504,260 > dump.txt

The printing is llama.cpp's own: common/debug.cpp of the source that the package was built from (pip
downloads it once, into .cache/llama_text), compiled here against the package's libraries. --flash
turns flash attention on, as llama.cpp does by default; without it kq, kq_soft_max and kqv are nodes.
"""
import argparse
import importlib.metadata
import importlib.util
import pathlib
import subprocess
import sys
import tarfile

CACHE = pathlib.Path(__file__).resolve().parent.parent.parent / ".cache" / "llama_text"
PACKAGE = "llama_cpp_python"

# What common/debug.cpp needs of the headers beside it.
COMMON = """#pragma once
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include "llama.h"
struct common_params {
  ggml_backend_sched_eval_callback cb_eval = nullptr;
  void* cb_eval_user_data = nullptr;
};
"""
LOG = """#pragma once
#include <cstdio>
#define LOG(...) std::printf(__VA_ARGS__)
"""
PROGRAM = """#include <cstdio>
#include <cstdlib>
#include <vector>
#include "common.h"
#include "debug.h"
int main(int argc, char** argv) {
  common_params params;
  common_debug_cb_user_data data(params, {}, false);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) return 3;
  std::vector<llama_token> tokens;
  for (int i = 3; i < argc; ++i) tokens.push_back(std::atoi(argv[i]));
  auto options = llama_context_default_params();
  options.n_ctx = 512;
  options.n_batch = options.n_ubatch = 512;
  options.cb_eval = params.cb_eval;
  options.cb_eval_user_data = params.cb_eval_user_data;
  options.flash_attn_type = std::atoi(argv[2]) != 0 ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                                                    : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context = llama_init_from_model(model, options);
  if (context == nullptr) return 3;
  std::printf("number of input tokens = %zu\\n", tokens.size());
  for (const llama_token token : tokens) std::printf("  %d\\n", token);
  return llama_decode(context, llama_batch_get_one(tokens.data(), (int)tokens.size()));
}
"""


def source_root(version):
    """The folder of llama.cpp's source, downloaded where it is not there yet."""
    archive = CACHE / f"{PACKAGE}-{version}.tar.gz"
    if not archive.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary",
                        PACKAGE, f"{PACKAGE}=={version}", "--dest", str(CACHE)],
                       check=True, stdout=sys.stderr)
    root = f"{PACKAGE}-{version}/vendor/llama.cpp"
    folders = ("common/debug.", "include/", "ggml/include/")
    with tarfile.open(archive) as tar:
        members = [member for member in tar.getmembers()
                   if any(member.name.startswith(f"{root}/{folder}") for folder in folders)]
        tar.extractall(CACHE, members, filter="data")
    return CACHE / root


def build():
    """The program, compiled where it is not there yet."""
    version = importlib.metadata.version(PACKAGE)
    program = CACHE / f"llama_text-{version}"
    if program.exists():
        return program
    CACHE.mkdir(parents=True, exist_ok=True)
    root = source_root(version)
    shim = CACHE / "shim"
    shim.mkdir(exist_ok=True)
    for name, text in (("common.h", COMMON), ("log.h", LOG), ("main.cc", PROGRAM)):
        (shim / name).write_text(text)
    # Copies, so that "common.h" beside debug.cpp is the one above.
    for name in ("debug.h", "debug.cpp"):
        (shim / name).write_bytes((root / "common" / name).read_bytes())
    libraries = pathlib.Path(importlib.util.find_spec("llama_cpp").origin).parent / "lib"
    subprocess.run(["c++", "-std=c++17", "-O1", f"-I{shim}", f"-I{root / 'include'}",
                    f"-I{root / 'ggml' / 'include'}", str(shim / "main.cc"), str(shim / "debug.cpp"),
                    "-o", str(program), f"-L{libraries}", "-lllama", "-lggml", "-lggml-base",
                    f"-Wl,-rpath,{libraries}"], check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("tokens", help="ids, separated by commas")
    parser.add_argument("--flash", action="store_true")
    options = parser.parse_args()
    command = [str(build()), options.model, str(int(options.flash)), *options.tokens.split(",")]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
