#!/bin/sh
# One sentence for the first thing that is missing, before anything is installed or started.
# Usage: preflight.sh [python] [java]   (both, when neither is named)

fail() {
    printf 'holdfast: %s\n' "$1" >&2
    exit 1
}

need_python() {
    command -v "${PYTHON:-python3}" >/dev/null 2>&1 ||
        fail "expected Python 3.11 or later as \`${PYTHON:-python3}\` on the PATH, found none."
    "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "expected Python 3.11 or later as \`${PYTHON:-python3}\`, found $("${PYTHON:-python3}" --version 2>&1)."
    "${PYTHON:-python3}" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "expected the modules \`venv\` and \`ensurepip\` in \`${PYTHON:-python3}\`, found a Python without them."
}

need_java() {
    if [ -n "${JAVA_HOME:-}" ]; then
        java="$JAVA_HOME/bin/java"
        [ -x "$java" ] || fail "expected a Java 17 or later at \`JAVA_HOME\`, found no \`$java\`."
    else
        java=java
        command -v java >/dev/null 2>&1 ||
            fail "expected Java 17 or later at \`JAVA_HOME\` or on the PATH, found none."
    fi
    version=$("$java" -version 2>&1 | sed -n 's/.* version "\([^"]*\)".*/\1/p' | head -n 1)
    major=${version%%[!0-9]*}
    [ -n "$major" ] || fail "expected Java 17 or later, found a \`$java\` that does not tell its version."
    [ "$major" -ge 17 ] || fail "expected Java 17 or later, found $version."
}

[ $# -gt 0 ] || set -- python java
for part in "$@"; do
    case $part in
        python) need_python ;;
        java) need_java ;;
        *) fail "expected \`python\` or \`java\`, found \`$part\`." ;;
    esac
done
