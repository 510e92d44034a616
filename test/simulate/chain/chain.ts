/**
 * A chain on virtual time: blocks with the state after them, a pool of transactions, reorgs, base fees, and nodes that
 * follow the newest block at their own pace. A node may still be on a branch that the chain has left.
 */

import { type Hex, keccak256, parseTransaction } from 'viem'
import { type Address, type MarketId, type OrderHash, toAddress } from '#domain/ids.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import type { Faults } from '../faults.ts'
import type { KnownTrade } from '../market-model.ts'
import { type Scheduler, Violation } from '../scheduler.ts'
import {
  type Contracts,
  EMPTY_WALLET,
  type Executed,
  type Funds,
  type ModelLog,
  type Verdict,
  type Wallet,
} from './contracts.ts'
import type { ChainMarket } from './factory.ts'

export type Transaction = {
  readonly hash: Hex
  readonly from: Address
  readonly nonce: number
  readonly to: Address
  readonly data: Hex
  readonly gas: bigint
  readonly maxFee: bigint
  readonly tip: bigint
}

/** An action of a trader or the operator on chain; mined again if a reorg removes it. */
export type Act = {
  readonly name: string
  /** Changes the funds; returns the logs. */
  readonly run: (funds: Funds) => readonly ModelLog[]
}

export type Mined = {
  readonly transaction: Transaction
  readonly succeeded: boolean
  readonly gasUsed: number
  readonly verdicts: readonly Verdict[]
  readonly logs: readonly ModelLog[]
}

export type Block = {
  readonly number: number
  readonly hash: Hex
  readonly parent: Block | undefined
  readonly atSec: number
  readonly baseFee: bigint
  readonly mined: readonly Mined[]
  readonly acts: readonly Act[]
  /** Logs of all actions in the block. Nodes report them as the logs of one transaction. */
  readonly actLogs: readonly ModelLog[]
  readonly wallets: ReadonlyMap<Address, Wallet>
  readonly markets: ReadonlyMap<Address, ChainMarket>
  /** Transactions per sender. */
  readonly counts: ReadonlyMap<Address, number>
}

export type Node = { tip: Block; heldUntilUs: number }

const GWEI = 1_000_000_000n
const BASE_FEE = 10n * GWEI
const BLANK_GAS = 21_000
/** Share of the pool's transactions that a block includes. */
const TAKEN_SHARE = 0.9

type ChainPorts = {
  readonly scheduler: Scheduler
  readonly faults: Faults
  readonly contracts: Contracts
  readonly seed: number
  readonly blockUs: number
  /** Number of blocks on top of a transaction after which settlement treats it as final. */
  readonly confirmations: number
  /** True if each block header has a filter of the block's logs. Some chains leave the filter empty. */
  readonly hasFilters?: boolean
}

export class SimulatedChain {
  readonly contracts: Contracts
  readonly nodes: readonly Node[]
  readonly confirmations: number
  readonly hasFilters: boolean
  readonly #ports: ChainPorts
  readonly #random: Random
  /** Blocks of the chain by number. */
  readonly blocks: Block[] = []
  readonly #pool = new Map<Hex, Transaction>()
  #acts: Act[] = []
  /** Blocks, on any branch, in which a trade settled or a market was prepared. */
  readonly #settledIn = new Map<string, Block[]>()
  readonly #filledIn = new Map<OrderHash, { readonly block: Block; readonly size: number }[]>()
  readonly #preparedIn = new Map<MarketId, Block[]>()
  #baseFee = BASE_FEE
  #spikeUntilUs = 0
  #forks = 0
  /** Every refusal of a trade by the contract, in calls and in blocks. */
  readonly refusals = new Map<string, Set<string>>()
  reorgs = 0
  /** Reorgs that removed final blocks. */
  deepReorgs = 0
  /** Called with the hash of each transaction that reaches a pool. */
  onPooled: (hash: Hex) => void = () => {}
  /** Called for each new block. */
  onBlock: (block: Block) => void = () => {}

