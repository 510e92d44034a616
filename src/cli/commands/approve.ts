/** `sibyl approve` lets the exchange move a trader's funds. `sibyl redeem` redeems the payouts of resolved markets. */

import type { RelayMarket } from '#client/relayer.ts'
import { CommandError, OptionError } from '#devnet/command.ts'
import { partsOf } from '#domain/parts-of.ts'
import { command, SIGN_OPTIONS } from '../command.ts'
import { traderOf } from '../connect.ts'
import { findMarket } from '../find-market.ts'
import { showFacts, showJson } from '../show.ts'

export const approve = command({
  name: 'approve',
  takes: '',
  about: 'lets the exchange move the dollars and the shares of the trader to settle trades',
  more: 'The trader signs, and the exchange pays for the gas.',
  options: {
    amount: {
      value: '<dollars>',
      help: 'dollars that the exchange may take in total, or the word unlimited',
      default: '10000',
    },
    'own-gas': {
      help: "sends the transactions from the trader's account, which pays for the gas in ether",
    },
    ...SIGN_OPTIONS,
  },
  async run({ values, io }) {
    const { client, address } = await traderOf(values, io)
    const txHashes: string[] = []
    if (values['own-gas']) {
      for (const { txHash } of await client.chain.approve(values.amount)) txHashes.push(txHash)
    } else {
      txHashes.push((await client.relayer.stablecoinPermit({ value: values.amount })).tx_hash)
      txHashes.push((await client.relayer.ctfApproval()).tx_hash)
    }
    if (values.json) io.out(showJson({ address, txHashes }, 2))
    else if (txHashes.length === 0)
      io.out(`${address} has already approved the exchange: no transaction was needed\n`)
    else io.out(showFacts({ wallet: address, transactions: txHashes.join(' ') }))
    return 0
  },
})

export const redeem = command({
  name: 'redeem',
  takes: '[<market>]',
  about: 'redeems the shares of a resolved market, or of all resolved markets, for their payout',
  more: 'The trader signs, and the exchange pays for the gas.',
  options: {
    all: { help: 'redeems all resolved markets in which the trader holds shares' },
    ...SIGN_OPTIONS,
  },
  async run({ values, positionals: [named], io }) {
    if ((named === undefined) !== values.all) {
      throw new OptionError('give one market, or --all')
    }
    const { client } = await traderOf(values, io)
    if (named !== undefined) {
      const market = await findMarket(client, named)
      if (!market.resolved)
        throw new CommandError(`the market '${market.question}' is not resolved yet`)
      const { tx_hash: txHash } = await client.relayer.ctfRedemption({ market })
      io.out(
        values.json ? showJson({ markets: [market.id], txHashes: [txHash] }, 2) : `${txHash}\n`,
      )
      return 0
    }
    const held = (await client.positions()).filter(
      ({ resolved, yesShares, noShares }) => resolved && yesShares + noShares > 0,
    )
    const markets = held.map(({ marketId: id, contractAddress }) => ({ id, contractAddress }))
    const txHashes = await redeemAll(client.relayer, markets, (await client.config()).limits)
    if (values.json) io.out(showJson({ markets: markets.map(({ id }) => id), txHashes }, 2))
    else io.out(markets.length === 0 ? 'nothing to redeem\n' : `${txHashes.join('\n')}\n`)
    return 0
  },
})

/**
 * Redeems payouts of several markets. Sends as many transactions as necessary, each with at most
 * `relayerRedemptionsMax` markets, the limit of the exchange.
 */
async function redeemAll(
  relayer: {
    batchCtfRedemption(intent: {
      readonly markets: readonly RelayMarket[]
    }): Promise<{ readonly txHash: string }>
  },
  markets: readonly RelayMarket[],
  limits: Readonly<Record<string, number>>,
): Promise<string[]> {
  const most = limits.relayerRedemptionsMax ?? 1
  const txHashes: string[] = []
  for (const part of partsOf(markets, most)) {
    const { txHash } = await relayer.batchCtfRedemption({ markets: part })
    txHashes.push(txHash)
  }
  return txHashes
}
