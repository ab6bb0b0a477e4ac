#!/usr/bin/env bash
# The step of action.yml. It writes comment.md, and the number of the pull request, into the folder $OUT, and ends as
# `xbackend gate` does; without a verdict (14) it ends with 0 and a warning, unless NO_VERDICT is fail.
set -euo pipefail
mkdir -p "$OUT"
printf '%s\n' "${NUMBER:-}" >"$OUT/number"
comment=$OUT/comment.md log=$(mktemp) code=0
: >"$comment"

commit() {
  git rev-parse --verify --quiet --short=12 "$1^{commit}" && return
  echo "there is no commit $1 here: give actions/checkout 'fetch-depth: 2', or 0 for all" >&2
  return 2
}
gate() {
  local base head more
  base=$(commit "$BASE") && head=$(commit "$HEAD") || return
  read -r -a more <<<"${OPTIONS:-}" || true
  xbackend gate --rev "$base" --rev "$head" "$TARGET" --markdown "${more[@]}" >"$comment"
}
gate 2> >(tee "$log" >&2) || code=$?
wait

if [ ! -s "$comment" ]; then # no judgement: the last lines of why, as code
  printf '**Not judged: `xbackend gate` ended with exit code %d.**\n\n' "$code" >"$comment"
  tail -n 20 "$log" | cut -c 1-300 | sed 's/^/    /' >>"$comment"
fi
cat "$comment" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
echo "exit-code=$code" >>"${GITHUB_OUTPUT:-/dev/null}"
line=$(head -n 1 "$comment")
if [ "$code" = 14 ] && [ "${NO_VERDICT:-warn}" != fail ]; then
  printf '::warning::%s\n' "${line//%/%25}"
  exit 0
fi
printf '%s\n' "$line"
exit "$code"