  constructor(ports: ChainPorts) {
    this.#ports = ports
    this.contracts = ports.contracts
    this.confirmations = ports.confirmations
    this.hasFilters = ports.hasFilters === true
    this.#random = randomFrom(Math.imul(ports.seed + 17, 0x7feb352d))
    const genesis: Block = {
      ...{ number: 0, hash: hashOf(0, 0), parent: undefined, atSec: this.#nowSec },
      ...{ baseFee: BASE_FEE, mined: [], acts: [], actLogs: [] },
      ...{ wallets: new Map(), markets: new Map(), counts: new Map() },
    }
    this.blocks.push(genesis)
    this.nodes = [0, 1].map(() => ({ tip: genesis, heldUntilUs: 0 }))
    ports.scheduler.every(ports.blockUs, () => this.#step())
  }

  get #nowSec(): number {
    return Math.floor(this.#ports.scheduler.nowMs / 1_000)
  }

  get head(): Block {
    return this.blocks.at(-1)!
  }

  act(act: Act): void {
    this.#acts.push(act)
  }

  /** Adds a raw transaction to the pool; throws the node's error. */
  submit(raw: Hex, senderOf: (hash: Hex) => Address, node: Node): Hex {
    const parsed = parseTransaction(raw)
    const hash = keccak256(raw)
    const from = senderOf(hash)
    const to = toAddress(parsed.to ?? this.contracts.at.operator)
    const { nonce = 0, maxFeePerGas: maxFee = 0n, maxPriorityFeePerGas: tip = 0n } = parsed
    const { gas = 0n, data = '0x' } = parsed
    if (nonce < (node.tip.counts.get(from) ?? 0)) throw new RpcTrouble('nonce too low')
    if (this.#pool.has(hash)) throw new RpcTrouble('already known')
    const rival = [...this.#pool.values()].find(
      (each) => each.from === from && each.nonce === nonce,
    )
    const isBetter = (more: bigint, less: bigint) => more * 100n >= less * 110n
    if (rival !== undefined) {
      if (!isBetter(maxFee, rival.maxFee) || !isBetter(tip, rival.tip)) {
        throw new RpcTrouble('replacement transaction underpriced')
      }
      this.#pool.delete(rival.hash)
    }
    this.#pool.set(hash, { hash, from, nonce, to, data, gas, maxFee, tip })
    this.onPooled(hash)
    this.#ports.scheduler.trace(`chain pools ${hash.slice(2, 10)} nonce ${nonce} at ${maxFee}`)
    return hash
  }

  pendingCount(from: Address, node: Node): number {
    let count = node.tip.counts.get(from) ?? 0
    const nonces = new Set(
      [...this.#pool.values()].filter((each) => each.from === from).map(({ nonce }) => nonce),
    )
    while (nonces.has(count)) count++
    return count
  }

  /** True if the block is in the branch that ends with `tip`. */
  isIn(block: Block, tip: Block): boolean {
    if (block.number > tip.number) return false
    let at: Block | undefined = tip
    // `blocks` has the current branch. Backwards from `tip`, the loop visits only blocks of other branches, and ends at
    // the first block of the current branch.
    while (at !== undefined && this.blocks[at.number] !== at) {
      if (at === block) return true
      at = at.parent
    }
    return at !== undefined && block.number <= at.number && this.blocks[block.number] === block
  }

  blockAt(number: number, tip: Block): Block | undefined {
    if (number < 0 || number > tip.number) return undefined
    let at: Block | undefined = tip
    while (at !== undefined && this.blocks[at.number] !== at) {
      if (at.number === number) return at
      at = at.parent
    }
    return this.blocks[number]
  }

  isSettled(tradeKey: string, tip: Block = this.head): boolean {
    return this.#settledIn.get(tradeKey)?.some((block) => this.isIn(block, tip)) === true
  }

  /** True if a trade of the log has settled in the branch that ends with `tip`. */
  hasSettled(trade: KnownTrade, tip: Block = this.head): boolean {
    const { tradeId, size, price, buy, sell } = trade
    const orders = { buyOrderHash: buy.orderHash, sellOrderHash: sell.orderHash }
    return this.isSettled(this.contracts.tradeKeyOf({ tradeId, size, price, ...orders }), tip)
  }

  /** Returns the funds after a block. Changes go to copies and leave the block as it is. */
  funds(at: Block): Funds & {
    readonly wallets: Map<Address, Wallet>
    readonly prepared: Set<MarketId>
  } {
    const wallets = new Map(at.wallets)
    const markets = new Map(at.markets)
    const prepared = new Set<MarketId>()
    return {
      wallets,
      markets,
      prepared,
      nowSec: this.#nowSec,
      isPaused: false,
      wallet: (owner) => wallets.get(owner) ?? EMPTY_WALLET,
      put: (owner, wallet) => void wallets.set(owner, wallet),
      filledOf: (orderHash) =>
        (this.#filledIn.get(orderHash) ?? [])
          .filter(({ block }) => this.isIn(block, at))
          .reduce((sum, { size }) => sum + size, 0),
      cancelledFromSec: (orderHash) => {
        for (const { rights } of wallets.values()) {
          const fromSec = rights.cancelled.get(orderHash)
          if (fromSec !== undefined) return fromSec
        }
        return 0
      },
      isSettled: (tradeKey) => this.isSettled(tradeKey, at),
      isPrepared: (marketId) =>
        prepared.has(marketId) ||
        this.#preparedIn.get(marketId)?.some((block) => this.isIn(block, at)) === true,
      prepare: (marketId) => void prepared.add(marketId),
      market: (contract) => markets.get(contract),
      marketOf: (id) => [...markets.values()].find(({ marketId }) => marketId === id),
      putMarket: (market) => void markets.set(market.contract, market),
    }
  }

  /** Simulates a transaction after a block. */
  call(to: Address, from: Address, data: Hex, at: Block): Executed | undefined {
    const executed = this.contracts.execute(to, from, data, this.funds(at))
    if (executed !== undefined && 'verdicts' in executed) this.#note(executed.verdicts)
    return executed
  }

  #note(verdicts: readonly Verdict[]): void {
    for (const { tradeId, fault, reason } of verdicts) {
      if (reason === 'None') continue
      const known = this.refusals.get(tradeId) ?? new Set()
      this.refusals.set(tradeId, known)
      known.add(fault)
    }
  }

  #step(): void {
    const { faults, scheduler } = this.#ports
    if (faults.strikes('reorg') && this.confirmations > 0) {
      this.#reorg(faults.of('reorg').int(1, this.confirmations), faults.of('reorg'))
    }
    if (faults.strikes('reorg-deep')) {
      this.deepReorgs++
      const random = faults.of('reorg-deep')
      this.#reorg(this.confirmations + random.int(1, 4), random)
    }
    if (faults.strikes('tx-dropped')) this.#dropOne(faults.of('tx-dropped'))
    if (faults.strikes('fee-spike')) {
      this.#spikeUntilUs = scheduler.nowUs + faults.of('fee-spike').int(1_000_000, 20_000_000)
      this.#baseFee = BASE_FEE * BigInt(faults.of('fee-spike').int(2, 40))
    } else if (scheduler.nowUs > this.#spikeUntilUs) this.#baseFee = BASE_FEE
    this.#mine()
    for (const node of this.nodes) this.#feed(node)
  }

  /** Passes the newest block on to a node, unless it lags. */
  #feed(node: Node): void {
    const { faults, scheduler } = this.#ports
    if (faults.strikes('rpc-lag')) {
      node.heldUntilUs = scheduler.nowUs + faults.of('rpc-lag').int(100_000, 15_000_000)
    }
    if (faults.healed) node.heldUntilUs = 0
    const { head } = this
    scheduler.after(this.#random.int(100, 50_000), () => {
      if (scheduler.nowUs < node.heldUntilUs) return
      // A delayed head is ignored if the node already has a later block of the current branch.
      if (head.number >= node.tip.number || !this.isIn(node.tip, this.head)) node.tip = head
    })
  }

  #mine(): void {
    const parent = this.head
    const acts = this.#acts
    this.#acts = []
    const funds = this.funds(parent)
    const actLogs = acts.flatMap(({ run }) => run(funds))
    const counts = new Map(parent.counts)
    const mined: Mined[] = []
    const filled: { orderHash: OrderHash; size: number }[] = []
    const settled: string[] = []
    const within: Funds = {
      ...funds,
      filledOf: (hash) =>
        funds.filledOf(hash) +
        filled.reduce((sum, each) => sum + (each.orderHash === hash ? each.size : 0), 0),
      isSettled: (tradeKey) => settled.includes(tradeKey) || funds.isSettled(tradeKey),
    }
    for (const transaction of this.#next(counts)) {
      this.#pool.delete(transaction.hash)
      counts.set(transaction.from, transaction.nonce + 1)
      mined.push(this.#execute(transaction, within))
      for (const { reason, tradeKey, buyHash, sellHash, size } of mined.at(-1)!.verdicts) {
        if (reason !== 'None') continue
        settled.push(tradeKey)
        filled.push({ orderHash: buyHash, size }, { orderHash: sellHash, size })
      }
    }
    const number = parent.number + 1
    const block: Block = {
      ...{ number, hash: hashOf(number, this.#forks), parent, atSec: this.#nowSec },
      ...{ baseFee: this.#baseFee, mined, acts, actLogs, counts },
      ...{ wallets: funds.wallets, markets: funds.markets },
    }
    for (const tradeKey of settled) push(this.#settledIn, tradeKey, block)
    for (const { orderHash, size } of filled) push(this.#filledIn, orderHash, { block, size })
    for (const marketId of funds.prepared) push(this.#preparedIn, marketId, block)
    this.blocks.push(block)
    if (mined.length > 0) {
      const names = mined.map(({ transaction }) => transaction.hash.slice(2, 10)).join(' ')
      this.#ports.scheduler.trace(`chain block ${number}: ${names}, settles ${settled.length}`)
    }
    this.onBlock(block)
  }

  #execute(transaction: Transaction, funds: Funds): Mined {
    const { contracts } = this
    const { to, from, data, gas } = transaction
    const executed = contracts.execute(to, from, data, funds, gas)
    if (executed === undefined) {
      return { transaction, succeeded: true, gasUsed: BLANK_GAS, verdicts: [], logs: [] }
    }
    if ('revert' in executed) {
      return { transaction, succeeded: false, gasUsed: 2 * BLANK_GAS, verdicts: [], logs: [] }
    }
    const { verdicts, logs } = executed
    this.#note(verdicts)
    const gasUsed = 4 * BLANK_GAS * (1 + verdicts.length)
    return { transaction, succeeded: true, gasUsed, verdicts, logs }
  }

  /** Returns the transactions of the pool that the next block includes, in the order of their nonces. */
  #next(counts: ReadonlyMap<Address, number>): Transaction[] {
    const next = new Map(counts)
    const taken: Transaction[] = []
    const waiting = [...this.#pool.values()].sort((a, b) => a.nonce - b.nonce)
    for (const transaction of waiting) {
      const { from, nonce, maxFee, hash } = transaction
      if (nonce < (next.get(from) ?? 0)) this.#pool.delete(hash)
      if (nonce !== (next.get(from) ?? 0) || maxFee < this.#baseFee) continue
      if (!this.#random.chance(TAKEN_SHARE)) continue
      next.set(from, nonce + 1)
      taken.push(transaction)
    }
    return taken
  }

  /** Removes blocks. Their transactions go back to the pool, or are lost. */
  #reorg(blocks: number, random: Random): void {
    const depth = Math.min(blocks, this.head.number - 1)
    if (depth < 1) return
    this.#forks++
    this.reorgs++
    const removed = this.blocks.splice(-depth)
    this.#ports.scheduler.trace(`chain reorg from block ${removed[0]?.number}`)
    this.#acts = [...removed.flatMap(({ acts }) => acts), ...this.#acts]
    for (const { transaction } of removed.flatMap(({ mined }) => mined)) {
      const rival = [...this.#pool.values()].some(
        ({ from, nonce }) => from === transaction.from && nonce === transaction.nonce,
      )
      if (!rival && !random.chance(0.3)) this.#pool.set(transaction.hash, transaction)
    }
    // A branch replaces another only if it is longer.
    for (let count = 0; count <= depth; count++) this.#mine()
  }

  #dropOne(random: Random): void {
    const pooled = [...this.#pool.keys()]
    if (pooled.length > 0) this.#pool.delete(random.pick(pooled))
  }

  /** Asserts that a block conserves dollars and shares. */
  assertConserved(block: Block, dollars: bigint): void {
    let sum = 0n
    const shares = new Map<string, bigint>()
    for (const wallet of block.wallets.values()) {
      sum += wallet.dollars
      for (const [token, amount] of wallet.shares) {
        if (amount < 0n) throw new Violation('conserved', `a balance of ${token} is ${amount}`)
        shares.set(token, (shares.get(token) ?? 0n) + amount)
      }
      if (wallet.dollars < 0n) throw new Violation('conserved', `a balance is ${wallet.dollars}`)
    }
    for (const [token, amount] of shares) {
      if (!token.endsWith('/0')) continue
      const other = shares.get(`${token.slice(0, -1)}1`) ?? 0n
      if (other !== amount) throw new Violation('conserved', `${amount} YES and ${other} NO`)
      sum += amount
    }
    if (sum !== dollars) throw new Violation('conserved', `${sum} dollars, not ${dollars}`)
  }
}

/** An error that a node returns. */
export class RpcTrouble extends Error {}

function hashOf(number: number, fork: number): Hex {
  return `0x${(number * 1_000_003 + fork + 1).toString(16).padStart(64, 'b')}`
}

function push<Key, Item>(lists: Map<Key, Item[]>, key: Key, item: Item): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [item])
  else list.push(item)
}
