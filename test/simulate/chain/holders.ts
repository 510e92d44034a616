/**
 * Holders of outcome tokens on the simulated chain: they split dollars into shares, give shares to each other, merge
 * them and redeem those of resolved markets.
 */

import { zeroHash } from 'viem'
import { positionIdOf } from '#chain/position-id.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { type Address, type MarketId, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import type { Scheduler } from '../scheduler.ts'
import { logOf } from './abi.ts'
import type { SimulatedChain } from './chain.ts'
import type { Funds, ModelLog, Token } from './contracts.ts'

const HOLDERS = [1, 2, 3].map((each) => `0x${`c${each}`.repeat(20)}` as Address)
const HOLDER_DOLLARS = 1_000_000_000n
const BOTH: readonly Outcome[] = [0, 1]

export class Holders {
  readonly #chain: SimulatedChain
  readonly #random: Random
  readonly #holders: readonly Address[]
  isMoving = true

  constructor(
    world: { readonly scheduler: Scheduler; readonly seed: number },
    chain: SimulatedChain,
    more: readonly Address[],
  ) {
    this.#chain = chain
    this.#holders = [...HOLDERS, ...more]
    this.#random = randomFrom(Math.imul(world.seed + 83, 0x4cf5ad43))
    chain.act({
      name: 'fund',
      run: (funds) => {
        for (const each of HOLDERS) {
          funds.put(each, { ...funds.wallet(each), dollars: HOLDER_DOLLARS })
        }
        return []
      },
    })
    world.scheduler.every(1_500_000, () => this.#move())
  }

  #move(): void {
    const random = this.#random
    const [holder, other] = [random.pick(this.#holders), random.pick(this.#holders)]
    const [dice, outcome] = [random.next(), random.pick(BOTH)]
    const amount = BigInt(random.int(1, 9)) * 1_000_000n
    const at = random.next()
    if (!this.isMoving) return
    this.#chain.act({
      name: 'hold',
      run: (funds) => {
        const markets = [...funds.markets.values()]
        const market = markets[Math.floor(at * markets.length)]
        if (market === undefined) return []
        const { marketId } = market
        if (market.isPaid && dice < 0.15)
          return this.#chain.contracts.relay.redeem(holder, marketId, funds)
        if (dice < 0.5) return this.#convert(funds, holder, marketId, amount)
        if (dice < 0.7) return this.#convert(funds, holder, marketId, -amount)
        return this.#give(funds, { from: holder, to: other, marketId, outcome })
      },
    })
  }

  /** Splits dollars into shares, or merges shares if the amount is below zero. */
  #convert(funds: Funds, holder: Address, marketId: MarketId, by: bigint): ModelLog[] {
    const held = BOTH.map((outcome) => sharesOf(funds, holder, marketId, outcome))
    if (held.some((shares) => shares + by < 0n)) return []
    const { conditionalTokens } = this.#chain.contracts.at
    const [paying, collateral] = [funds.wallet(holder), funds.wallet(conditionalTokens)]
    if (paying.dollars < by) return []
    funds.put(holder, { ...paying, dollars: paying.dollars - by })
    funds.put(conditionalTokens, { ...collateral, dollars: collateral.dollars + by })
    for (const outcome of BOTH) change(funds, holder, { marketId, outcome, by })
    const amount = by < 0n ? -by : by
    const [from, to] = by < 0n ? [holder, ZERO_ADDRESS] : [ZERO_ADDRESS, holder]
    const ids = BOTH.map((outcome) => this.#idOf(marketId, outcome))
    return [
      this.#log('TransferBatch', { operator: holder, from, to, ids, values: [amount, amount] }),
      this.#log(by < 0n ? 'PositionsMerge' : 'PositionSplit', {
        ...{ stakeholder: holder, collateralToken: this.#chain.contracts.at.stablecoin },
        ...{ parentCollectionId: zeroHash, conditionId: marketId, partition: [1n, 2n], amount },
      }),
    ]
  }

  #give(
    funds: Funds,
    gift: { from: Address; to: Address; marketId: MarketId; outcome: Outcome },
  ): ModelLog[] {
    const { from, to, marketId, outcome } = gift
    const value = sharesOf(funds, from, marketId, outcome) / 2n
    change(funds, from, { marketId, outcome, by: -value })
    change(funds, to, { marketId, outcome, by: value })
    const id = this.#idOf(marketId, outcome)
    return [this.#log('TransferSingle', { operator: from, from, to, id, value })]
  }

  #idOf(marketId: MarketId, outcome: Outcome): bigint {
    return BigInt(positionIdOf(this.#chain.contracts.at.stablecoin, marketId, outcome))
  }

  #log(eventName: string, args: Readonly<Record<string, unknown>>): ModelLog {
    const { conditionalTokens } = this.#chain.contracts.at
    return logOf(conditionalTokensAbi, conditionalTokens, eventName, args)
  }
}

function sharesOf(funds: Funds, holder: Address, marketId: MarketId, outcome: Outcome): bigint {
  return funds.wallet(holder).shares.get(`${marketId}/${outcome}`) ?? 0n
}

function change(
  funds: Funds,
  holder: Address,
  { marketId, outcome, by }: { marketId: MarketId; outcome: Outcome; by: bigint },
): void {
  const wallet = funds.wallet(holder)
  const token: Token = `${marketId}/${outcome}`
  const shares = new Map(wallet.shares)
  shares.set(token, (shares.get(token) ?? 0n) + by)
  funds.put(holder, { ...wallet, shares })
}
