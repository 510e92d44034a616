/**
 * The participants in resolutions on the simulated chain: a creator of markets, proposers and disputers with bonds, the
 * arbiter of disputes, and strangers. Strangers settle at the market or at the oracle, sometimes with too little gas.
 */

import { type Hex, keccak256, stringToHex } from 'viem'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import type { Scheduler } from '../scheduler.ts'
import type { SimulatedChain } from './chain.ts'
import type { Funds, ModelLog } from './contracts.ts'
import type { ChainMarket } from './factory.ts'
import { openClaimOf } from './oracle-model.ts'

const PROPOSERS = [1, 2, 3].map((each) => `0x${`d${each}`.repeat(20)}` as Address)
const MAKER = `0x${'b0'.repeat(20)}` as Address
const STRANGER = `0x${'b1'.repeat(20)}` as Address
const PROPOSER_DOLLARS = 5_000_000_000n
const MARKETS_OPEN_MAX = 4
const EVERY_US = 700_000

export class Proposers {
  readonly #chain: SimulatedChain
  readonly #random: Random
  readonly #livenessSec: number
  #created = 0
  /** False when only the arbiter still acts. */
  isMoving = true

  constructor(
    world: { readonly scheduler: Scheduler; readonly seed: number },
    chain: SimulatedChain,
  ) {
    this.#chain = chain
    this.#random = randomFrom(Math.imul(world.seed + 97, 0x2545f491))
    this.#livenessSec = this.#random.pick([5, 15, 30])
    chain.contracts.oracle.livenessSec = this.#livenessSec
    chain.act({
      name: 'fund',
      run: (funds) => {
        for (const each of PROPOSERS) {
          funds.put(each, { ...funds.wallet(each), dollars: PROPOSER_DOLLARS })
        }
        return []
      },
    })
    const nowSec = () => Math.floor(world.scheduler.nowMs / 1_000)
    world.scheduler.every(EVERY_US, () => this.#move(nowSec()))
  }

  #move(nowSec: number): void {
    const random = this.#random
    const [dice, at] = [random.next(), random.next()]
    const by = random.pick(PROPOSERS)
    const [outcome, isTrue] = [random.pick<Outcome>([0, 1]), random.chance(0.5)]
    const [pays, isAtOracle] = [random.chance(0.6), random.chance(0.5)]
    const expirationSec = nowSec + random.int(5, 25)
    if (!this.isMoving && dice < 0.7) return
    if (dice < 0.25) this.#created++
    const named = keccak256(stringToHex(`market ${this.#created}`))
    const { oracle } = this.#chain.contracts
    this.#chain.act({
      name: 'resolve',
      run: (funds) => {
        const markets = [...funds.markets.values()]
        const pick = (isFit: (market: ChainMarket) => boolean): ChainMarket | undefined => {
          const fit = markets.filter(isFit)
          return fit[Math.floor(at * fit.length)]
        }
        const act = (
          isFit: (market: ChainMarket) => boolean,
          run: (market: ChainMarket) => readonly ModelLog[],
        ): readonly ModelLog[] => {
          const market = pick(isFit)
          return market === undefined ? [] : run(market)
        }
        if (dice < 0.25) return this.#create(funds, named, expirationSec)
        // Does nothing in this share of the cases. Owners propose outcomes through the relayer instead.
        if (dice < 0.5 && dice > 0.36) return []
        if (dice < 0.5) {
          const proposal = { by, outcome, livenessSec: this.#livenessSec }
          return act(isProposable(funds), (market) => oracle.propose(market, proposal, funds))
        }
        if (dice < 0.6)
          return act(isDisputable(funds), (market) => oracle.dispute(market, by, funds))
        if (dice < 0.65) {
          return act(isDue(funds), (market) => {
            const settled = oracle.settle(market, { by: STRANGER, pays, isAtOracle }, funds)
            return 'revert' in settled ? [] : settled.logs
          })
        }
        return act(isDisputed, (market) => {
          oracle.decide(market, isTrue, funds)
          return []
        })
      },
    })
  }

  #create(funds: Funds, named: Hex, expirationSec: number): readonly ModelLog[] {
    const open = [...funds.markets.values()].filter(
      ({ quick, winner }) => quick === undefined && winner === undefined,
    )
    if (open.length >= MARKETS_OPEN_MAX) return []
    return this.#chain.contracts.oracle.create(
      {
        contract: named.slice(0, 42) as Address,
        marketId: keccak256(named) as string as MarketId,
        ...{ maker: MAKER, question: `Is ${named.slice(2, 6)} true?`, expirationSec },
      },
      funds,
    )
  }
}

const isProposable =
  ({ nowSec }: Funds) =>
  ({ winner, claimId, proposableFromSec }: ChainMarket): boolean =>
    winner === undefined && claimId === undefined && nowSec >= proposableFromSec

const isDisputable =
  ({ nowSec }: Funds) =>
  (market: ChainMarket): boolean => {
    const claim = openClaimOf(market)
    return claim?.disputer === undefined && (claim?.windowEndsSec ?? 0) > nowSec
  }

const isDisputed = (market: ChainMarket): boolean => {
  const claim = openClaimOf(market)
  return claim?.disputer !== undefined && claim.truth === undefined
}

/** Whether the open claim can be settled. */
export const isDue =
  ({ nowSec }: Pick<Funds, 'nowSec'>) =>
  (market: ChainMarket): boolean => {
    const claim = openClaimOf(market)
    if (claim === undefined || claim.settledBy !== undefined) return false
    return claim.disputer === undefined ? nowSec >= claim.windowEndsSec : claim.truth !== undefined
  }
