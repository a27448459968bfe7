#!/bin/sh
# Users, rows and queries with Rowhouse. See README.md.
set -eu
. "$(dirname "$0")/rowhouse.sh"

for program in curl openssl; do
  command -v "$program" >/dev/null || { echo "$program is missing: please install it." >&2; exit 1; }
done
missing=''
[ -n "${ROWHOUSE_URL:-}" ] || missing="$missing ROWHOUSE_URL"
[ -n "${ROWHOUSE_API_KEY:-}" ] || missing="$missing ROWHOUSE_API_KEY"
[ -n "${ROWHOUSE_PROJECT:-}" ] || missing="$missing ROWHOUSE_PROJECT"
[ -z "$missing" ] || { echo "Please set$missing: see README.md." >&2; exit 1; }

fail() {
  echo "$rowhouse_code: $rowhouse_message" >&2
  exit 1
}
joined() {
  sed -e ':next' -e '$!{N;b next' -e '}' -e 's/\n/ | /g'
}

email=ada+curl-$(openssl rand -hex 6)@example.com
password=$(openssl rand -hex 16)
credentials="\"email\": $(rowhouse_json "$email"), \"password\": $(rowhouse_json "$password")"
rowhouse POST auth/signup "{$credentials, \"data\": {\"name\": \"Ada\"}}" || fail
echo "signed up: $(rowhouse_field email)"

rowhouse POST auth/signin "{$credentials}" || fail
until=$(rowhouse_field expires_at | cut -c1-16 | tr T ' ')
token=$(rowhouse_field access_token)
claims=$(rowhouse_verify "$token" "$ROWHOUSE_API_KEY" "$ROWHOUSE_PROJECT") || { echo 'The token is refused.' >&2; exit 1; }
rowhouse_answer=$claims
user=$(rowhouse_field sub)
echo "signed in: $(rowhouse_field role), until $until UTC"

rowhouse POST query '{"query": "create table if not exists example_teas (id bigint generated always as identity primary key, user_id uuid not null references auth.users on delete cascade, name text not null, price numeric(10, 2) not null, barcode bigint)"}' || fail

# More than 2^53, where a double would lose the last digit.
barcode=9007199254740993
rowhouse POST tables/example_teas "{\"user_id\": \"$user\", \"name\": \"Assam\", \"price\": 4.50, \"barcode\": $barcode}" || fail
[ "$(rowhouse_field barcode)" = "$barcode" ]
echo "inserted: $(rowhouse_field name) at $(rowhouse_field price), barcode $(rowhouse_field barcode)"

rows=''
while IFS=';' read -r name price; do
  rows="$rows${rows:+, }{\"user_id\": \"$user\", \"name\": $(rowhouse_json "$name"), \"price\": $price}"
done <<'END'
Genmaicha 玄米茶;12.00
Earl Grey, "the Queen's";9.99
Mate;3.80
Oolong;21.50
END
rowhouse POST tables/example_teas "[$rows]" || fail
echo "inserted: $(rowhouse_field row_count) more"

# All pages, by cursor: each costs the same, however deep.
number=1 cursor=''
while :; do
  rowhouse GET "tables/example_teas?user_id=eq.$user&limit=2$cursor" || fail
  echo "page $number: $(rowhouse_fields name | joined)"
  [ "$(rowhouse_field has_more)" = true ] || break
  number=$((number + 1)) cursor="&cursor=$(rowhouse_field next_cursor)"
done

rowhouse POST query "{\"query\": \"select name || ' ' || price as tea from example_teas where user_id = \$1 and price < \$2 order by price\", \"params\": [\"$user\", 10]}" || fail
echo "under 10: $(rowhouse_fields tea | joined)"

if rowhouse GET tables/example_tea; then
  echo 'A table that is not there was read.' >&2
  exit 1
fi
[ "$rowhouse_code" = table_not_found ] || fail
echo "refused: $rowhouse_status $rowhouse_code: $rowhouse_message"
echo done
