#!/bin/sh
# Print one sentence about the first missing requirement, before anything is installed or started.
# Usage: preflight.sh [python] [java]   (checks both if neither is named)

fail() {
    printf 'holdfast: %s\n' "$1" >&2
    exit 1
}

need_python() {
    command -v "${PYTHON:-python3}" >/dev/null 2>&1 ||
        fail "\`${PYTHON:-python3}\` is not on the PATH: holdfast needs Python 3.11 or later."
    "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "\`${PYTHON:-python3}\` is $("${PYTHON:-python3}" --version 2>&1): holdfast needs Python 3.11 or later."
    "${PYTHON:-python3}" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "\`${PYTHON:-python3}\` lacks the modules \`venv\` and \`ensurepip\`, which create the environment."
}

need_java() {
    if [ -n "${JAVA_HOME:-}" ]; then
        java="$JAVA_HOME/bin/java"
        [ -x "$java" ] || fail "\`$java\` does not exist: set \`JAVA_HOME\` to a Java 17 or later."
    else
        java=java
        command -v java >/dev/null 2>&1 ||
            fail "Java is missing, in \`JAVA_HOME\` and on the PATH: Spark needs Java 17 or later."
    fi
    version=$("$java" -version 2>&1 | sed -n 's/.* version "\([^"]*\)".*/\1/p' | head -n 1)
    major=${version%%[!0-9]*}
    [ -n "$major" ] || fail "\`$java -version\` prints no version: Spark needs Java 17 or later."
    [ "$major" -ge 17 ] || fail "Java $version is too old: Spark needs Java 17 or later."
}

[ $# -gt 0 ] || set -- python java
for part in "$@"; do
    case $part in
        python) need_python ;;
        java) need_java ;;
        *) fail "\`$part\` is not a requirement that can be checked: use \`python\` or \`java\`." ;;
    esac
done
