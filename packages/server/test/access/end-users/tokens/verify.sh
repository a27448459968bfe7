# Token, key and project come in, a line each; the claims go out as JSON, or why the token is refused.
. ../../../../examples/curl/rowhouse.sh
read -r token
read -r key
read -r project
claims=$(rowhouse_verify "$token" "$key" "$project" 2>&1) && echo "$claims" || echo "refused: $claims" >&2
