/**
 * Owners who sign operations for the relayer, and the front that sends them, with the real service of a front. Some
 * operations have a used or a future nonce; owners also redeem by themselves. Checks that every operation ends, that its
 * row says what the chain says, and that no budget of gas is exceeded.
 */

import type { MessagePort } from 'node:worker_threads'
import { type Hex, parseSignature, zeroHash } from 'viem'
import { makeRelayService } from '#api/relayer/relay-service.ts'
import { accountOf, type OwnAccount } from '#chain/accounts.ts'
import { channelOptions, contractsOf, stablecoinOf } from '#config/thread-data.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import { type Address, toAddress, type Uint256 } from '#domain/ids.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import { purposeOf, type RelayOperation, type RelayPurpose } from '#domain/relay.ts'
import { signedMessages } from '#domain/relay-messages.ts'
import type { RelayAnswer, RelayerRequests } from '#protocol/relayer.ts'
import { Channel } from '#runtime/channel.ts'
import { makeRef } from '#runtime/ref.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import type { Tables } from '../database.ts'
import type { SimulatedWorld } from '../exchange.ts'
import { newLife, Violation } from '../scheduler.ts'
import { decodedCall } from './abi.ts'
import type { Block, SimulatedChain } from './chain.ts'

const OWNERS = [1, 2, 3, 4].map((each) => accountOf(`0x${`a${each}`.repeat(32)}`))
export const OWNER_ADDRESSES = OWNERS.map(({ address }) => address)
const OWNER_DOLLARS = 500_000_000n
const EVERY_US = 900_000
const DEADLINE_MS = 10_000
const AGAIN_MS = 2_000
/** Answers after which the owner sends the request again. */
const PASSING: readonly string[] = [
  ...['OVERLOADED', 'OUTCOME_UNKNOWN', 'CHAIN_UNAVAILABLE', 'RELAYER_UNAVAILABLE'],
  ...['PART_UNAVAILABLE', 'STORAGE_FULL', 'SEQ_NOT_REACHED', 'REQUEST_TIMEOUT'],
]
const SPENT = /is used up/
const NO_SIGNATURE = { v: 27, r: zeroHash, s: zeroHash } as const

type Asked = {
  readonly operation: RelayOperation
  answer: RelayAnswer | Rejection | undefined
}

type RelayRow = {
  readonly relay_key: Buffer
  readonly kind: string
  readonly status: string
  readonly unfinished: number
  readonly tx_hash: Buffer | null
  readonly attempt: number
  readonly gas: number
}

type RelayedWorld = SimulatedWorld & { readonly chain: SimulatedChain; readonly tables: Tables }

export class Relayed {
  readonly name = 'front-relayed'
  readonly life = newLife(this.name)
  readonly #world: RelayedWorld
  readonly #random: Random
  readonly #relayer = makeRef<RelayerRequests>()
  readonly #service
  readonly #asked: Asked[] = []
  #signed = 0
  /** Gas used in the branch that ends with a block, by owner and budget. */
  readonly #spent = new WeakMap<Block, Map<string, number>>()
  isMoving = true

  constructor(world: RelayedWorld) {
    this.#world = world
    this.#random = randomFrom(Math.imul(world.seed + 101, 0x1b56c4e9))
    const { chain, scheduler, settings } = world
    const { deadlineAheadSecMax, redemptionsMax } = settings.relayer
    const { chainId, settlement, conditionalTokens, stablecoin } = chain.contracts.at
    const contracts = { settlement, conditionalTokens, stablecoin }
    const terms = { role: 'test', ...contracts, deadlineAheadSecMax, redemptionsMax } as const
    this.#service = makeRelayService({
      chains: [{ chainId, terms, relayer: this.#relayer }],
      nowMs: () => scheduler.nowMs,
    })
    chain.act({
      name: 'fund',
      run: (funds) => {
        for (const owner of OWNER_ADDRESSES) {
          funds.put(owner, { ...funds.wallet(owner), dollars: OWNER_DOLLARS })
        }
        return []
      },
    })
    scheduler.every(EVERY_US, () => {
      if (this.isMoving) this.#watch(this.#move())
    })
  }

