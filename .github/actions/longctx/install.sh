#!/usr/bin/env bash
# Installs $PACKAGE with the extras $EXTRAS: `name==1.2` becomes `name[a,b]==1.2`, a path becomes `path[a,b]`.
set -euo pipefail
extras=${EXTRAS//[[:space:]]/}
name=${PACKAGE%%[=<>!~]*}
python -m pip install --disable-pip-version-check "$name${extras:+[$extras]}${PACKAGE#"$name"}"
