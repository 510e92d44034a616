/** Finds a market by its id, by the first digits of the id, or by words of its question. */

import type { Client } from '#client/client.ts'
import { CommandError } from '#devnet/command.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import { showId } from './show.ts'

const ID = /^0x[0-9a-f]{64}$/i
const DIGITS = /^0x[0-9a-f]{2,63}$/i
const NAMED_MAX = 3

export async function findMarket(client: Client, text: string): Promise<Market> {
  if (ID.test(text)) return client.market(text)
  const digits = text.toLowerCase()
  const found = DIGITS.test(text)
    ? await gather(client.eachMarket({ quick: true }), ({ id }) => id.startsWith(digits))
    : await gather(client.eachMarket({ search: text }), () => true)
  const [only] = found
  if (only === undefined)
    throw new CommandError(
      `there is no market '${text}'; the command sibyl markets lists the open markets`,
    )
  if (found.length === 1) return only
  const some = found.slice(0, NAMED_MAX).map(({ id, question }) => `${showId(id)} (${question})`)
  throw new CommandError(
    `'${text}' matches several markets: ${some.join(', ')}${found.length > NAMED_MAX ? ', …' : ''}`,
  )
}

/** Collects matching markets. Stops when it has found more than `NAMED_MAX`, because an error message lists no more. */
async function gather(
  markets: AsyncIterable<Market>,
  fits: (market: Market) => boolean,
): Promise<Market[]> {
  const found: Market[] = []
  for await (const market of markets) {
    if (fits(market)) found.push(market)
    if (found.length > NAMED_MAX) break
  }
  return found
}
