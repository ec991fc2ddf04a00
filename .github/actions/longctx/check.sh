#!/usr/bin/env bash
# Runs the contracts of $CONTRACT, one a line, and says what came of it as outputs of the step.
set -euo pipefail
lines() { # the lines of a text without blanks around them, and without empty ones
  sed -e 's/^[[:space:]]*//' -e 's/[[:space:]]*$//' -e '/^$/d' <<<"$1"
}
report=$(lines "$REPORT" | head -n 1)
arguments=("--longctx-report=$report")
while IFS= read -r contract; do arguments+=("--longctx-contract=$contract"); done < <(lines "$CONTRACT")
if ((${#arguments[@]} == 1)); then
  echo "::error title=longctx::the input contract names no file"
  exit 2
fi
if [[ -n $HTML ]]; then arguments+=("--longctx-html=$HTML"); fi
if [[ -n $BASELINE ]]; then arguments+=("--longctx-baseline=$BASELINE"); fi
while IFS= read -r argument; do arguments+=("$argument"); done < <(lines "$ARGUMENTS")

rm -f -- "$report" # an old one must not be taken for this run's
status=0
python -m pytest "${arguments[@]}" || status=$?
verdict=error
if [[ -f $report ]]; then
  verdict=$(python -c 'import json, sys; print(json.load(open(sys.argv[1], encoding="utf-8"))["verdict"])' "$report")
  echo "report=$report" >>"$GITHUB_OUTPUT"
fi
if ((status != 0)) && [[ $verdict == passed || $verdict == warned ]]; then verdict=failed; fi
echo "verdict=$verdict" >>"$GITHUB_OUTPUT"
exit "$status"
