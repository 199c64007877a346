# Shared by tools/dynrun and tools/test: makes the packages, the Python environment and the build. Plain sh; progress on stderr.
#
#   set_up ROOT PRESET TARGET...    sets $build, $venv; ends the shell with one line when something cannot be done

packages="build-essential cmake ninja-build ccache mold llvm-19-dev libfmt-dev nlohmann-json3-dev catch2 zlib1g-dev libzstd-dev"

say() { printf 'dynrun: %s\n' "$*" >&2; }

fail() {
  say "error: $*"
  exit 1
}

# lock FILE WHAT: held on descriptor 9 until unlock; a second run waits and says so.
lock() {
  exec 9>"$1" || fail "cannot write $1: make its folder writable"
  flock -n 9 && return
  say "waiting for another run that is $2"
  flock 9
}

unlock() { exec 9>&-; }

# --- Debian packages -------------------------------------------------------------------------------------------------------

missing_packages() {
  for package in $packages; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf ' %s' "$package"
  done
}

# as_root COMMAND...: fails when there is no way.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    sudo "$@"
  else
    return 1
  fi
}

install_packages() { # PACKAGE...
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >&2 && return
  as_root apt-get update -q >&2 || return 1
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >&2
}

need_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    for tool in c++ cmake ninja; do
      command -v $tool >/dev/null || fail "no $tool, and this is no Debian: install what Debian calls $packages"
    done
    return
  fi
  missing=$(missing_packages)
  [ -z "$missing" ] && return
  say "installing Debian packages:$missing"
  # shellcheck disable=SC2086
  install_packages $missing || fail "cannot install packages: run 'apt-get update && apt-get install$missing' as root"
}

# --- Python ----------------------------------------------------------------------------------------------------------------

# A CPython 3.12 with its shared library, its headers and the venv module.
suits() {
  [ -x "$1" ] && "$1" -c 'if True:
    import ensurepip, os, sys, sysconfig, venv
    facts = sysconfig.get_config_vars()
    library = os.path.join(facts.get("LIBDIR") or "", facts.get("INSTSONAME") or "")
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    sys.exit(not (sys.version_info[:2] == (3, 12) and ".so" in library and os.path.exists(library) and os.path.exists(header)))
' 2>/dev/null
}

find_base_python() {
  if [ -n "${DYNRUN_BASE_PYTHON:-}" ]; then
    suits "$DYNRUN_BASE_PYTHON" || fail "DYNRUN_BASE_PYTHON=$DYNRUN_BASE_PYTHON is no CPython 3.12 with a shared library, headers and venv"
    base=$DYNRUN_BASE_PYTHON
    return
  fi
  for base in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python3.12 /usr/bin/python3.12 /usr/local/bin/python3.12 \
    /opt/python*/bin/python3.12 "$(command -v python3.12 2>/dev/null)"; do
    suits "$base" && return
  done
  return 1
}

need_base_python() {
  find_base_python && return
  if command -v apt-get >/dev/null && [ -n "$(apt-cache madison python3.12-dev 2>/dev/null)" ]; then
    say "installing Python 3.12"
    install_packages python3.12-dev python3.12-venv && find_base_python && return
  fi
  pyenv=$(command -v pyenv || echo "${PYENV_ROOT:-$HOME/.pyenv}/bin/pyenv")
  if [ -x "$pyenv" ]; then
    say "building Python 3.12 with pyenv (some minutes)"
    install_packages libssl-dev libbz2-dev libreadline-dev libsqlite3-dev liblzma-dev libffi-dev uuid-dev ||
      say "cannot install what Python's own modules need: some may be missing"
    PYTHON_CONFIGURE_OPTS=--enable-shared "$pyenv" install -s 3.12 >&2 && find_base_python && return
  fi
  fail "no CPython 3.12 with a shared library: install python3.12-dev and python3.12-venv, or one built with --enable-shared and name it in DYNRUN_BASE_PYTHON"
}

# The environment's folder is named by what it holds: clones with the same requirements share it.
need_environment() {
  requirements=$root/tools/requirements.txt
  hash=$(sha256sum "$requirements" | cut -c1-16)
  venv=$cache/venv-$hash
  [ -e "$venv/.complete" ] && [ -x "$venv/bin/python" ] && return
  lock "$cache/venv.lock" "making the Python environment"
  if [ ! -e "$venv/.complete" ] || [ ! -x "$venv/bin/python" ]; then
    if [ ! -x "$venv/bin/python" ]; then
      need_base_python
      say "making the Python environment $venv with $base"
      "$base" -m venv "$venv" >&2 || fail "cannot make $venv: see above"
    fi
    say "installing PyTorch and the model libraries (some gigabytes the first time)"
    "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off -r "$requirements" 2>&1 |
      sed -u 's/^/dynrun:   /' | grep -v --line-buffered 'already satisfied' >&2
    "$venv/bin/python" -c 'import torch, torchvision, timm, transformers' 2>"$venv/.error" ||
      fail "the Python environment is incomplete ($(tail -n 1 "$venv/.error")): is there a network and room in $cache? Then try again"
    : >"$venv/.complete"
  fi
  unlock
}

# --- the build -------------------------------------------------------------------------------------------------------------

# Compiling a file that includes torch takes up to 1.5 GB.
jobs() {
  cores=$(nproc)
  by_memory=$(awk '/^MemAvailable/ { n = int($2 / 1500000); print (n < 1 ? 1 : n) }' /proc/meminfo)
  [ "$by_memory" -lt "$cores" ] && echo "$by_memory" || echo "$cores"
}

need_build() { # TARGET...
  build=$root/build/$preset
  mkdir -p "$build" || fail "cannot make $build: is the checkout writable?"
  lock "$build/.lock" "building in $build"
  : >"$build/.started"
  DYNRUN_PYTHON=$venv/bin/python
  CCACHE_DIR=${CCACHE_DIR:-$cache/ccache}
  export DYNRUN_PYTHON CCACHE_DIR
  if [ ! -e "$build/build.ninja" ] || ! grep -qx "DYNRUN_PYTHON:[A-Z]*=$DYNRUN_PYTHON" "$build/CMakeCache.txt" 2>/dev/null; then
    say "configuring $build"
    (cd "$root" && cmake --preset "$preset" -DDYNRUN_PYTHON="$DYNRUN_PYTHON") >"$build/configure.log" 2>&1 || {
      tail -n 20 "$build/configure.log" >&2
      fail "cannot configure the build: see above and $build/configure.log"
    }
  fi
  say "building (preset $preset, $(jobs) jobs)"
  NINJA_STATUS='dynrun:   [%f/%t %es] ' ninja -C "$build" -j "$(jobs)" "$@" >&2 ||
    fail "the build failed: mend what is named above and run again"
  printf '%s\n' "$venv" >"$build/.started.new"
  touch -r "$build/.started" "$build/.started.new"
  mv "$build/.started.new" "$build/.stamp"
  unlock
}

set_up() { # ROOT PRESET TARGET...
  root=$(cd "$1" && pwd -P) || exit 1
  preset=$2
  shift 2
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/dynrun
  mkdir -p "$cache" || fail "cannot make $cache: set XDG_CACHE_HOME to a folder that you may write"
  need_packages
  need_environment
  need_build "$@"
}
