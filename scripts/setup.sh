#!/usr/bin/env bash
# Makes everything Headrace needs on this machine: the locked Python environment in .venv, Java, and
# Spark's jars in .jars; with the word `tests` also redis-server, which only `make test` needs. Each part is
# stamped with a digest of what it was made from and is made again only when that changes, so a second run
# takes no time. An interrupted run is simply started again.
#
# Needs Python 3.11 (its name in $PYTHON, or python3.11 or python3 on the PATH) and, the first time, the
# package registries that pip and Spark are configured for. Works on Debian and Ubuntu as they come.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*"; }
stop() { printf 'setup: %s\n' "$@" >&2; exit 1; }
digest() { cat "$@" | sha256sum | cut -d ' ' -f 1; }
stamped() { [ "$(cat "$1" 2>/dev/null)" = "$2" ]; }

# Runs a command up to three times, for registries that drop a connection.
persist() {
    local try
    for try in 1 2 3; do
        "$@" && return 0
        say "try $try of 3 failed: $*"
    done
    return 1
}

# Installs Debian packages where this user may; exit status 1 where they may not or apt fails.
AS=() # what stands before a command that root must run
apt_install() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null && sudo -n true 2>/dev/null || return 1
        AS=(sudo -n)
    fi
    say "installing $* by apt"
    "${AS[@]}" apt-get update -qq || say "apt-get update failed; going on with the lists as they are"
    "${AS[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

is_python_311() { "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; }

# Prints the Python 3.11 to build on.
find_python() {
    local name
    for name in ${PYTHON:+"$PYTHON"} python3.11 python3 /usr/bin/python3.11; do
        if is_python_311 "$name"; then
            printf '%s\n' "$name"
            return 0
        fi
        [ "$name" != "${PYTHON-}" ] || return 1
    done
    return 1
}

make_venv() {
    local python
    python=$(find_python) || { [ -z "${PYTHON-}" ] && apt_install python3.11 python3.11-venv && python=$(find_python); } || stop \
        "Headrace needs Python 3.11, and ${PYTHON:-neither python3.11 nor python3} is not that version here." \
        "Install it (Debian 12: sudo apt-get install python3.11 python3.11-venv), or name it:" \
        "PYTHON=/path/to/python3.11 make setup"
    say "making .venv with $("$python" --version)"
    rm -rf .venv
    if ! "$python" -m venv .venv >/dev/null 2>&1; then
        # Debian's python3.11 comes without ensurepip; the package is named like the interpreter.
        rm -rf .venv
        apt_install python3.11-venv || stop \
            "$python cannot make a virtual environment: its ensurepip is missing, and apt could not install it here." \
            "Do: sudo apt-get install python3.11-venv, then run this again."
        "$python" -m venv .venv || stop "$python still cannot make a virtual environment; see the message above."
    fi
}

# The lock's own entry for uv, so that even the installer is checked by its hash.
lock_entry() { awk -v name="$1==" 'index($0, name) == 1 {on = 1; print; next} /^[^ ]/ {on = 0} on' requirements.lock; }

install_packages() {
    local uv_only=.venv/uv.lock
    say "installing the locked packages (1.5 GB; a minute or two the first time)"
    lock_entry uv >"$uv_only"
    persist .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r "$uv_only" ||
        stop "pip could not install uv; is a package registry reachable?"
    # uv is the quick way; pip knows configurations that uv does not read, so it has the last word.
    VIRTUAL_ENV=$PWD/.venv persist .venv/bin/uv pip sync -q --require-hashes requirements.lock ||
        persist .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements.lock ||
        stop "the packages of requirements.lock could not be installed; see the messages above."
    .venv/bin/python scripts/zip_bytecode.py || stop "PySpark's archives could not be compiled; see the messages above."
}

install_project() {
    say "installing headrace itself, editable"
    # This way needs nothing from a registry: setuptools and wheel are in the lock.
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-index --no-build-isolation -e . ||
        stop "headrace could not be installed into .venv; see the messages above."
}

# The home of a Java that Spark 4.2 runs on, or nothing. $1 is a java executable.
java_home_of() {
    "$1" -XshowSettings:properties -version 2>&1 |
        awk -F ' = ' '/ java.home = /{home = $2} / java.specification.version = /{v = $2}
                      END {if (v == 17 || v == 21) print home; else exit 1}'
}

find_java() {
    local java
    for java in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java /usr/lib/jvm/*-17-*/bin/java /usr/lib/jvm/*-21-*/bin/java; do
        command -v "$java" >/dev/null && java_home_of "$java" && return 0
    done
    return 1
}

# Whether the Java of the last time is there still and no other was asked for; starts no JVM.
java_is_known() {
    local home
    home=$(cat .venv/java-home 2>/dev/null) || return 1
    [ "${JAVA_HOME:-$home}" = "$home" ] && [ -x "$home/bin/java" ]
}

ensure_java() {
    local home
    ! java_is_known || return 0
    if ! home=$(find_java); then
        apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless || stop \
            "Spark needs Java 17 or 21; none was found in JAVA_HOME, on the PATH or in /usr/lib/jvm," \
            "and apt could not install it for this user." \
            "Do: sudo apt-get update && sudo apt-get install openjdk-17-jre-headless, then run this again," \
            "or set JAVA_HOME to a Java 17 or 21."
        home=$(find_java) || stop "Java was installed, but no Java 17 or 21 answers; set JAVA_HOME to one."
    fi
    printf '%s\n' "$home" >.venv/java-home
}

# Only tests start it, on loopback and in memory. The service that Debian starts with the package is not wanted.
ensure_redis() {
    ! command -v redis-server >/dev/null || return 0
    apt_install redis-server || stop \
        "The tests of look-ups need redis-server; it is not on the PATH, and apt could not install it for this user." \
        "Do: sudo apt-get update && sudo apt-get install redis-server, then run this again." \
        "Only \`make test\` needs it: \`make setup\` and \`make demo\` do without."
    if [ -d /run/systemd/system ]; then
        "${AS[@]}" systemctl disable --now redis-server >/dev/null 2>&1 ||
            say "redis-server now runs as a service too, which Headrace does not use"
    fi
}

# Spark's resolver is talkative even where all goes well: its words are shown only where it fails.
fetch_jars() {
    JAVA_HOME=$(cat .venv/java-home) .venv/bin/python scripts/fetch_jars.py >.venv/fetch_jars.log 2>&1 || {
        tail -n 40 .venv/fetch_jars.log >&2
        return 1
    }
}

# Two runs at once (make -j, two terminals) take turns.
exec 9>.setup.lock
flock 9

# What is made from a folder that was moved or copied is of no use there, so the folder is part of the stamp.
packages=$(printf '%s\n' "$PWD" | digest - requirements.lock scripts/zip_bytecode.py)
project=$(digest setup.py setup.cfg pyproject.toml)
jars=$(digest requirements.lock conf/jars.in conf/jars.lock)

if ! stamped .venv/packages.stamp "$packages" || ! [ -x .venv/bin/python ]; then
    make_venv
    install_packages
    printf '%s\n' "$packages" >.venv/packages.stamp
fi
if ! stamped .venv/project.stamp "$project"; then
    install_project
    printf '%s\n' "$project" >.venv/project.stamp
fi
ensure_java
if ! stamped .jars/jars.stamp "$jars"; then
    say "fetching Spark's jars"
    persist fetch_jars || stop "the jars of conf/jars.in could not be fetched; see the messages above."
    printf '%s\n' "$jars" >.jars/jars.stamp
fi
if [ "${1-}" = tests ]; then
    ensure_redis
fi
