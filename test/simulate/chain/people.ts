/**
 * People on the simulated chain: the creator of markets, and traders who fund their accounts, move funds and withdraw
 * them.
 */

import { maxUint256 } from 'viem'
import { needOf } from '#domain/funds.ts'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { BUY, expiresAtSec, type Order, type PermitSignature } from '#domain/order.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import type { Scheduler } from '../scheduler.ts'
import type { SimulatedChain } from './chain.ts'
import { type Funds, GRACE_SEC, type ModelLog, type Token } from './contracts.ts'

/** Account that receives the funds that traders move away. */
const ELSEWHERE = `0x${'ee'.repeat(20)}` as Address
const DOLLARS = 1_000_000_000n
const SHARES = 60_000_000n

export class People {
  readonly #chain: SimulatedChain
  readonly #random: Random
  readonly #traders: readonly Address[]
  readonly #markets: MarketId[] = []
  /** Dollars in all wallets and behind all shares. */
  readonly dollars: bigint
  isMoving = true
  /** Returns whether a live order of the trader has the permit with this nonce. */
  isHeld: (trader: Address, nonce: bigint) => boolean = () => false
  /** True if traders neither move funds away nor sign permits. Then no trade may fail by their fault. */
  readonly isCalm: boolean

  constructor(
    world: { readonly scheduler: Scheduler; readonly seed: number },
    chain: SimulatedChain,
    traders: readonly Address[],
  ) {
    this.#chain = chain
    this.#traders = traders
    this.#random = randomFrom(Math.imul(world.seed + 61, 0x165667b1))
    this.dollars = DOLLARS * BigInt(traders.length)
    chain.act({ name: 'fund', run: (funds) => traders.flatMap((each) => this.#fund(funds, each)) })
    // Traders move funds at this interval. With 0 they never do. Then a failed trade cannot be a trader's fault.
    const everyUs = this.#random.pick([400_000, 3_000_000, 0])
    this.isCalm = everyUs === 0
    if (everyUs > 0) world.scheduler.every(everyUs, () => this.#move())
  }

  /** Signs an order; a buy may bring a permit. */
  sign(order: Order): {
    readonly orderHash: OrderHash
    readonly signature: string
    readonly permit?: PermitSignature
  } {
    const orderHash = this.#chain.contracts.hashOf(order)
    const signature = `${orderHash}${'1'.padStart(64, '0')}1b`
    const isPlain = this.isCalm || order.side !== BUY || !this.#random.chance(0.2)
    if (isPlain) return { orderHash, signature }
    const { trader } = order
    const unused = this.#chain.head.wallets.get(trader)?.permits ?? 0n
    let next = unused
    while (this.isHeld(trader, next)) next++
    // Sometimes signs a second permit with a nonce that was already used. The token accepts only one of the two.
    const isAgain = next > unused && this.#random.chance(0.3)
    const nonce = isAgain ? next - 1n : next
    const value = BigInt(needOf(order, order.size))
    const deadlineSec = expiresAtSec(order.expiration) + 2 * GRACE_SEC
    const s = this.#random.hex(32)
    this.#chain.contracts.permits.set(s, { owner: trader, nonce, value, deadlineSec })
    const permit = {
      ...{ nonce: String(nonce), value: String(value), deadline: String(deadlineSec) },
      ...{ v: 27, r: `0x${'1'.padStart(64, '0')}`, s },
    } as PermitSignature
    return { orderHash, signature, permit }
  }

  /** Creates a market on the chain and gives the traders shares of it. */
  prepare(marketId: MarketId): void {
    this.#chain.contracts.know(marketId)
    this.#markets.push(marketId)
    this.#chain.act({
      name: 'prepare',
      run: (funds) => {
        if (funds.isPrepared(marketId)) return []
        funds.prepare(marketId)
        return this.#traders.flatMap((trader) => this.#split(funds, trader, marketId))
      },
    })
  }

  #fund(funds: Funds, trader: Address): ModelLog[] {
    const { contracts } = this.#chain
    const wallet = funds.wallet(trader)
    funds.put(trader, { ...wallet, dollars: DOLLARS, allowance: maxUint256, isApproved: true })
    return [
      contracts.transferLog(ELSEWHERE, trader, DOLLARS),
      contracts.approvalLog(trader, maxUint256),
      contracts.approvedLog(trader, true),
    ]
  }

  /** Splits dollars of a trader into the same number of shares of each outcome. */
  #split(funds: Funds, trader: Address, marketId: MarketId): ModelLog[] {
    const wallet = funds.wallet(trader)
    if (wallet.dollars < SHARES) return []
    const shares = new Map(wallet.shares)
    const logs = [this.#chain.contracts.transferLog(trader, ELSEWHERE, SHARES)]
    for (const outcome of [0, 1] as const) {
      const token: Token = `${marketId}/${outcome}`
      shares.set(token, (shares.get(token) ?? 0n) + SHARES)
      logs.push(this.#chain.contracts.sharesLog(ELSEWHERE, trader, token, SHARES))
    }
    funds.put(trader, { ...wallet, dollars: wallet.dollars - SHARES, shares })
    return logs
  }

  #move(): void {
    if (!this.isMoving) return
    const random = this.#random
    const trader = random.pick(this.#traders)
    const dice = random.next()
    const share = random.chance(0.3) ? 1_000n : BigInt(random.int(1, 999))
    const market = this.#markets.length === 0 ? undefined : random.pick(this.#markets)
    const { contracts } = this.#chain
    this.#chain.act({
      name: 'move',
      run: (funds) => {
        const wallet = funds.wallet(trader)
        const set = (more: Partial<typeof wallet>) => funds.put(trader, { ...wallet, ...more })
        if (dice < 0.3) return this.#moveDollars(funds, [trader, ELSEWHERE], share)
        if (dice < 0.6) return this.#moveDollars(funds, [ELSEWHERE, trader], share)
        if (dice < 0.65) {
          const allowance = share * 10_000n
          set({ allowance })
          return [contracts.approvalLog(trader, allowance)]
        }
        if (dice < 0.75) {
          set({ allowance: maxUint256 })
          return [contracts.approvalLog(trader, maxUint256)]
        }
        if (dice < 0.85) {
          const isApproved = dice > 0.78
          set({ isApproved })
          return [contracts.approvedLog(trader, isApproved)]
        }
        if (market === undefined) return []
        const token: Token = `${market}/${dice < 0.92 ? 0 : 1}`
        const [from, to] = share % 2n === 0n ? [trader, ELSEWHERE] : [ELSEWHERE, trader]
        const size = ((funds.wallet(from).shares.get(token) ?? 0n) * share) / 1_000n
        const logs: ModelLog[] = []
        contracts.moveShares(funds, { from, to, token, size }, logs)
        return logs
      },
    })
  }

  #moveDollars(funds: Funds, [from, to]: readonly [Address, Address], share: bigint): ModelLog[] {
    const giving = funds.wallet(from)
    const amount = (giving.dollars * share) / 1_000n
    funds.put(from, { ...giving, dollars: giving.dollars - amount })
    const taking = funds.wallet(to)
    funds.put(to, { ...taking, dollars: taking.dollars + amount })
    return [this.#chain.contracts.transferLog(from, to, amount)]
  }
}
