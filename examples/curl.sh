#!/bin/sh
# An order with curl. What curl cannot do is sign: here the command sibyl does, and any library that knows
# EIP-712 can, from what /api/v1/config tells. Needs curl and jq.
set -eu

URL=${SIBYL_URL:-http://127.0.0.1:8080}
SIBYL=${SIBYL:-npx sibyl}
FILE=$(mktemp)
trap 'rm -f "$FILE"' EXIT

echo 'the markets:'
curl -sS "$URL/api/v1/markets?status=open&limit=2" | jq -r '.markets[] | "  \(.id[:12])  \(.question)"'
MARKET=$(curl -sS "$URL/api/v1/markets?status=open&limit=1" | jq -r '.markets[0].id')

# Account 13 is a demo trader of the local chain; elsewhere: --key-file, or SIBYL_TRADER_KEY.
$SIBYL order buy "$MARKET" YES --size 1 --price 0.05 --account 13 --sign --url "$URL" > "$FILE"

echo 'what would the exchange say?'
curl -sS "$URL/api/v1/orders/validate" -H 'Content-Type: application/json' -d @"$FILE" | jq -c '{valid, errors}'

echo 'the order:'
HASH=$(curl -sS "$URL/api/v1/orders" -H 'Content-Type: application/json' -d @"$FILE" | jq -r '.orderHash')
echo "  $HASH"

echo 'the best bid:'
curl -sS "$URL/api/v1/orderbook/$MARKET?outcome=YES" | jq -c '.bids[0]'

echo 'the same order again is the same order:'
curl -sS "$URL/api/v1/orders" -H 'Content-Type: application/json' -d @"$FILE" | jq -c '{status, duplicate}'

echo 'and its end:'
curl -sS -X DELETE "$URL/api/v1/orders/$HASH?marketId=$MARKET&side=buy" | jq -c '{status}'

echo 'a mistake names its field:'
jq '.order.price = 0' "$FILE" | curl -sS "$URL/api/v1/orders" -H 'Content-Type: application/json' -d @- | jq -c '{code, field}'