  connectRelayer(port: MessagePort): void {
    const { settings, scheduler } = this.#world
    const options = { ...channelOptions(settings), loop: scheduler.loop(this.life) }
    this.#relayer.replace(new Channel(port, options, { received() {} }))
  }

  #watch(work: Promise<unknown>): void {
    work.catch((error) => this.#world.scheduler.fail(error))
  }

  async #move(): Promise<void> {
    const random = this.#random
    const { chain, scheduler } = this.#world
    const owner = random.pick(OWNERS)
    const operation = this.#operation(owner.address)
    if (operation === undefined) return
    const wallet = chain.head.wallets.get(owner.address)
    const next =
      (operation.kind === 'stablecoin-permit' ? wallet?.permits : wallet?.tokensNonce) ?? 0n
    const wrong = random.chance(0.15) ? random.pick([-1n, 1n]) : 0n
    const nonce = next + wrong < 0n ? 0n : next + wrong
    const asked: Asked = { operation: await this.#sign(operation, owner, nonce), answer: undefined }
    this.#asked.push(asked)
    scheduler.trace(`${this.name} asks ${asked.operation.kind} with nonce ${nonce}`)
    this.#watch(this.#ask(asked))
    // The same request twice at once.
    if (random.chance(0.1)) this.#watch(this.#ask(asked))
  }

