/** Introduction of the OpenAPI document: units, signing, tokens, errors, the stream. */

import { API_VERSION } from '#domain/api-version.ts'
import type { DocumentInfo } from '#http/openapi.ts'

const DESCRIPTION = `A binary prediction-market exchange. Traders sign orders for the outcomes YES and NO of a market. The exchange
matches the orders by price and time, and settles the trades on a chain.

## Units

- Money and shares are integers with six decimals. A **price** is 1 to 999999 millionths of a dollar for one share:
  \`420000\` is 0.42. A **size** of \`10000000\` is 10 shares. A fill costs price × size, rounded up to a millionth.
- Integers are JSON numbers. Values that can exceed 2^53, such as a nonce, are decimal text. One exception: the size of a
  level in a book is a number that can exceed 2^53, so use an exact JSON parser for books. In requests, integers can also
  be decimal text.
- Times are Unix seconds. Fields that end in \`Ms\`, and \`ts\` on the stream, are Unix milliseconds.
- \`side\` is 0 for buy and 1 for sell; \`outcome\` is 0 for YES and 1 for NO.
- Addresses are accepted in upper and lower case and returned with a checksum. Ids and hashes are 0x and 64 hex digits.

## Signing

The trader signs each order with EIP-712. The owner of an account signs each operation of the relayer in the same way.
\`GET /api/v1/config\` has the domain and types to sign for every chain, under \`chains[].signatures\`. Any EIP-712 library
can sign with them. \`POST /api/v1/orders/validate\` checks an order: it returns all errors, the digest that the server computed,
and the address recovered from the signature. The exchange never places the same signed order twice, so sending it again
is safe.

## Authentication

Reads need no authentication. If \`auth.bearer\` of \`GET /api/v1/config\` is true, writes need a bearer token of an API key.
Cancelling all orders always needs a token. A wallet registers a key with a signature (\`POST /api/v1/api-keys\`). A token
is \`base64url(payload).base64url(signature)\`. The payload is the JSON object \`{"kid": id of the key, "ts": Unix seconds,
"n": 16 random bytes as hex}\`, and the signature is the key's Ed25519 signature of the payload's bytes. A token is valid
for five minutes. If \`auth.singleUse\` of \`GET /api/v1/config\` is true, each token is valid for
one request only.

## Errors

A rejection is \`{"error": message, "code": stable name, "field": invalid field}\`. Programs should compare \`code\`. If a
retry can succeed, the answer has the header \`Retry-After\`. \`OUTCOME_UNKNOWN\` means that the exchange may have executed the
request: send the same request again.

Within a major version of the API, answers can gain fields and codes. If a route will change or be removed, its answers
have the headers \`Deprecation\` and \`Sunset\`. \`GET /api/v1/changes\` is a feed of all changes.

## The stream

\`GET /api/v1/stream\` is a WebSocket with live books, trades, orders, funds and prices, in sequence. It also accepts orders.
\`/asyncapi.json\` describes its messages.

## Trying it

On the devnet, the first example of *Place a signed order* is an order for an open market, signed by a demo trader:
**Execute** places it. On every other exchange the examples only show the format; no wallet signed them.`

const TAGS: Readonly<Record<string, string>> = {
  orders:
    'Placing, checking, listing and cancelling signed orders. Prices are millionths of a dollar, sizes ' +
    'millionths of a share.',
  markets: 'Markets, their books, trades, prices over time, holders and statistics.',
  users: 'Positions, open orders and history of one address.',
  positions: 'Shares of an address in a market, read from the chain.',
  settlement: 'Settlement of trades on the chain.',
  resolution: 'Resolution of a market: an outcome is proposed, can be disputed, and becomes final.',
  relayer:
    'Operations on the chain for which the owner of the account pays no gas. The owner only ' +
    'signs each operation (EIP-712, see `signatures` in the answer of `getConfig`). The exchange ' +
    'sends the transactions and pays for them. Error answers also contain `success: false`.',
  'quick markets':
    'Prices of assets, and quick markets. A quick market lasts a short time and is decided by ' +
    'the price of an asset. Here, the price of an asset is an integer with eight decimals: ' +
    '`6543210000000` is 65,432.10 dollars.',
  keys:
    'API keys of a wallet. A client makes its bearer tokens itself and signs them with its API ' +
    'key, without a request to the exchange.',
  stream:
    'All live data over one WebSocket. Each message of a channel contains the sequence number or ' +
    'cursor of the previous message. So a client can detect lost messages. A client can check ' +
    'its copy of a book with the checksum of the book.',
  transparency:
    'The public log has the events of all markets. It is a transparency log: a client can get ' +
    'proofs that the log contains an entry, and that no entry was changed. It can check these ' +
    'proofs offline.',
  operation: 'Configuration and health of the exchange.',
}

/** Returns the beginning of the document: title, introduction and headings. */
export function aboutApi(title: string): DocumentInfo {
  return {
    title,
    version: API_VERSION,
    description: DESCRIPTION,
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
  }
}
