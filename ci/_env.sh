# What the scripts of this folder share; sourced, never run. Leaves the caller in the root of the clone.

given=${PYTHON:-}
case $given in
/* | "") ;;
*/*) export PYTHON=$PWD/$given given=$PWD/$given ;; # it was meant from where the caller stands
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
[ "$(id -u)" != 0 ] || export PIP_ROOT_USER_ACTION=ignore
export PYRIGHT_PYTHON_IGNORE_WARNINGS=1 # the version is the one that is installed; nothing is looked up

say() { printf '\n== %s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# python_version PROGRAM: prints 3.12.1 if the program runs and is Python 3.11 or later, else fails.
python_version() {
  "$1" -c 'import sys; print(*sys.version_info[:3], sep="."); sys.exit(sys.version_info < (3, 11))' 2>/dev/null </dev/null
}

# find_python: sets $python to the first Python of 3.11 or later that can make an environment.
find_python() {
  local candidate without="" candidates=(python3.13 python3.12 python3.11 python3 python)
  [ -z "$given" ] || candidates=("$given")
  for candidate in "${candidates[@]}"; do
    python_version "$candidate" >/dev/null || continue
    if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
      python=$candidate
      return
    fi
    without=${without:-$candidate}
  done
  if [ -n "$without" ]; then
    die "$without cannot make an environment: its modules venv and ensurepip are missing. \
Install them, on Debian and Ubuntu with: apt install python3-venv"
  elif [ -n "$given" ]; then
    die "PYTHON=$given is no Python 3.11 or later that runs here"
  fi
  die "no Python 3.11 or later among: ${candidates[*]}. \
Install one, on Debian and Ubuntu with: apt install python3 python3-venv, or name one: PYTHON=/path/to/python $0"
}

# make_env FOLDER EXTRAS: an environment that has this clone and the extras installed; sets $env_python. It is made
# anew where it does not run, came along with a copied clone, or is not of the version of $PYTHON; it is installed into
# only when there is something to install, which the stamp inside it tells.
make_env() {
  local folder=$1 extras=$2 version stamp
  env_python=$root/$folder/bin/python
  version=$(python_version "$env_python") || version=""
  if [ -z "$version" ] || [ "$("$env_python" -c 'import sys; print(sys.prefix)')" != "$root/$folder" ] ||
    { [ -n "$given" ] && [ "$version" != "$(python_version "$given")" ]; }; then
    find_python
    version=$(python_version "$python")
    rm -rf "$folder"
    "$python" -m venv "$folder"
  fi
  stamp="$root $version $extras $("$env_python" -c 'import hashlib; print(hashlib.sha256(open("pyproject.toml", "rb").read()).hexdigest())')"
  [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$stamp" ] || return 0
  say "Python $version in $folder: installing fastdur[$extras]"
  "$env_python" -m pip install -q -e ".[$extras]"
  printf '%s\n' "$stamp" >"$folder/.stamp"
}

# temp_in_memory: the files of the tests, and of a server that is started, go into memory until the script ends. A killed
# process loses nothing that it has written, on a disk or not, and a disk makes each commit wait. A folder that TMPDIR
# names is used as it is; so is the usual one where memory has less than 2 GB left, or may hold no programs.
temp_in_memory() {
  local free
  free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }') || true
  [ -z "${TMPDIR:-}" ] && [ "${free:-0}" -ge 2000000 ] || return 0
  local folder
  folder=$(mktemp -d /dev/shm/fastdur-ci-XXXXXX 2>/dev/null) || return 0
  at_exit "rm -rf '$folder'"
  cp "$(type -P true)" "$folder" && "$folder/true" 2>/dev/null || return 0
  chmod 755 "$folder" # a server that root starts runs as somebody else
  export TMPDIR=$folder
}

# at_exit COMMAND: runs it when the script ends, however it ends; what was said last is run first.
exit_commands=":"
at_exit() {
  exit_commands="$1; $exit_commands"
  # shellcheck disable=SC2064 # the commands are known now
  trap "$exit_commands" EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# start_postgres: a server of our own until the script ends, however it ends; its address in FASTDUR_TEST_POSTGRES.
# An address that is set already is used as it is.
start_postgres() {
  if [ -n "${FASTDUR_TEST_POSTGRES:-}" ]; then
    say "Postgres: the one that FASTDUR_TEST_POSTGRES names"
    return
  fi
  local folder
  say "Postgres: starting a server"
  folder=$("$env_python" -m pytest_fastdur.postgres start $$ wheel)
  at_exit "'$env_python' -m pytest_fastdur.postgres stop '$folder'"
  FASTDUR_TEST_POSTGRES="host=$folder/socket user=postgres dbname=postgres"
  export FASTDUR_TEST_POSTGRES
}