  #operation(owner: Address): RelayOperation | undefined {
    const random = this.#random
    const { chain, scheduler } = this.#world
    const { chainId, settlement, stablecoin } = chain.contracts.at
    const deadline = String(Math.floor(scheduler.nowMs / 1_000) + random.int(20, 900)) as Uint256
    const base = { chainId, owner, deadline, ...NO_SIGNATURE }
    const [dice, at] = [random.next(), random.next()]
    if (dice < 0.3) {
      return { ...base, kind: 'ctf-approval', operator: settlement, approved: random.chance(0.7) }
    }
    if (dice < 0.6) {
      const value = String(random.int(0, 9) * 1_000_000) as Uint256
      return { ...base, kind: 'stablecoin-permit', spender: settlement, value }
    }
    const markets = [...chain.head.markets.values()].filter(({ winner }) => winner !== undefined)
    const market = markets[Math.floor(at * markets.length)]
    if (market === undefined) return undefined
    chain.contracts.know(market.marketId)
    return {
      ...{ ...base, kind: 'ctf-redemption', collateralToken: stablecoin },
      ...{ parentCollectionId: zeroHash, conditionId: market.marketId },
      indexSets: ['1', '2'] as Uint256[],
    }
  }

  async #sign(
    operation: RelayOperation,
    { account, address }: OwnAccount,
    nonce: bigint,
  ): Promise<RelayOperation> {
    const { chain, settings } = this.#world
    const [at] = settings.chains
    const { settlement, conditionalTokens } = contractsOf(at!)
    const contracts = { settlement, conditionalTokens, stablecoin: stablecoinOf(at!) }
    const [message] = signedMessages(operation, contracts, { nonce })
    const text = (await account.signTypedData?.(message as never)) as Hex
    const { r, s, yParity } = parseSignature(text)
    chain.contracts.relay.signed.set(s, { owner: address, nonce })
    this.#signed++
    return { ...operation, v: yParity === 0 ? 27 : 28, r, s } as RelayOperation
  }

  /** Sends an operation, again and again until it gets a final answer. */
  async #ask(asked: Asked): Promise<void> {
    const { scheduler } = this.#world
    const answer = await this.#service.relay(asked.operation, scheduler.nowMs + DEADLINE_MS)
    scheduler.trace(`${this.name} ${asked.operation.kind} ${JSON.stringify(answer)}`)
    const isPassing =
      isRejection(answer) && PASSING.includes(answer.rejected) && !SPENT.test(answer.detail ?? '')
    if (!isPassing) asked.answer = answer
    else {
      const again = () => this.#watch(this.#ask(asked))
      scheduler.after(AGAIN_MS * 1_000, again, this.life)
    }
  }

  /** Called with each block. Checks that the gas paid by the relayer stays within its budgets. */
  mined(block: Block): void {
    const { relayer } = this.#world.settings
    const before = block.parent === undefined ? undefined : this.#spent.get(block.parent)
    const own = block.mined.flatMap(({ transaction, gasUsed }) => {
      const found = this.#relayOf(transaction.to, transaction.data)
      return found === undefined ? [] : [{ ...found, gasUsed }]
    })
    const spent = own.length === 0 && before !== undefined ? before : new Map(before)
    this.#spent.set(block, spent)
    for (const { owner, purpose, gasUsed } of own) {
      for (const name of [`${owner} ${purpose}`, purpose]) {
        spent.set(name, (spent.get(name) ?? 0) + gasUsed)
      }
    }
    for (const [name, gas] of spent) {
      const [ownerMax, allMax] = name.endsWith('redemption')
        ? [relayer.ownerRedemptionGasPerDay, relayer.redemptionGasPerDay]
        : [relayer.ownerGasPerDay, relayer.gasPerDay]
      const isOwner = name.startsWith('0x')
      const newcomer = Math.min(ownerMax, relayer.newcomerGasPerDay)
      const newcomers = allMax - Math.ceil((allMax * relayer.tradersPercent) / 100)
      const most = isOwner ? newcomer : newcomers
      if (gas > most) throw new Violation('relay-budget', `${name} has spent ${gas} of ${most}`)
    }
  }

  #relayOf(to: Address, data: Hex): { owner: Address; purpose: RelayPurpose } | undefined {
    const { stablecoin, conditionalTokens } = this.#world.chain.contracts.at
    const abi = to === stablecoin ? testUSDCAbi : conditionalTokensAbi
    if (to !== stablecoin && to !== conditionalTokens) return undefined
    const { functionName, args } = decodedCall(abi, data)
    const isRedemption = functionName.startsWith('redeem')
    const kind = isRedemption ? 'ctf-redemption' : 'ctf-approval'
    return { owner: toAddress(String(args[0])), purpose: purposeOf(kind) }
  }

  /** Returns operations that have not ended, or whose database row differs from the chain. */
  unfinished(): string[] {
    const { tables, chain } = this.#world
    const waiting = this.#asked.flatMap(({ operation, answer }) =>
      answer === undefined ? [`${operation.kind} of ${operation.owner} has no answer`] : [],
    )
    const rows = tables.file.prepare<[], RelayRow>('select * from relays').all()
    const mined = new Map(
      chain.blocks.flatMap((block) => block.mined.map((one) => [one.transaction.hash, one])),
    )
    const different = rows.flatMap((row) => {
      const { relay_key, kind, status, unfinished, tx_hash, attempt, gas } = row
      const named = `${kind} ${relay_key.toString('hex').slice(0, 8)}`
      if (unfinished === 1) return [`${named} is ${status}`]
      const hash: Hex = `0x${tx_hash?.toString('hex') ?? ''}`
      const { succeeded = false, gasUsed = gas } = mined.get(hash) ?? {}
      if (chain.deepReorgs > 0) return []
      if (succeeded !== (status === 'confirmed')) {
        const how = succeeded ? 'succeeded' : 'not succeeded'
        return [`${named} is ${status}, but its transaction has ${how}`]
      }
      // The database row has the sum of the gas of all attempts.
      if (attempt > 1 || gas === gasUsed) return []
      return [`${named} has cost ${gasUsed} gas, and its row says ${gas}`]
    })
    return [...waiting, ...different]
  }

  /** How many operations were answered with a transaction, and how many were refused. */
  get counts(): string {
    const sent = this.#asked.filter(({ answer }) => answer !== undefined && !isRejection(answer))
    return `${sent.length} of ${this.#signed} operations relayed`
  }
}
