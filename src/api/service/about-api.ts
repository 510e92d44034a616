/** What the OpenAPI document says before its operations: units, signing, tokens, errors, the stream. */

import { API_VERSION } from '#domain/api-version.ts'
import type { DocumentInfo } from '#http/openapi.ts'

const DESCRIPTION = `A binary prediction-market exchange: signed orders for the outcomes YES and NO of a market,
matched by price and time, settled on chain.

## Units

- Money and shares are integers with six decimals. A **price** is 1 to 999999 millionths of a dollar for one share:
  \`420000\` is 0.42. A **size** of \`10000000\` is 10 shares. A fill costs price × size, rounded up to a millionth.
- Integers are JSON numbers; what can be larger than 2^53 by its nature, such as a nonce, is decimal text. The size of a
  level of a book is a number that may be larger, too: read books exactly. In requests an integer may be text.
- Times are Unix seconds; what ends in \`Ms\`, and \`ts\` on the stream, is in milliseconds.
- \`side\` is 0 for buy and 1 for sell; \`outcome\` is 0 for YES and 1 for NO.
- Addresses are taken in any case and answered with a checksum; ids and hashes are 32 bytes of hex.

## Signing

An order carries the EIP-712 signature of its trader, and so does each operation of the relayer.
\`GET /api/v1/config\` has the domain and the types of each for every chain, under \`chains[].signatures\`: sign
with any library. \`POST /api/v1/orders/validate\` says everything that is wrong with an order, with the digest that was
hashed and the address that was recovered. The same signed order never enters a book twice: to send it again is safe.

## Authentication

Reads need none. Where \`auth.bearer\` of \`GET /api/v1/config\` is true, writes need a bearer token of an API key, and
cancelling all orders always does. A wallet registers a key by a signature (\`POST /api/v1/api-keys\`). A token is
\`base64url(payload).base64url(signature)\`: the payload is JSON, \`{"kid": the key's id, "ts": Unix seconds,
"n": 16 random bytes as hex}\`, the signature Ed25519 over its bytes. It is good for five minutes, and once.

## Errors

A refusal is \`{"error": a sentence, "code": a stable word, "field": its place}\`: match on \`code\`. What may be tried
again says so with \`Retry-After\`. \`OUTCOME_UNKNOWN\` means that the request may have been done: send the same again.
Answers may gain fields and codes within a major version of the API.

## The stream

\`GET /api/v1/stream\` is a WebSocket with books, trades, orders, funds and prices live and in order, and takes orders.
Its messages are in \`/asyncapi.json\`.

## Trying it

On the devnet the first example of *Place a signed order* is signed by a demo trader for a market that is open:
**Execute** places it. On every other exchange the examples have the right shape, and no wallet signed them.`

const TAGS: Readonly<Record<string, string>> = {
  orders:
    'Placing, checking, listing and cancelling signed orders. Prices are millionths of a dollar, sizes millionths of a share.',
  markets: 'Markets, their books, trades, prices over time, holders and statistics.',
  users: 'What one address has, has open and has done.',
  positions: 'What an address holds of a market, as the chain says it.',
  settlement: 'What becomes of trades on their way to the chain.',
  resolution: 'How a market is decided: proposed, disputed, resolved.',
  relayer:
    'Operations on chain by a signature alone: signed by their owner (EIP-712, see `signatures` of `getConfig`), sent and paid by the exchange. Their errors say `success: false` besides.',
  'quick markets':
    'Prices of assets, and the short markets on them. Prices have eight decimals here: `6543210000000` is 65,432.10 dollars.',
  keys: 'API keys, which speak for a wallet; tokens are made of them without asking.',
  stream:
    'Everything live over one WebSocket. Each message of a channel names the one before it; a book proves itself by a checksum.',
  operation: 'How the exchange is set up, and how it is.',
}

/** The head of the document. */
export function aboutApi(title: string): DocumentInfo {
  return {
    title,
    version: API_VERSION,
    description: DESCRIPTION,
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
  }
}
