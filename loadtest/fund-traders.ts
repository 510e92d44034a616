/**
 * Gives funds to the traders of a run, if the exchange has a local chain: dollars, shares of both outcomes of every
 * market, and the approvals that settlement needs. The dollars come from demo traders. They are not minted, because the
 * account that can mint also sends the settlements. The node of the local chain signs for the traders, so that nothing
 * has to be relayed.
 */

import type { Account } from 'viem'
import { erc20Abi } from 'viem'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { devnetAccount } from '#devnet/accounts.ts'
import { httpBatch, makeBatchSender } from '#devnet/batch-sender.ts'
import type { MarketId } from '#domain/ids.ts'
import type { Trader } from './signed-orders.ts'

type Hex = `0x${string}`

export type FundedChain = {
  readonly rpcUrl: string
  readonly contracts: {
    readonly settlement: string
    readonly conditionalTokens: string
    readonly stablecoin: string
  }
}

const UNIT = 1_000_000n
const BENEFACTORS = [15, 16, 17, 18, 19] as const
/**
 * Total amount that one demo trader gives away to the traders of a load run. Each of them receives at most `GIFT_MAX`,
 * half of it as shares.
 */
const GIFTS = 400_000n * UNIT
const GIFT_MAX = 20_000n * UNIT
/** Maximum number of transactions to fund a run: more would take too long for a load test. */
const TRANSACTIONS_MAX = 20_000
const TRANSACTIONS_EACH = 4
const TRADERS_AT_ONCE = 20
const ETHER = '0x56bc75e2d63100000'
const NO_COLLECTION = `0x${'0'.repeat(64)}`
const BOTH_OUTCOMES = [1n, 2n]
const MAX_UINT256 = 2n ** 256n - 1n

/** Returns whether this many traders and markets can be funded. */
export function canFund(traders: number, markets: number): boolean {
  return traders * (markets + TRANSACTIONS_EACH) <= TRANSACTIONS_MAX
}

export async function fundTraders(
  chain: FundedChain,
  traders: readonly Trader[],
  markets: readonly MarketId[],
  say: (text: string) => void,
): Promise<void> {
  const rpc = httpBatch(chain.rpcUrl)
  const sender = makeBatchSender(rpc)
  const { contracts } = chain
  const stablecoin = { address: contracts.stablecoin as Hex, abi: erc20Abi }
  const tokens = { address: contracts.conditionalTokens as Hex, abi: conditionalTokensAbi }
  const settlement = contracts.settlement as Hex
  const most = (GIFTS * BigInt(BENEFACTORS.length)) / BigInt(traders.length)
  const gift = most < GIFT_MAX ? most : GIFT_MAX
  const shares = gift / 2n / BigInt(markets.length)

  for (let at = 0; at < traders.length; at += TRADERS_AT_ONCE) {
    const part = traders.slice(at, at + TRADERS_AT_ONCE)
    await rpc(
      part.flatMap(({ address }) => [
        { method: 'hardhat_setBalance', params: [address, ETHER] },
        { method: 'hardhat_impersonateAccount', params: [address] },
      ]),
    )
    for (const [index, { address }] of part.entries()) {
      const giver = devnetAccount(BENEFACTORS[(at + index) % BENEFACTORS.length]!)
      await sender.send(giver, stablecoin, 'transfer', [address, gift])
    }
    await sender.flush()
    for (const { address } of part) {
      const trader = { address, type: 'json-rpc' } as Account
      await sender.send(trader, stablecoin, 'approve', [tokens.address, gift])
      for (const market of markets) {
        const args = [stablecoin.address, NO_COLLECTION, market, BOTH_OUTCOMES, shares]
        await sender.send(trader, tokens, 'splitPosition', args)
      }
      await sender.send(trader, stablecoin, 'approve', [settlement, MAX_UINT256])
      await sender.send(trader, tokens, 'setApprovalForAll', [settlement, true])
    }
    await sender.flush()
    say(`funding traders: ${Math.min(at + TRADERS_AT_ONCE, traders.length)}`)
  }
}
