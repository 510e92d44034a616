/** Introduction of the OpenAPI document: units, signing, tokens, errors, the stream. */

import { API_VERSION } from '#domain/api-version.ts'
import type { DocumentInfo } from '#http/openapi.ts'

const DESCRIPTION = `A binary prediction-market exchange: signed orders for the outcomes YES and NO of a market,
matched by price and time, settled on chain.

## Units

- Money and shares are integers with six decimals. A **price** is 1 to 999999 millionths of a dollar for one share:
  \`420000\` is 0.42. A **size** of \`10000000\` is 10 shares. A fill costs price × size, rounded up to a millionth.
- Integers are JSON numbers. Values that can exceed 2^53, such as a nonce, are decimal text. The size of a level in a book
  is a number that may exceed 2^53, too: parse books exactly. In requests an integer may be text.
- Times are Unix seconds. Fields that end in \`Ms\`, and \`ts\` on the stream, are in milliseconds.
- \`side\` is 0 for buy and 1 for sell; \`outcome\` is 0 for YES and 1 for NO.
- Addresses are accepted in any case and returned with a checksum; ids and hashes are 32 bytes of hex.

## Signing

An order carries the EIP-712 signature of its trader, and so does each operation of the relayer.
\`GET /api/v1/config\` has the domain and the types of each for every chain, under \`chains[].signatures\`: sign
with any library. \`POST /api/v1/orders/validate\` returns every error of an order, with the digest that the server
computed and the address that it recovered. The same signed order is never placed twice: sending it again is safe.

## Authentication

Reads need none. If \`auth.bearer\` of \`GET /api/v1/config\` is true, writes need a bearer token of an API key, and
cancelling all orders always does. A wallet registers a key by a signature (\`POST /api/v1/api-keys\`). A token is
\`base64url(payload).base64url(signature)\`: the payload is JSON, \`{"kid": the key's id, "ts": Unix seconds,
"n": 16 random bytes as hex}\`, the signature Ed25519 over its bytes. It is valid for five minutes, and can be used once.

## Errors

A rejection is \`{"error": a sentence, "code": a stable word, "field": the invalid field}\`: match on \`code\`. If a retry
can help, the answer has \`Retry-After\`. \`OUTCOME_UNKNOWN\` means that the request may have been executed: send the same
request again.
Answers may gain fields and codes within a major version of the API. Answers of a route that will change
or be removed have \`Deprecation\` and \`Sunset\` headers; \`GET /api/v1/changes\` is a feed of all changes.

## The stream

\`GET /api/v1/stream\` is a WebSocket with live books, trades, orders, funds and prices, in sequence. It also accepts orders.
Its messages are in \`/asyncapi.json\`.

## Trying it

On the devnet the first example of *Place a signed order* is signed by a demo trader for an open market:
**Execute** places it. On every other exchange the examples have the right shape, but no wallet signed them.`

const TAGS: Readonly<Record<string, string>> = {
  orders:
    'Placing, checking, listing and cancelling signed orders. Prices are millionths of a dollar, sizes millionths of a share.',
  markets: 'Markets, their books, trades, prices over time, holders and statistics.',
  users: 'Positions, open orders and history of one address.',
  positions: 'Shares of an address in a market, read from the chain.',
  settlement: 'Progress of trades on their way to the chain.',
  resolution:
    'How the outcome of a market is decided: it is proposed, possibly disputed, and resolved.',
  relayer:
    'Operations on chain by a signature alone: signed by their owner (EIP-712, see `signatures` of `getConfig`), sent and paid by the exchange. Their errors also contain `success: false`.',
  'quick markets':
    'Prices of assets, and the short markets on them. Prices have eight decimals here: `6543210000000` is 65,432.10 dollars.',
  keys: 'API keys of a wallet; a client makes tokens from them without a request.',
  stream:
    'Everything live over one WebSocket. Each message of a channel names the one before it; a checksum verifies each book.',
  transparency:
    'The log of all markets in the form of a transparency log, with proofs, which can be checked offline, that an entry is in the log and that no entry was changed.',
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
