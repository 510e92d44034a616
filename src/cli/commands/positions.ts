/** `sibyl positions`: holdings of a trader, and their profit. */

import { OptionError } from '#devnet/command.ts'
import { parseAddress } from '#domain/ids.ts'
import { command, SIGN_OPTIONS } from '../command.ts'
import { readerOf, traderReading } from '../connect.ts'
import { showAmount, showId, showJson, showTable } from '../show.ts'

export const positions = command({
  name: 'positions',
  takes: '[<address>]',
  about: 'shows the shares and the profit of a trader, by default the trader of the given key',
  options: SIGN_OPTIONS,
  async run({ values, positionals: [named], io }) {
    if (named !== undefined && parseAddress(named) === undefined) {
      throw new OptionError(`'${named}' is not an address (0x and 40 hex digits)`)
    }
    const { client, address } =
      named === undefined
        ? await traderReading(values, io)
        : { client: readerOf(values, io), address: named }
    const chainId = Number(values['chain-id'] ?? (await client.config()).chains[0]?.chainId ?? 0)
    const of = { address, chainId }
    const held = await client.positions(of)
    const realisedProfit = await client.realisedProfit(of)
    if (values.json) {
      io.out(showJson({ ...of, realisedProfit, positions: held }, 2))
      return 0
    }
    const rows = held.map((position) => [
      showId(position.marketId),
      showAmount(position.yesShares),
      showAmount(position.noShares),
      showAmount(position.totalInvested),
      showAmount(position.realisedProfit),
      `${position.resolved ? '[resolved] ' : ''}${position.marketQuestion}`,
    ])
    const head = ['MARKET', 'YES', 'NO', 'INVESTED', 'REALISED', 'QUESTION']
    io.out(rows.length === 0 ? `${address} holds nothing\n` : showTable(head, rows))
    io.out(`realised profit ${showAmount(realisedProfit)}\n`)
    return 0
  },
})
