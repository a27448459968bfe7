# A client for Rowhouse on curl, for POSIX shells. Source it; it reads ROWHOUSE_URL, ROWHOUSE_API_KEY, ROWHOUSE_PROJECT.
#
#   rowhouse POST query "$json" || echo "$rowhouse_code"
#
# The answer is left in a variable, not written: a function in $(…) could not tell status and code to its caller.

# rowhouse METHOD PATH [JSON]: sets rowhouse_status and rowhouse_answer; after a refusal also rowhouse_code and
# rowhouse_message, and fails. Key and body go by file descriptors: a command line can be seen by others.
rowhouse() {
  rowhouse_status=0 rowhouse_answer='' rowhouse_code='' rowhouse_message=''
  case $ROWHOUSE_API_KEY in
    *[!0-9A-Za-z_]*)
      rowhouse_code=invalid_api_key rowhouse_message='The API key holds a character that no key has.'
      return 1 ;;
  esac
  if [ $# -gt 2 ]; then set -- "$1" "$2" "$3" --data-binary @-; else set -- "$1" "$2" ''; fi
  rowhouse_method=$1 rowhouse_path=$2 rowhouse_body=$3
  shift 3
  # A query has 30 seconds, so a request has 35. --globoff: braces in an address are braces.
  rowhouse_answer=$(
    printf %s "$rowhouse_body" | curl --silent --show-error --globoff --connect-timeout 10 --max-time 35 \
      --request "$rowhouse_method" --config /dev/fd/3 --write-out '\n%{http_code}' "$@" \
      "${ROWHOUSE_URL%/}/api/dbaas/v2/projects/$(rowhouse_segment "$ROWHOUSE_PROJECT")/$rowhouse_path" 2>&1 3<<END
header = "Authorization: Bearer $ROWHOUSE_API_KEY"
header = "Content-Type: application/json"
END
  ) || {
    rowhouse_code=unreachable
    rowhouse_message="There was no answer from the service: $(printf %s "$rowhouse_answer" | head -n 1)"
    return 1
  }
  rowhouse_status=${rowhouse_answer##*
}
  rowhouse_answer=${rowhouse_answer%
*}
  case $rowhouse_status$rowhouse_answer in 2??'{'*) return 0 ;; esac
  if rowhouse_code=$(rowhouse_field code); then
    rowhouse_message="$(rowhouse_field message) $(rowhouse_field hint)"
  else
    rowhouse_code=unexpected_answer rowhouse_message="This is no answer of Rowhouse (HTTP $rowhouse_status)."
  fi
  return 1
}

# The first field of that name in the answer, a text without its quotes; fails if there is none. It is for answers
# whose shape you know: names in your own data are found too.
rowhouse_field() {
  rowhouse_fields "$1" | sed 1q | grep .
}

# All fields of that name, one a line. Numbers stay text, so that all their digits do.
rowhouse_fields() {
  printf '%s\n' "$rowhouse_answer" |
    grep -oE "\"$1\": *(\"([^\"\\\\]|\\\\.)*\"|[^][{},\" ]+)" |
    sed -e 's/^"[^"]*": *//' -e 's/^"\(.*\)"$/\1/' -e 's/\\\(["\\/]\)/\1/g'
}

# A text as JSON, quotes included.
rowhouse_json() {
  case $1 in
    *[[:cntrl:]]*) echo 'Texts with control characters need a real JSON library.' >&2; return 1 ;;
  esac
  printf '"%s"' "$(printf %s "$1" | sed 's/["\\]/\\&/g')"
}

# A text as part of an address: every byte as %xx.
rowhouse_segment() {
  printf %s "$1" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g'
}

# rowhouse_verify TOKEN KEY PROJECT: writes the token's claims; fails and tells why if it is not to be trusted.
# It cannot see whether the user has signed out meanwhile: the service does, wherever the token is used.
rowhouse_verify() {
  case $1 in
    *[!0-9A-Za-z_.-]* | *.*.*.*) echo 'it is not base64url in three parts' >&2; return 1 ;;
    *.*.*) ;;
    *) echo 'it has not three parts' >&2; return 1 ;;
  esac
  rowhouse_signed=${1%.*}
  # The signature comes first, and always by HS256: nothing of a stranger's is read, nor chooses the algorithm.
  rowhouse_made=$(printf %s "$rowhouse_signed" | rowhouse_hmac "$2" | openssl base64 -A | tr '+/' '-_' | tr -d '=')
  # A shell compares letter by letter and stops early. What it compares here, nobody outside can steer.
  rowhouse_salt=$(openssl rand -hex 32)
  [ -n "$rowhouse_salt" ] && [ -n "$rowhouse_made" ] &&
    [ "$(rowhouse_salted "$rowhouse_made")" = "$(rowhouse_salted "${1##*.}")" ] || {
    echo 'its signature is wrong' >&2
    return 1
  }
  rowhouse_answer=$(rowhouse_decode "${rowhouse_signed%.*}")
  [ "$(rowhouse_field alg)" = HS256 ] || { echo 'its algorithm is not HS256' >&2; return 1; }
  rowhouse_answer=$(rowhouse_decode "${rowhouse_signed#*.}")
  [ "$(rowhouse_field iss)" = "rowhouse-auth:$3" ] || { echo 'it is of another project' >&2; return 1; }
  [ "$(rowhouse_field exp)" -gt "$(date +%s)" ] || { echo 'it has expired' >&2; return 1; }
  printf '%s\n' "$rowhouse_answer"
}

# HMAC-SHA256 of what comes in. By hand, since openssl would take the key on its command line.
rowhouse_hmac() {
  [ ${#1} -le 64 ] || { echo 'A project key is shorter.' >&2; return 1; }
  rowhouse_inner='' rowhouse_outer=''
  rowhouse_zeros=$(printf '%*s' $((64 - ${#1})) '' | sed 's/ / 0/g')
  for rowhouse_byte in $(printf %s "$1" | od -An -v -tu1) $rowhouse_zeros; do
    rowhouse_inner=$rowhouse_inner$(printf '\\0%o' $((rowhouse_byte ^ 54)))
    rowhouse_outer=$rowhouse_outer$(printf '\\0%o' $((rowhouse_byte ^ 92)))
  done
  {
    printf %b "$rowhouse_outer"
    { printf %b "$rowhouse_inner"; cat; } | openssl dgst -sha256 -binary
  } | openssl dgst -sha256 -binary
}

rowhouse_salted() {
  printf %s "$rowhouse_salt$1" | openssl dgst -sha256
}

rowhouse_decode() {
  rowhouse_part=$(printf %s "$1" | tr '_-' '/+')
  while [ $((${#rowhouse_part} % 4)) -ne 0 ]; do rowhouse_part=$rowhouse_part=; done
  printf %s "$rowhouse_part" | openssl base64 -d -A
}
